"""GraN and GN on piecewise linear critics."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from shared.norms import gradient_norm, gran


def relu_critic() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.1), nn.Linear(16, 1)).double()


def slope(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(function(x).sum(), x)
    return grad.norm(dim=1)


def raw_slope(x: Tensor) -> Tensor:
    return slope(relu_critic(), x)


@pytest.mark.parametrize("eps", [0.01, 0.5])
def test_gran_has_slope_k_w2_over_w2_plus_eps(eps: float) -> None:
    x = torch.randn(20, 6, dtype=torch.float64)
    w2 = raw_slope(x).square()
    got = slope(lambda t: gran(relu_critic(), t, eps=eps, lipschitz=3.0), x)
    assert torch.allclose(got, 3 * w2 / (w2 + eps), atol=1e-9)


def test_the_identity_fails_for_a_smooth_critic() -> None:
    net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)).double()
    x = torch.randn(20, 6, dtype=torch.float64)
    w2 = slope(net, x).square()
    got = slope(lambda t: gran(net, t, eps=0.1), x)
    assert (got - w2 / (w2 + 0.1)).abs().max() > 1e-3


def test_gn_has_slope_w_over_w_plus_f_squared_and_is_bounded() -> None:
    x = torch.randn(20, 6, dtype=torch.float64)
    w, f = raw_slope(x), relu_critic()(x).abs().squeeze(1)
    got = slope(lambda t: gradient_norm(relu_critic(), t), x)
    assert torch.allclose(got, (w / (w + f)) ** 2, atol=1e-9)
    assert gradient_norm(relu_critic(), x).abs().max() <= 1


def test_a_dead_piece_gives_finite_values_and_gradients() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1, bias=False))
    nn.init.constant_(net[0].bias, -100.0)
    for function in (lambda t: gran(net, t, eps=0.1), lambda t: gradient_norm(net, t)):
        net.zero_grad()
        y = function(torch.randn(2, 3))
        y.sum().backward()
        assert torch.equal(y, torch.zeros_like(y))
        assert all(bool(p.grad.isfinite().all()) for p in net.parameters() if p.grad is not None)


def test_a_generator_step_needs_no_double_backward() -> None:
    """dL/dx = L'(g) |f'| / (|f'|^2 + eps) f' almost everywhere."""
    x = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    net = relu_critic()
    for create in (True, False):
        (grad,) = torch.autograd.grad(gran(net, x, eps=0.1, create_graph=create).sum(), x)
        w = raw_slope(x.detach())
        (own,) = torch.autograd.grad(net(x).sum(), x)
        # g(x) itself is differentiated once: the norm's own gradient is zero within a piece.
        assert torch.allclose(grad, (w / (w**2 + 0.1)).unsqueeze(1) * own, atol=1e-9)


def test_more_than_one_output_is_refused() -> None:
    with pytest.raises(ValueError, match="one score at a time"):
        gran(nn.Linear(3, 2), torch.randn(4, 3), eps=0.1)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got eps -0\.1"):
        gran(relu_critic(), torch.randn(2, 6, dtype=torch.float64), eps=-0.1)
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"got a call under torch\.no_grad"):
        gradient_norm(relu_critic(), torch.randn(2, 6, dtype=torch.float64))
    with pytest.raises(ValueError, match="samples first"):
        gran(lambda t: t.sum(1).unsqueeze(0), torch.randn(3, 6), eps=0.1)


def test_without_eps_a_dead_piece_has_value_0() -> None:
    x = torch.randn(2, 3)
    assert torch.equal(gran(lambda t: 0 * t.sum(1) + 1, x, eps=0.0), torch.zeros(2))
