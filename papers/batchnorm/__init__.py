"""Batch Normalization: faster training of deep networks, and at higher learning rates."""
