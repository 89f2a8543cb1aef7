"""Normalisation operators with forward, backward and double backward, registered with torch.

This package needs torch and triton and nothing else, so that it can be measured on any machine.
"""

from shared.kernels.norm import norm, norm_with_statistics
from shared.kernels.pointwise import pointwise
from shared.kernels.registry import OPERATORS, forget_ran, implementation, ran

__all__ = [
    "OPERATORS",
    "forget_ran",
    "implementation",
    "norm",
    "norm_with_statistics",
    "pointwise",
    "ran",
]
