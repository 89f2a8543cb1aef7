"""Programs that measure speed; docs/performance.md holds what they printed."""
