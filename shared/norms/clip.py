"""Adaptive gradient clipping."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


def unit_norm(t: Tensor) -> Tensor:
    """Norm of each output's weights (each row); of the whole where there is one dimension or none.

    Example:
        >>> unit_norm(torch.tensor([[3.0, 4.0], [0.0, 2.0]])).flatten().tolist()
        [5.0, 2.0]
    """
    if t.dim() < 2:
        return t.square().sum().sqrt()
    return t.flatten(1).square().sum(1).sqrt().view(-1, *[1] * (t.dim() - 1))


@torch.no_grad()
def clip_adaptively_(
    parameters: Iterable[nn.Parameter], limit: float = 0.01, eps: float = 1e-3
) -> None:
    """Clips each unit's gradient to a share of its weight's norm, in place.

    G_i <- limit max(|W_i|, eps) / |G_i| G_i where |G_i| > limit max(|W_i|, eps).

    Args:
        parameters: Those to clip; leave the last linear layer out, as the source does.
        limit: Largest |G_i| / max(|W_i|, eps).
        eps: Least norm of a weight, so that zero weights can grow.

    Source: Brock, De, Smith, Simonyan (2021), arXiv 2102.06171.

    Example:
        >>> w = nn.Parameter(torch.tensor([[3.0, 4.0]]))
        >>> w.grad = torch.tensor([[0.0, 9.0]])
        >>> clip_adaptively_([w], limit=0.1)
        >>> w.grad.tolist()
        [[0.0, 0.5]]
    """
    chosen = [p for p in parameters if p.grad is not None]
    if not chosen:
        return
    grads = [p.grad for p in chosen if p.grad is not None]
    largest = [unit_norm(p) for p in chosen]
    torch._foreach_clamp_min_(largest, eps)
    torch._foreach_mul_(largest, limit)
    norms = [unit_norm(g) for g in grads]
    torch._foreach_clamp_min_(norms, torch.finfo(norms[0].dtype).tiny)
    torch._foreach_div_(largest, norms)
    torch._foreach_clamp_max_(largest, 1.0)
    torch._foreach_mul_(grads, largest)
