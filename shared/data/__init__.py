"""Data sets: fetch verified bytes, prepare arrays, load them, and batch them in memory.

`python -m shared.data fetch NAME` and `python -m shared.data prepare NAME`; then `load.load(NAME)`
and `loader.ArrayLoader`. Only the loader imports torch.
"""
