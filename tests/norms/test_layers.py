"""Layers: equal to torch's of the same name where torch is right, exchangeable with them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from shared import norms
from shared.norms import REGISTRY
from tests.kernels.contract import plain_norm

Pair = tuple[Callable[[], nn.Module], Callable[[], nn.Module], tuple[int, ...]]
PAIRS: dict[str, Pair] = {
    "layer": (lambda: norms.LayerNorm(6), lambda: nn.LayerNorm(6), (4, 5, 6)),
    "layer-2d": (lambda: norms.LayerNorm([3, 4]), lambda: nn.LayerNorm([3, 4]), (5, 3, 4)),
    "layer-no-bias": (
        lambda: norms.LayerNorm(6, bias=False),
        lambda: nn.LayerNorm(6, bias=False),
        (4, 6),
    ),
    "rms": (lambda: norms.RMSNorm(6), lambda: nn.RMSNorm(6), (4, 5, 6)),
    "rms-eps": (lambda: norms.RMSNorm(6, eps=1e-3), lambda: nn.RMSNorm(6, eps=1e-3), (4, 6)),
    "batch-1d": (lambda: norms.BatchNorm1d(6), lambda: nn.BatchNorm1d(6), (5, 6)),
    "batch-1d-maps": (lambda: norms.BatchNorm1d(6), lambda: nn.BatchNorm1d(6), (5, 6, 7)),
    "batch-2d": (lambda: norms.BatchNorm2d(6), lambda: nn.BatchNorm2d(6), (5, 6, 3, 4)),
    "batch-mean": (
        lambda: norms.BatchNorm2d(6, momentum=None),
        lambda: nn.BatchNorm2d(6, momentum=None),
        (5, 6, 3, 4),
    ),
    "batch-plain": (
        lambda: norms.BatchNorm2d(6, affine=False, track_running_stats=False),
        lambda: nn.BatchNorm2d(6, affine=False, track_running_stats=False),
        (5, 6, 3, 4),
    ),
    "batch-3d": (lambda: norms.BatchNorm3d(6), lambda: nn.BatchNorm3d(6), (3, 6, 2, 3, 4)),
    "group": (lambda: norms.GroupNorm(3, 6), lambda: nn.GroupNorm(3, 6), (5, 6, 3, 4)),
    "instance-1d": (
        lambda: norms.InstanceNorm1d(6, affine=True),
        lambda: nn.InstanceNorm1d(6, affine=True),
        (5, 6, 7),
    ),
    "instance-2d": (lambda: norms.InstanceNorm2d(6), lambda: nn.InstanceNorm2d(6), (5, 6, 3, 4)),
    "instance-tracked": (
        lambda: norms.InstanceNorm2d(6, track_running_stats=True),
        lambda: nn.InstanceNorm2d(6, track_running_stats=True),
        (5, 6, 3, 4),
    ),
    "instance-3d": (lambda: norms.InstanceNorm3d(6), lambda: nn.InstanceNorm3d(6), (3, 6, 2, 3, 4)),
}
by_pair = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())


def randomised(layer: nn.Module) -> nn.Module:
    """Defaults of 1 and 0 would hide a weight that is not used."""
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer


@by_pair
def test_equals_torch_over_training_and_evaluation(pair: Pair) -> None:
    ours, theirs, shape = pair
    mine, other = randomised(ours()), theirs()
    other.load_state_dict(mine.state_dict())
    for _ in range(3):
        x = torch.randn(shape) * 2 + 1
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        y, expected = mine(a), other(b)
        assert torch.allclose(y, expected, atol=1e-5)
        grad = torch.randn_like(y)
        wanted = [a, *mine.parameters()], [b, *other.parameters()]
        for g, e in zip(
            *(torch.autograd.grad(o, w, grad) for o, w in zip((y, expected), wanted, strict=True)),
            strict=True,
        ):
            assert torch.allclose(g, e, atol=1e-4)
    for (name, buffer), (_, same) in zip(mine.named_buffers(), other.named_buffers(), strict=True):
        assert torch.allclose(buffer, same, atol=1e-6), name
    x = torch.randn(shape)
    assert torch.allclose(mine.eval()(x), other.eval()(x), atol=1e-5)


@by_pair
def test_state_goes_to_torch_and_back(pair: Pair) -> None:
    ours, theirs, _ = pair
    mine, other = randomised(ours()), theirs()
    other.load_state_dict(mine.state_dict())
    again = ours()
    again.load_state_dict(other.state_dict())
    assert all(
        torch.equal(a, b)
        for a, b in zip(mine.state_dict().values(), again.state_dict().values(), strict=True)
    )
    assert isinstance(mine, type(other))


@by_pair
def test_copies_and_repr(pair: Pair) -> None:
    ours, _, shape = pair
    layer = randomised(ours())
    x = torch.randn(shape)
    clone = copy.deepcopy(layer)
    assert torch.equal(clone(x), layer(x))
    assert (type(layer).__name__ in repr(layer) and "6" in repr(layer)) or "3" in repr(layer)


WRONG: list[tuple[nn.Module, Tensor, str]] = [
    (norms.LayerNorm(6), torch.ones(2, 5), r"got x of shape \(2, 5\), expected .*6"),
    (norms.RMSNorm(6), torch.ones(2, 5), r"got x of shape \(2, 5\), expected .*6"),
    (norms.BatchNorm2d(6), torch.ones(2, 5, 3, 3), "got 5 channels.*expected 6"),
    (norms.BatchNorm2d(6), torch.ones(2, 6), "expected 4D input"),
    (norms.BatchNorm1d(6), torch.ones(1, 6), "got 1 element.*larger batch"),
    (norms.GroupNorm(2, 6), torch.ones(2, 5, 3), r"expected \(N, 6"),
    (norms.InstanceNorm2d(6), torch.ones(2, 5, 3, 3), r"expected \(N, 6"),
    (norms.InstanceNorm1d(6), torch.ones(2, 6, 1), "got 1 element"),
    (norms.DyT(6), torch.ones(2, 5), r"expected \(..., 6\)"),
    (norms.Derf(6, channels_last=False), torch.ones(2, 5, 3), r"expected \(N, 6, ...\)"),
]


@pytest.mark.parametrize(("layer", "x", "message"), WRONG, ids=lambda v: type(v).__name__)
def test_wrong_shapes_raise(layer: nn.Module, x: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layer(x)


def test_partial_rms_by_hand() -> None:
    x = torch.tensor([[3.0, 4.0, 10.0, 20.0]], dtype=torch.float64, requires_grad=True)
    layer = norms.RMSNorm(4, eps=0.0, fraction=0.5, dtype=torch.float64)
    assert torch.allclose(layer(x), x / 12.5**0.5)
    assert torch.autograd.gradcheck(layer, (x,)) and torch.autograd.gradgradcheck(layer, (x,))
    assert "fraction=0.5" in repr(layer)
    with pytest.raises(ValueError, match=r"in \(0, 1\]"):
        norms.RMSNorm(4, fraction=0.0)


@pytest.mark.parametrize("impl", ["reference", "native", "cpp", "triton"])
@pytest.mark.parametrize(
    "make",
    [
        lambda i: norms.LayerNorm(6, impl=i),
        lambda i: norms.RMSNorm(6, impl=i),
        lambda i: norms.BatchNorm1d(6, impl=i),
        lambda i: norms.GroupNorm(2, 6, impl=i),
        lambda i: norms.DyT(6, impl=i),
        lambda i: norms.Derf(6, shift=0.3, impl=i),
    ],
)
def test_gradient_penalty_step(make: Callable[[str], nn.Module], impl: str) -> None:
    """Every parameter of the norm and of the layers around it gets the exact gradient."""
    torch.manual_seed(3)
    before, after = nn.Linear(5, 6).double(), nn.Linear(6, 1).double()
    layer = randomised(make(impl)).double()
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)

    def penalty(norm: Callable[[Tensor], Tensor]) -> tuple[Tensor | None, ...]:
        score = after(torch.tanh(norm(before(x)))).sum()
        (grad,) = torch.autograd.grad(score, x, create_graph=True)
        loss = ((grad.norm(dim=1) - 1) ** 2).mean() + score
        parameters = [*before.parameters(), *layer.parameters(), *after.parameters()]
        return torch.autograd.grad(loss, parameters, allow_unused=True)

    def plain(h: Tensor) -> Tensor:
        if isinstance(layer, norms.DyT | norms.Derf):
            f = torch.tanh if isinstance(layer, norms.DyT) else torch.erf
            shift = 0 if layer.shift is None else layer.shift
            return f(layer.alpha * h + shift) * layer.weight + layer.bias
        kind: dict[type, dict[str, Any]] = {
            norms.LayerNorm: {"groups": 1},
            norms.RMSNorm: {"groups": 1, "centre": False, "eps": torch.finfo(torch.float64).eps},
            norms.BatchNorm1d: {"groups": 0},
            norms.GroupNorm: {"groups": 2},
        }
        return plain_norm(h, layer.weight, getattr(layer, "bias", None), **kind[type(layer)])

    for got, expected in zip(penalty(layer), penalty(plain), strict=True):
        assert got is not None and expected is not None
        assert torch.allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_tail_is_relu_of_the_scaled_branch_plus_residual() -> None:
    tail = norms.ScalarTail(2.0, 0.5)
    x, r = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 4, 4)
    assert torch.allclose(tail(x, r), torch.relu(x * 2 + 0.5 + r))
    with pytest.raises(ValueError, match="got residual"):
        tail(x, r[:1])


def test_every_entry_of_the_registry_tells_equation_and_source() -> None:
    for name, entry in REGISTRY.items():
        assert entry.make.__name__ == name
        assert "=" in entry.equation or "<-" in entry.equation
        assert "arXiv" in entry.source and entry.make.__doc__


COMPILED: list[tuple[nn.Module, tuple[int, ...]]] = [
    (norms.LayerNorm(6), (4, 5, 6)),
    (norms.RMSNorm(6), (4, 5, 6)),
    (norms.RMSNorm(6, fraction=0.5), (4, 6)),
    (norms.BatchNorm1d(6), (4, 6)),
    (norms.BatchNorm2d(6, activation="silu"), (4, 6, 3, 3)),
    (norms.BatchNorm2d(6).eval(), (4, 6, 3, 3)),
    (norms.GroupNorm(2, 6), (4, 6, 3, 3)),
    (norms.InstanceNorm2d(6, affine=True), (4, 6, 3, 3)),
    (norms.DyT(6), (4, 5, 6)),
    (norms.Derf(6, channels_last=False), (4, 6, 3)),
]


@pytest.mark.parametrize(("layer", "shape"), COMPILED, ids=lambda v: type(v).__name__)
def test_layers_compile_to_one_graph_and_learn(layer: nn.Module, shape: tuple[int, ...]) -> None:
    torch._dynamo.reset()
    eager = copy.deepcopy(layer)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = torch.randn(shape)
    y, expected = compiled(x), eager(x)
    assert torch.allclose(y, expected, atol=1e-6)
    cotangent = torch.randn_like(y)
    y.backward(cotangent)
    expected.backward(cotangent)
    for p, q in zip(layer.parameters(), eager.parameters(), strict=True):
        assert p.grad is not None and torch.allclose(p.grad, q.grad, atol=1e-5)
    for a, b in zip(layer.buffers(), eager.buffers(), strict=True):
        assert torch.allclose(a, b)


def test_a_compiled_layer_takes_another_batch_size_without_compiling_again() -> None:
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(norms.BatchNorm2d(6), fullgraph=True, backend=counter)
    for n in (4, 5, 6, 7, 12):
        compiled(torch.randn(n, 6, 3, 3))
    assert counter.frame_count == 2  # for the first size, and for any size


def test_autocast_keeps_float32_parameters_beside_half_precision_maps() -> None:
    net = nn.Sequential(nn.Conv2d(3, 6, 3), norms.BatchNorm2d(6), nn.ReLU(inplace=True))
    with torch.autocast("cpu", torch.bfloat16):
        y = net(torch.randn(4, 3, 6, 6))
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert net[1].weight.grad is not None and net[1].weight.grad.dtype == torch.float32
    assert net[1].running_mean.dtype == torch.float32
