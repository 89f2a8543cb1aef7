"""The contract of the operators holds for the layers that are built on them.

The truth is the same layer in float64 on the `reference` implementation.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from shared import norms
from tests.kernels.contract import error, to_second_order, tolerance

Make = Callable[[str], nn.Module]
LAYERS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "LayerNorm": (lambda i: norms.LayerNorm(9, impl=i), (2, 3, 9)),
    "RMSNorm": (lambda i: norms.RMSNorm(9, eps=1e-5, impl=i), (4, 9)),
    "BatchNorm1d": (lambda i: norms.BatchNorm1d(3, impl=i), (7, 3)),
    "BatchNorm2d": (lambda i: norms.BatchNorm2d(3, impl=i), (3, 3, 2, 5)),
    "BatchNorm3d": (lambda i: norms.BatchNorm3d(3, impl=i), (2, 3, 2, 2, 3)),
    "GroupNorm": (lambda i: norms.GroupNorm(2, 4, impl=i), (3, 4, 2, 5)),
    "InstanceNorm1d": (lambda i: norms.InstanceNorm1d(3, affine=True, impl=i), (2, 3, 7)),
    "InstanceNorm2d": (lambda i: norms.InstanceNorm2d(3, affine=True, impl=i), (2, 3, 2, 5)),
    "InstanceNorm3d": (lambda i: norms.InstanceNorm3d(3, affine=True, impl=i), (2, 3, 2, 2, 3)),
}
INPUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda x: x,
    "offset 1e6": lambda x: x + 1e6,
    "constant": lambda x: torch.full_like(x, 1234.567),
    "bfloat16": lambda x: x.bfloat16(),
    "channels-last": lambda x: x.transpose(1, -1).contiguous().transpose(1, -1),
    "every second": lambda x: torch.stack([x, x], 1).flatten(0, 1)[::2],
}
by_impl = pytest.mark.parametrize("impl", ["native", "cpp", "triton"])


def as_function(layer: nn.Module) -> tuple[Callable[..., Tensor], list[Tensor]]:
    """The layer as a function of x and its parameters, and random values of these."""
    names = [name for name, _ in layer.named_parameters()]

    def call(x: Tensor, *values: Tensor) -> Tensor:
        given = dict(zip(names, values, strict=True))
        result: Tensor = torch.func.functional_call(layer, given, x)
        return result

    return call, [torch.randn(p.shape) for p in layer.parameters()]


@by_impl
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_keep_the_contract(name: str, kind: str, impl: str) -> None:
    make, shape = LAYERS[name]
    x = INPUTS[kind](torch.randn(shape))
    function, parameters = as_function(make(impl))
    truth, _ = as_function(make("reference").double())
    got = to_second_order(function, [x, *parameters])
    expected = to_second_order(truth, [t.double() for t in (x, *parameters)])
    for order, (results, wanted) in enumerate(zip(got, expected, strict=True)):
        for g, e in zip(results, wanted, strict=True):
            # The truth's cotangents are not rounded to half precision: one more rounding.
            bound = 2 * tolerance(x.dtype, x.numel(), order)
            # The gradients of constant rows are differences of equal terms of size rstd.
            floor = 316.3**order if kind == "constant" else 0.0
            assert error(g, e, floor) <= bound


@by_impl
@pytest.mark.parametrize("name", [n for n in LAYERS if not n.startswith("Batch")])
def test_layers_take_an_empty_batch(name: str, impl: str) -> None:
    make, shape = LAYERS[name]
    x = torch.empty(0, *shape[1:], requires_grad=True)
    layer = make(impl)
    layer(x).sum().backward()
    assert all(bool((p.grad == 0).all()) for p in layer.parameters() if p.grad is not None)
