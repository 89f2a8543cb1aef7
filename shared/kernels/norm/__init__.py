"""Normalisation over groups of a tensor: layer, RMS, group, instance and batch norm."""

from shared.kernels.norm.op import norm, norm_with_statistics

__all__ = ["norm", "norm_with_statistics"]
