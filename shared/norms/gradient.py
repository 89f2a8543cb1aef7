"""Normalisation of a critic by the norm of its input gradient: GraN and GN."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def _value_and_norm(
    critic: Callable[[Tensor], Tensor], x: Tensor, create_graph: bool
) -> tuple[Tensor, Tensor]:
    """f(x) and |grad_x f(x)| of each sample, over all dimensions; 0 has gradient 0."""
    if not torch.is_grad_enabled():
        raise RuntimeError(
            "got a call under torch.no_grad, expected gradients to be recorded: the value itself "
            "holds one. Leave no_grad and detach the result"
        )
    x = x if x.requires_grad else x.detach().requires_grad_()
    value = critic(x)
    if value.numel() != x.shape[0] or value.shape[:1] != x.shape[:1]:
        raise ValueError(
            f"got a critic with outputs of shape {tuple(value.shape)} for {x.shape[0]} samples, "
            "expected one for each, samples first: normalise one score at a time"
        )
    (grad,) = torch.autograd.grad(value.sum(), x, create_graph=create_graph, retain_graph=True)
    squares = grad.flatten(1).square().sum(1)
    # sqrt has an infinite slope at 0, where a dead piece of the critic puts it.
    alive = squares > 0
    length = torch.where(alive, torch.where(alive, squares, 1.0).sqrt(), 0.0)
    return value, length.view(-1, *[1] * (value.dim() - 1))


def gran(
    critic: Callable[[Tensor], Tensor],
    x: Tensor,
    eps: float,
    lipschitz: float = 1.0,
    create_graph: bool = True,
) -> Tensor:
    """GraN: g(x) = K f(x) |grad f| / (|grad f|^2 + eps), K-Lipschitz piece by piece.

    Args:
        critic: (N, ...) -> one number for each sample; no batch norm, piecewise linear.
        x: (N, ...).
        eps: Added to the squared norm. Where both are 0, g is 0.
        lipschitz: K.
        create_graph: Whether the result's gradient includes the norm's own (critic steps).

    Raises: ValueError for a critic of more than one output, or a negative eps; RuntimeError under
        torch.no_grad.
    Source: Bhaskara, Aumentado-Armstrong, Jepson, Levinshtein (2022), arXiv 2111.03162.

    Example:
        >>> gran(lambda x: 3 * x.sum(1), torch.ones(1, 1), eps=0.0).item()
        1.0
    """
    if not eps >= 0:
        raise ValueError(f"gran: got eps {eps}, expected a number of at least 0")
    value, length = _value_and_norm(critic, x, create_graph)
    squares = length.square() + eps
    return lipschitz * value * length / torch.where(squares > 0, squares, 1.0)


def gradient_norm(
    critic: Callable[[Tensor], Tensor], x: Tensor, create_graph: bool = True
) -> Tensor:
    """GN: g(x) = f(x) / (|grad f| + |f|), in [-1, 1]; 0 where both are 0.

    Args:
        critic: (N, ...) -> one number for each sample.
        x: (N, ...).
        create_graph: Whether the result's gradient includes the norm's own (critic steps).

    Raises: ValueError for a critic of more than one output; RuntimeError under torch.no_grad.
    Source: Wu, Shuai, Tam, Chiu (2021), arXiv 2109.02235.

    Example:
        >>> gradient_norm(lambda x: 3 * x.sum(1), torch.ones(1, 1)).item()
        0.5
    """
    value, length = _value_and_norm(critic, x, create_graph)
    total = length + value.abs()
    return value / torch.where(total > 0, total, 1.0)
