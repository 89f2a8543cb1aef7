"""Losses of the two players. Scores are (N,), without a sigmoid; higher means more real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import relu, softplus

LossName = Literal["hinge", "non_saturating", "wasserstein"]


class AdversarialLoss(NamedTuple):
    """What the critic and the generator minimise."""

    critic: Callable[[Tensor, Tensor], Tensor]
    generator: Callable[[Tensor], Tensor]


def _hinge(real_N: Tensor, fake_N: Tensor) -> Tensor:
    return relu(1 - real_N).mean() + relu(1 + fake_N).mean()


def _logistic(real_N: Tensor, fake_N: Tensor) -> Tensor:
    return softplus(-real_N).mean() + softplus(fake_N).mean()


def _wasserstein(real_N: Tensor, fake_N: Tensor) -> Tensor:
    return fake_N.mean() - real_N.mean()


def _minus_mean(fake_N: Tensor) -> Tensor:
    return -fake_N.mean()


def _non_saturating(fake_N: Tensor) -> Tensor:
    return softplus(-fake_N).mean()


LOSSES: dict[LossName, AdversarialLoss] = {
    # Lim, Ye (2017), arXiv 1705.02894; Miyato et al. (2018), arXiv 1802.05957, equations 16 and 17.
    "hinge": AdversarialLoss(_hinge, _minus_mean),
    # Goodfellow et al. (2014), arXiv 1406.2661, with the alternate cost -log D(G(z)).
    "non_saturating": AdversarialLoss(_logistic, _non_saturating),
    # Arjovsky, Chintala, Bottou (2017), arXiv 1701.07875.
    "wasserstein": AdversarialLoss(_wasserstein, _minus_mean),
}


def gradient_penalty(score: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor) -> Tensor:
    """Mean of (|grad_x score(x)| - 1)^2 at points between real and fake samples.

    x_n = t_n real_n + (1 - t_n) fake_n, t_n uniform on [0, 1], one for each sample; the norm is
    over all dimensions of a sample.

    Args:
        score: (N, ...) -> (N,); samples must not influence each other, so no batch norm.
        real, fake: (N, ...).

    Source: Gulrajani, Ahmed, Arjovsky, Dumoulin, Courville (2017), arXiv 1704.00028, equation 3.

    Example:
        >>> x = torch.zeros(2, 3)
        >>> round(gradient_penalty(lambda x: 3 * x[:, 0], x, x + 1).item(), 6)
        4.0
    """
    t = torch.rand(len(real), *[1] * (real.dim() - 1), dtype=real.dtype, device=real.device)
    x = torch.lerp(fake.detach(), real.detach(), t).requires_grad_()
    (grad,) = torch.autograd.grad(score(x).sum(), x, create_graph=True)
    # sqrt has an infinite slope at 0, where a critic that is flat around x puts it.
    length_N = (grad.flatten(1).square().sum(1) + 1e-12).sqrt()
    return (length_N - 1).square().mean()
