"""What is measured: operators on shapes, with the peers that can do the same."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from shared.kernels.norm import norm
from shared.kernels.pointwise import pointwise

Function = Callable[..., Tensor]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Row:
    """One operator on one shape; `ours`, `native` and `truth` take x, weight and bias.

    `forward_bytes` and `backward_bytes` are the least traffic, in tensors of x's size.
    """

    operator: str
    shape: tuple[int, ...]
    dtype: str
    ours: Callable[[str], Function]
    native: Function
    affine: int = 2
    layout: str = "contiguous"
    forward_bytes: int = 2
    backward_bytes: int = 3
    peers: dict[str, Function] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """For the table."""
        shape = "x".join(map(str, self.shape))
        return f"{shape} {self.dtype}" + ("" if self.layout == "contiguous" else f" {self.layout}")

    def inputs(self, device: str, seed: int = 0) -> list[Tensor]:
        """x, weight and bias, all with gradients."""
        torch.manual_seed(seed)
        x = torch.randn(self.shape, device=device, dtype=DTYPES[self.dtype])
        if self.layout == "channels_last":
            x = x.to(memory_format=torch.channels_last)
        kind = torch.float32 if self.operator.startswith("dyt") else x.dtype
        affine = [torch.randn(self.shape[1], device=device).to(kind) for _ in range(self.affine)]
        return [t.requires_grad_() for t in (x, *affine)]


def _norm(groups: int, centre: bool = True) -> Callable[[str], Function]:
    return lambda impl: lambda *a: norm(*a, groups=groups, centre=centre, impl=impl)


def _layer(shape: tuple[int, ...], dtype: str) -> Row:
    def native(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[1:], w, b)

    return Row("layer_norm", shape, dtype, _norm(1), native)


def _rms(shape: tuple[int, ...], dtype: str) -> Row:
    def native(x: Tensor, w: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[1:], w, 1e-5)

    return Row("rms_norm", shape, dtype, _norm(1, False), native, affine=1, peers=_rms_peers())


def _rms_peers() -> dict[str, Function]:
    """Other packages' kernels, where they are installed; never needed by users."""
    peers: dict[str, Function] = {}
    if importlib.util.find_spec("liger_kernel"):
        liger = importlib.import_module("liger_kernel.ops.rms_norm").LigerRMSNormFunction
        peers["liger"] = lambda x, w: liger.apply(x, w, 1e-5)
    if importlib.util.find_spec("quack"):
        quack = importlib.import_module("quack")
        peers["quack"] = lambda x, w: quack.rmsnorm(x, w, eps=1e-5)
    return peers


def _batch(shape: tuple[int, ...], dtype: str, layout: str) -> Row:
    def native(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.batch_norm(x, None, None, w, b, training=True)

    return Row("batch_norm", shape, dtype, _norm(0), native, 2, layout, 3, 5)


def _group(shape: tuple[int, ...], dtype: str, groups: int, layout: str) -> Row:
    def native(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.group_norm(x, groups, w, b)

    name = "instance_norm" if groups == shape[1] else "group_norm"
    return Row(name, shape, dtype, _norm(groups), native, 2, layout)


def _dyt(shape: tuple[int, ...], dtype: str) -> Row:
    slope = 0.5

    def ours(impl: str) -> Function:
        def call(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
            alpha = torch.full((1,), slope, device=x.device)
            return pointwise(x, alpha, None, None, w, b, function="tanh", impl=impl)

        return call

    def native(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return (torch.tanh(x * slope) * w + b).to(x.dtype)

    return Row("dyt", shape, dtype, ours, native)


def rows(device: str) -> list[Row]:
    """The table for a kind of device: the targets' shapes on a GPU, smaller ones on a CPU."""
    matrix = [(512, 256), (4096, 256), (2048, 1024), (512, 8192)]
    maps = [(64, 32, 16, 16), (32, 64, 32, 32)]
    dtypes = ["float32"]
    if device == "cuda":
        wide = (256, 1024, 4096, 8192, 32768)
        matrix = [(32768, d) for d in wide] + [(8192, 65536), (8192, 131072), (512, 256)]
        maps = [(32, c, s, s) for c in (64, 256, 512) for s in (64, 32, 16)]
        dtypes = ["bfloat16", "float32"]
    table = [make(s, d) for d in dtypes for make in (_layer, _rms, _dyt) for s in matrix]
    for dtype in dtypes:
        for shape in maps:
            for layout in ("contiguous", "channels_last"):
                table.append(_batch(shape, dtype, layout))
                table.append(_group(shape, dtype, 8, layout))
                table.append(_group(shape, dtype, shape[1], layout))
    return table
