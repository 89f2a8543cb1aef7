"""Differentiable operators that are measured, on shapes, with the peers that can do the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from shared.kernels import norm, pointwise
from shared.norms.benchmark import peers
from shared.norms.benchmark.steps import NETS, bottleneck_shapes
from shared.norms.modulation import adain
from shared.norms.weight import scaled_standardise_weight, standardise_weight

Function = Callable[..., Tensor]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Row:
    """One operator on one shape: functions of tensors made by `shapes`, x first.

    `torch` is what a user of torch alone would write; in float64 it is the truth. The bytes are
    the least traffic, in tensors of x's size; `orders` is how often it is differentiated.
    """

    operator: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    ours: Mapping[str, Function]
    torch: Function
    name: str = ""
    layout: str = "contiguous"
    forward_bytes: float = 2
    backward_bytes: float = 3
    orders: int = 2
    peers: Mapping[str, Function] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """For the table."""
        shape = self.name or "x".join(map(str, self.shapes[0]))
        return f"{shape} {self.dtype}" + ("" if self.layout == "contiguous" else f" {self.layout}")

    def inputs(self, device: str, seed: int = 0) -> list[Tensor]:
        """The tensors, all with gradients; those of x's shape in x's layout."""
        torch.manual_seed(seed)
        made = []
        for shape in self.shapes:
            t = torch.randn(shape).to(device, DTYPES[self.dtype])
            if self.layout == "channels_last" and len(shape) == 4:
                t = t.to(memory_format=torch.channels_last)
            made.append(t.requires_grad_())
        return made


class Table:
    """Collects the rows of a device."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.implementations = ("auto", "native", "cpp" if device == "cpu" else "triton")
        self.rows: list[Row] = []

    def ours(self, function: Callable[[str], Function]) -> dict[str, Function]:
        """A function for `auto`, and for each implementation that a device has."""
        return {i: function(i) for i in self.implementations}

    def add(self, *args: object, **settings: object) -> None:
        self.rows.append(Row(*args, **settings))  # type: ignore[arg-type]

    def layer(self, shape: tuple[int, int], dtype: str) -> None:
        d = shape[1]
        ours = self.ours(lambda i: lambda x, w, b: norm(x, w, b, groups=1, impl=i))
        found = peers.layer_norm(self.device)
        shapes = (shape, (d,), (d,))
        self.add(
            "layer_norm",
            shapes,
            dtype,
            ours,
            lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b),
            peers=found,
        )

    def rms(self, shape: tuple[int, int], dtype: str) -> None:
        d = shape[1]
        ours = self.ours(
            lambda i: lambda x, w: norm(x, w, groups=1, centre=False, eps=1e-5, impl=i)
        )
        found = peers.rms_norm(self.device)
        self.add(
            "rms_norm",
            (shape, (d,)),
            dtype,
            ours,
            lambda x, w: F.rms_norm(x, x.shape[1:], w, 1e-5),
            peers=found,
        )

    def add_norm(self, shape: tuple[int, int], dtype: str) -> None:
        d = shape[1]
        ours = self.ours(
            lambda i: lambda x, r, w: norm(x + r, w, groups=1, centre=False, eps=1e-5, impl=i)
        )
        self.add(
            "add_rms_norm",
            (shape, shape, (d,)),
            dtype,
            ours,
            lambda x, r, w: F.rms_norm(x + r, x.shape[1:], w, 1e-5),
            forward_bytes=4,
            backward_bytes=4,
        )

    def saturating(self, function: str, shape: tuple[int, int], dtype: str) -> None:
        f = {"tanh": torch.tanh, "erf": torch.erf}[function]

        def ours(impl: str) -> Function:
            return lambda x, w, b, s: pointwise(
                x, s, weight=w, bias=b, function=function, impl=impl
            )

        shapes = (shape, (shape[1],), (shape[1],), (1,))
        operator = {"tanh": "dyt", "erf": "derf"}[function]
        self.add(operator, shapes, dtype, self.ours(ours), lambda x, w, b, s: f(x * s) * w + b)

    def batch(self, shape: tuple[int, ...], dtype: str, layout: str, tail: bool = False) -> None:
        c = shape[1]

        def ours(impl: str) -> Function:
            def call(x: Tensor, w: Tensor, b: Tensor, *residual: Tensor) -> Tensor:
                y = norm(x, w, b, groups=0, impl=impl)
                return F.silu(y + residual[0]) if residual else y

            return call

        def native(x: Tensor, w: Tensor, b: Tensor, *residual: Tensor) -> Tensor:
            y = F.batch_norm(x, None, None, w, b, training=True)
            return F.silu(y + residual[0]) if residual else y

        self.add(
            "batch_norm+residual+silu" if tail else "batch_norm",
            (shape, (c,), (c,), shape) if tail else (shape, (c,), (c,)),
            dtype,
            self.ours(ours),
            native,
            layout=layout,
            forward_bytes=4 if tail else 3,
            backward_bytes=6 if tail else 5,
        )

    def group(
        self, shape: tuple[int, ...], dtype: str, groups: int, layout: str, silu: bool = False
    ) -> None:
        c = shape[1]
        last: Function = F.silu if silu else lambda y: y
        each = groups == c  # instance norm

        def ours(impl: str) -> Function:
            def call(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
                return last(norm(x, w, b, groups=x.shape[1] if each else groups, impl=impl))

            return call

        def native(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
            return last(F.group_norm(x, x.shape[1] if each else groups, w, b))

        self.add(
            "instance_norm" if each else "group_norm+silu" if silu else "group_norm",
            (shape, (c,), (c,)),
            dtype,
            self.ours(ours),
            native,
            layout=layout,
        )

    def adain(self, shape: tuple[int, ...], dtype: str) -> None:
        def native(x: Tensor, style: Tensor) -> Tensor:
            var, mean = torch.var_mean(style, (2, 3), correction=0, keepdim=True)
            y = F.instance_norm(x, use_input_stats=True, eps=1e-5)
            return y * (var + 1e-5).sqrt() + mean

        ours = self.ours(lambda i: lambda x, style: adain(x, style, impl=i))
        self.add("adain", (shape, shape), dtype, ours, native, forward_bytes=3, backward_bytes=5)

    def spade(self, shape: tuple[int, ...], dtype: str) -> None:
        def native(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
            return F.batch_norm(x, None, None, training=True) * (1 + gamma) + beta

        ours = self.ours(lambda i: lambda x, w, b: norm(x, 1 + w, b, groups=0, impl=i))
        shapes = (shape,) * 3
        self.add("spade", shapes, dtype, ours, native, forward_bytes=5, backward_bytes=8)

    def weights(self, net: str, scaled: bool) -> None:
        """Weight standardisation of all layers of a net."""
        shapes = tuple(bottleneck_shapes(NETS[net]))
        one = scaled_standardise_weight if scaled else standardise_weight

        def formula(w: Tensor) -> Tensor:
            var, mean = torch.var_mean(w, (1, 2, 3), correction=0, keepdim=True)
            if not scaled:
                return (w - mean) * torch.rsqrt(var + 1e-10)
            return (w - mean) * torch.rsqrt((var * w[0].numel()).clamp_min(1e-4))

        def of_all(f: Function) -> Function:
            return lambda *ws: torch.cat([f(w).flatten() for w in ws])

        self.add(
            "scaled_weight_standardisation" if scaled else "weight_standardisation",
            shapes,
            "float32",
            {"auto": of_all(one)},
            of_all(formula),
            name=f"all layers of {net}",
            orders=1,
        )


def rows(device: str) -> list[Row]:
    """The table for a kind of device: the targets' shapes on a GPU, smaller ones on a CPU."""
    table = Table(device)
    wide = (256, 1024, 4096, 8192, 32768)
    matrices = [(32768, d) for d in wide] + [(8192, 65536), (8192, 131072), (512, 256)]
    maps = [(32, c, s, s) for c in (64, 256, 512) for s in (64, 32, 16)]
    modulated = [(4, c, s, s) for c, s in ((64, 256), (256, 64), (1024, 16))]
    added = [(n, d) for n in (4096, 32768) for d in (1024, 4096, 8192)]
    if device == "cpu":
        matrices = [(512, 256), (4096, 256), (2048, 1024), (512, 8192)]
        maps = [(64, 32, 16, 16), (32, 64, 32, 32)]
        modulated, added = [(4, 64, 32, 32)], [(2048, 1024)]
    for dtype in DTYPES:
        # On a CPU half precision is rare: one shape of each kind shows where it stands.
        few = device == "cpu" and dtype == "bfloat16"
        for shape in matrices[2:3] if few else matrices:
            table.layer(shape, dtype)
            table.rms(shape, dtype)
            table.saturating("tanh", shape, dtype)
            table.saturating("erf", shape, dtype)
        for shape in added:
            table.add_norm(shape, dtype)
        for shape4 in maps[1:2] if few else maps:
            for layout in ("contiguous", "channels_last"):
                table.batch(shape4, dtype, layout)
                table.batch(shape4, dtype, layout, tail=True)
                table.group(shape4, dtype, 8, layout)
                table.group(shape4, dtype, shape4[1], layout)
            table.group(shape4, dtype, 8, "contiguous", silu=True)
            table.adain(shape4, dtype)
        for shape4 in modulated:
            table.spade(shape4, dtype)
    for net in NETS if device == "cuda" else ["NF-ResNet-26"]:
        table.weights(net, scaled=False)
        table.weights(net, scaled=True)
    return table.rows
