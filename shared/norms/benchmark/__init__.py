"""Measures the norms beside their peers: `python -m shared.norms.benchmark --help`."""
