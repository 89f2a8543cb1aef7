"""What `auto` runs; written by `python -m shared.norms.benchmark --write-table`.

Python, not data: the digest of a result's code is read from imported modules alone, and another
table may change the last digits of a result.
"""

# (operator, size class, type, device, phase): the fastest implementation where it is not the usual
# one, which is `cpp` on a CPU, else `native`.
FASTEST: dict[tuple[str, str, str, str, str], str] = {}
