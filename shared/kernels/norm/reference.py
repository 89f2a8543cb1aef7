"""The definition of `norm`, its backward and its double backward, in equation order.

All of it in float64, whatever the type of the input; README.md derives the formulas.
`m(t)` is the mean of a group, `P t = t - m(t) - xhat m(t xhat)` the projection of the backward
(without `m(t)` where the mean is not taken off).
"""

from __future__ import annotations

import torch
from torch import Tensor

from shared.kernels.norm.layout import (
    Cotangents,
    Given,
    Gradients,
    group_mean,
    spread,
    sum_to,
)

Statistics = tuple[Tensor, Tensor]


def statistics(x: Tensor, groups: int, centre: bool, eps: float) -> Statistics:
    """Mean (0 without centring) and 1 / sqrt(biased variance + eps) of each group, in float64."""
    x = x.double()
    mean = group_mean(x, groups)
    if not centre:
        mean = torch.zeros_like(mean)
    var = group_mean((x - spread(mean, x, groups)) ** 2, groups)
    return mean, (var + eps).rsqrt()


def normalised(x: Tensor, rstd: Tensor, groups: int, centre: bool) -> Tensor:
    """(x - mean) * rstd in float64; the mean is taken anew, since a rounded one is too coarse."""
    x = x.double()
    mean = group_mean(x, groups)
    centred = x - spread(mean, x, groups) if centre else x
    return centred * spread(rstd.double(), x, groups)


def forward(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    groups: int,
    centre: bool,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """y = (x - mean) * rstd * weight + bias; returns y, mean and rstd."""
    mean, rstd = statistics(x, groups, centre, eps)
    y = (x.double() - spread(mean, x, groups)) * spread(rstd, x, groups)
    if weight is not None:
        y = y * weight.double()
    if bias is not None:
        y = y + bias.double()
    wide = torch.promote_types(x.dtype, torch.float32)
    return torch.empty_like(x).copy_(y), mean.to(wide), rstd.to(wide)


def project(t: Tensor, xhat: Tensor, groups: int, centre: bool) -> Tensor:
    """P t = t - m(t) - xhat m(t xhat)."""
    along = spread(group_mean(t * xhat, groups), t, groups) * xhat
    return t - along - (spread(group_mean(t, groups), t, groups) if centre else 0)


def backward(grad: Tensor, given: Given, need: list[bool]) -> Gradients:
    """Gradients of x (rstd P(grad weight)), weight (sum grad xhat) and bias (sum grad)."""
    x, weight, _, rstd, groups, centre = given
    xhat, g = normalised(x, rstd, groups, centre), grad.double()
    a = g if weight is None else g * weight.double()
    dx = spread(rstd.double(), x, groups) * project(a, xhat, groups, centre)
    if weight is None:
        return dx, None, None
    return dx, sum_to(g * xhat, weight.shape), sum_to(g, weight.shape)


def double_backward(
    cotangents: Cotangents, grad: Tensor, given: Given, need: list[bool]
) -> Gradients:
    """Gradients of grad, x and weight for the cotangents v, p, q of dx, dweight, dbias."""
    v, p, q = cotangents
    x, weight, _, rstd, groups, centre = given
    xhat, g = normalised(x, rstd, groups, centre), grad.double()
    v = torch.zeros_like(xhat) if v is None else v.double()
    p = torch.zeros((), dtype=g.dtype, device=g.device) if p is None else p.double()
    q = torch.zeros((), dtype=g.dtype, device=g.device) if q is None else q.double()
    w = torch.ones((), dtype=g.dtype, device=g.device) if weight is None else weight.double()
    r = spread(rstd.double(), x, groups)

    def m(t: Tensor) -> Tensor:
        return spread(group_mean(t, groups), x, groups)

    a = g * w
    u = r * project(v, xhat, groups, centre)
    h = p * g - r * (v * m(a * xhat) + a * m(v * xhat))
    gx = r * project(h, xhat, groups, centre) - r * xhat * m(u * a)
    gw = None if weight is None else sum_to(g * u, weight.shape)
    return w * u + p * xhat + q, gx, gw
