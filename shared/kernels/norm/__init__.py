"""Normalisation over groups of a tensor: layer, RMS, group, instance and batch norm."""

from shared.kernels.norm.op import norm, norm_with_statistics
from shared.kernels.norm.running import track_, variance

__all__ = ["norm", "norm_with_statistics", "track_", "variance"]
