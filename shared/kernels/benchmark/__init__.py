"""Measures the operators beside their peers: `python -m shared.kernels.benchmark --help`."""
