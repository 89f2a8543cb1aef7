"""One package per paper. A paper imports `shared`, never another paper."""
