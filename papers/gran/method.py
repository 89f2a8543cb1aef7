"""The critic's score under each method, and the shortcut that a step of the generator may take.

f is the network, w_N = |grad_x f| the slope of each sample over all its dimensions, K the constant
that bounds the slope of the score.

    none, gp    K f                       (gp: a penalty in the loss wants the slope K)
    sn          K f, every weight of f over its largest singular value
    gn          K f / (w + |f|)
    gran        K f w / (w^2 + eps)

Where f is linear in a piece, w is constant in it, and the slope of the score is

    gn          K (w / (w + |f|))^2
    gran        K w^2 / (w^2 + eps)

Both lie below K. From one piece to the next w jumps, and with it the score.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

from shared.norms import gradient_norm, gran

Method = Literal["none", "sn", "gp", "gn", "gran"]
METHODS: tuple[Method, ...] = get_args(Method)

Critic = Callable[[Tensor], Tensor]


def score(
    method: Method, critic: Critic, x: Tensor, *, eps: float, lipschitz: float = 1.0
) -> Tensor:
    """Scores (N,) of the samples, with all that a step of the critic needs of their gradients.

    Args:
        critic: (N, ...) -> (N, 1) or (N,).
        x: (N, ...).
        eps: of `gran`, added to the squared slope.
        lipschitz: K.
    """
    if method == "gran":
        return gran(critic, x, eps=eps, lipschitz=lipschitz).flatten()
    if method == "gn":
        return lipschitz * gradient_norm(critic, x).flatten()
    return lipschitz * critic(x).flatten()


def score_for_generator(
    method: Method, critic: Critic, x: Tensor, *, eps: float, lipschitz: float = 1.0
) -> Tensor:
    """The same scores, whose gradient by x comes from one backward of the critic.

    Within a piece w is constant, so the gradient of the score is dg/df grad f, and grad f is known
    when the score is: the score continues linearly along it,

        g(x') = g(x) + dg/df grad f . (x' - x),

    which is exact at x' = x. Neither the critic's parameters nor a second derivative get a
    gradient; any loss of the scores may follow, with any weights of the samples.

    Args: as of `score`; `gn` and `gran` need a piecewise linear critic.
    Source: our derivation; a hook of the code of Wu et al. (2021), arXiv 2109.02235, does the same
        for the plain mean of a batch.

    Example:
        >>> x = torch.ones(2, 1, requires_grad=True)
        >>> score_for_generator("gran", lambda x: 3 * x, x, eps=0.0).sum().backward()
        >>> x.grad.flatten().tolist()
        [1.0, 1.0]
    """
    if method not in ("gn", "gran"):
        return score(method, critic, x, eps=eps, lipschitz=lipschitz)
    at = x.detach().requires_grad_()
    value_N = critic(at).flatten()
    (slope,) = torch.autograd.grad(value_N.sum(), at)
    value_N, slope_ND = value_N.detach(), slope.flatten(1)
    w_N = slope_ND.norm(dim=1)
    if method == "gran":
        derivative_N = w_N / (w_N.square() + eps)
        g_N = value_N * derivative_N
    else:
        total_N = w_N + value_N.abs()
        total_N = torch.where(total_N > 0, total_N, 1.0)
        derivative_N, g_N = w_N / total_N.square(), value_N / total_N
    moved_ND = (x - at.detach()).flatten(1)
    return lipschitz * (g_N + derivative_N * (slope_ND * moved_ND).sum(1))


def slopes(function: Critic, x: Tensor) -> Tensor:
    """|grad_x function| (N,) of each sample over all its dimensions, by autograd.

    Example:
        >>> slopes(lambda x: 3 * x[:, 0] + 4 * x[:, 1], torch.zeros(2, 2)).tolist()
        [5.0, 5.0]
    """
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (grad,) = torch.autograd.grad(function(x).sum(), x)
    return grad.flatten(1).norm(dim=1)


def slope_in_piece(
    method: Method, f_N: Tensor, w_N: Tensor, *, eps: float, lipschitz: float = 1.0
) -> Tensor:
    """The closed form of the score's slope where the critic is linear; see the top of the file."""
    if method == "gran":
        return lipschitz * w_N.square() / (w_N.square() + eps)
    if method == "gn":
        return lipschitz * (w_N / (w_N + f_N.abs())).square()
    return lipschitz * w_N
