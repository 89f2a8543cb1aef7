"""Element-wise layers that stand where a norm would: DyT, Derf and Fixup's scalar tail."""

from shared.kernels.pointwise.formula import FUNCTIONS
from shared.kernels.pointwise.op import pointwise

__all__ = ["FUNCTIONS", "pointwise"]
