"""`norm` on torch's own fused kernels, guarded where these lose accuracy.

Torch's float32 kernels evaluate x * scale + shift with statistics rounded to float32, so a group
with |mean| >> standard deviation loses that ratio in accuracy, and a variance may overflow.
`ill_conditioned` finds such groups from their statistics; they are computed by the reference, in
float64. For every other group torch's kernel is accurate, and costs nothing extra.
On other devices reading the flag would stall the stream: there the guard is off.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from shared.kernels.norm import reference
from shared.kernels.norm.layout import (
    Cotangents,
    Given,
    Gradients,
    group_mean,
    group_size,
    laid_out_as,
    put,
    spread,
    sum_to,
    take,
)

aten = torch.ops.aten
MAX_RATIO = 16.0  # of |mean| to standard deviation: costs at most 16 units in the last place
CHUNK = 2**18  # elements: one MiB in float32, the fastest of 2**16 to 2**24 where measured
RSTD_RANGE = (1e-12, 1e12)  # torch's backward cubes rstd, which must stay a float32


def ill_conditioned(mean: Tensor, rstd: Tensor) -> Tensor | None:
    """Numbers of the groups whose float32 statistics are too coarse; None where there is none."""
    if mean.dtype == torch.float64 or mean.device.type != "cpu" or mean.numel() == 0:
        return None
    ratio = mean * rstd
    low, high = RSTD_RANGE
    bounds = [t.item() for t in (*ratio.aminmax(), *rstd.aminmax())]
    # Written so that NaN counts as ill-conditioned.
    if (
        bounds[0] >= -MAX_RATIO
        and bounds[1] <= MAX_RATIO
        and bounds[2] >= low
        and bounds[3] <= high
    ):
        return None
    good = (ratio.abs() <= MAX_RATIO) & (rstd >= low) & (rstd <= high)
    return (~good).nonzero().squeeze(1)


def channelwise(weight: Tensor, x: Tensor) -> bool:
    """Whether torch's kernels know a weight of this shape (one number a channel)."""
    return weight.shape == (1, x.shape[1], 1)


def is_rows(x: Tensor, groups: int) -> bool:
    """Whether the groups are the rows of a matrix (layer and RMS norm)."""
    return groups == 1 and x.shape[2] == 1


def suited(x: Tensor, groups: int) -> Tensor:
    """x as torch's backward wants it: its instance norm is ten times slower on channels-last."""
    return x.contiguous() if groups == x.shape[1] and x.device.type == "cpu" else x


def parameter(value: Tensor | None, x: Tensor) -> Tensor | None:
    """A weight as torch's kernels want it; float32 beside a half-precision x."""
    return (
        None if value is None else value.reshape(-1).to(torch.promote_types(x.dtype, torch.float32))
    )


def stand_in(weight: Tensor | None, x: Tensor) -> Tensor | None:
    """Half-precision x: without a float32 weight torch would keep its statistics in half too."""
    if weight is None and x.dtype in (torch.bfloat16, torch.float16):
        return torch.ones(x.shape[1], dtype=torch.float32, device=x.device)
    return parameter(weight, x)


def _forward(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    groups: int,
    centre: bool,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    n, c, s = x.shape
    if not centre:
        return _rms_forward(x, weight, bias, groups, eps)
    w, b = stand_in(weight, x), parameter(bias, x)
    if w is not None and b is None and w.dtype != x.dtype:
        b = torch.zeros_like(w)  # torch wants both of a mixed type, or neither
    if groups == 0:
        y, mean, rstd = torch.native_batch_norm(x.unsqueeze(2), w, b, None, None, True, 0.0, eps)
    elif is_rows(x, groups):
        y, mean, rstd = torch.native_layer_norm(x.view(n, c), [c], w, b, eps)
    else:
        y, mean, rstd = torch.native_group_norm(x.unsqueeze(2), w, b, n, c, s, groups, eps)
    return y.view(x.shape), mean.flatten(), rstd.flatten()


def _rms_forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    wide = torch.promote_types(x.dtype, torch.float32)
    if is_rows(x, groups):
        length = torch.linalg.vector_norm(x, dim=1, dtype=wide).flatten()
        rstd = length.square_().div_(group_size(x.shape, groups)).add_(eps).rsqrt_()
    else:
        rstd = group_mean(x.to(wide) ** 2, groups).add_(eps).rsqrt_()
    y = x * spread(rstd, x, groups)
    if weight is not None:
        y.mul_(weight)
    if bias is not None:
        y.add_(bias)
    return y.to(x.dtype), torch.zeros_like(rstd), rstd


def forward(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    groups: int,
    centre: bool,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `reference.forward`."""
    if weight is None or channelwise(weight, x):
        y, mean, rstd = _forward(x, weight, bias, groups, centre, eps)
    else:
        y, mean, rstd = _forward(x, None, None, groups, centre, eps)
        y = y * weight if bias is None else torch.addcmul(bias.to(y.dtype), y, weight.to(y.dtype))
    ill = ill_conditioned(mean, rstd)
    if ill is not None:
        y = laid_out_as(y, x)
        _repair(y, mean, rstd, x, weight, bias, ill, groups, centre, eps)
    return y, mean, rstd


def _repair(
    y: Tensor,
    mean: Tensor,
    rstd: Tensor,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    ill: Tensor,
    groups: int,
    centre: bool,
    eps: float,
) -> None:
    """Computes the ill-conditioned groups anew by the reference, in place."""
    rows = take(x, groups, ill)
    part = rows.reshape(ill.numel(), -1, 1)
    good, mean64, rstd64 = reference.forward(part.double(), None, None, 1, centre, eps)
    good = good.view(rows.shape)
    if weight is not None:
        good = good * take(weight.expand(x.shape), groups, ill).double()
    if bias is not None:
        good = good + take(bias.expand(x.shape), groups, ill).double()
    put(y, groups, ill, good)
    mean[ill], rstd[ill] = mean64.to(mean.dtype), rstd64.to(rstd.dtype)


class Conditioned:
    """x and its statistics, safe for torch's kernels; ill-conditioned groups hold xhat instead.

    For these (x - 0) * 1 is xhat, and what torch returns for x must be scaled by the true rstd.
    """

    def __init__(self, x: Tensor, mean: Tensor, rstd: Tensor, groups: int, centre: bool) -> None:
        self.x, self.mean, self.rstd, self.groups = x, mean, rstd, groups
        self.centre = centre
        self.true_rstd = rstd
        self.ill = ill_conditioned(mean, rstd)
        if self.ill is not None:
            rows = take(x, groups, self.ill)
            part = rows.reshape(self.ill.numel(), -1, 1)
            xhat = reference.normalised(part, rstd[self.ill], 1, centre)
            self.x = x.to(mean.dtype, copy=True)
            put(self.x, groups, self.ill, xhat.view(rows.shape))
            self.mean = mean.index_fill(0, self.ill, 0.0)
            self.rstd = rstd.index_fill(0, self.ill, 1.0)

    def xhat(self, out: Tensor | None = None) -> Tensor:
        """(x - mean) * rstd, into `out` where it is given."""
        r = spread(self.rstd, self.x, self.groups)
        if not self.centre:
            return torch.mul(self.x, r, out=out)
        centred = torch.sub(self.x, spread(self.mean, self.x, self.groups), out=out)
        return centred.mul_(r)

    def backward(self, grad: Tensor, weight: Tensor | None, need: list[bool]) -> Gradients:
        """rstd P(grad weight) and the gradients of a channelwise weight and bias."""
        grad = laid_out_as(grad, self.x)
        if weight is None:
            need = [need[0], False, False]
        if self.centre:
            dx, dw, db = self._aten(grad, weight, need)
        else:
            dx, dw, db = self._rms(grad, weight, need)
        if self.ill is not None and dx is not None:
            dx = laid_out_as(dx, self.x)
            rows = take(dx, self.groups, self.ill)
            scale = self.true_rstd[self.ill].view(-1, *[1] * (rows.dim() - 1))
            put(dx, self.groups, self.ill, rows * scale)
        return dx, dw, db

    def _aten(self, grad: Tensor, weight: Tensor | None, need: list[bool]) -> Gradients:
        x, mean, rstd, groups = self.x, self.mean, self.rstd, self.groups
        n, c, s = x.shape
        w = stand_in(weight, x)
        if groups == 0:
            dx, dw, db = aten.native_batch_norm_backward(
                grad.unsqueeze(2),
                x.unsqueeze(2),
                w,
                None,
                None,
                mean,
                rstd,
                True,
                0.0,
                need,
            )
        elif is_rows(x, groups):
            dx, dw, db = aten.native_layer_norm_backward(
                grad.view(n, c),
                x.view(n, c),
                [c],
                mean.view(n, 1),
                rstd.view(n, 1),
                w,
                w,
                need,
            )
        else:
            stats = mean.view(n, groups), rstd.view(n, groups)
            dx, dw, db = aten.native_group_norm_backward(
                grad.unsqueeze(2), x.unsqueeze(2), *stats, w, n, c, s, groups, need
            )
        return (dx.view(x.shape) if need[0] else None), dw, db

    def _rms(self, grad: Tensor, weight: Tensor | None, need: list[bool]) -> Gradients:
        """Layer norm's backward with mean 0, which takes m(a) off: put it back."""
        x, groups = self.x, self.groups
        if not is_rows(x, groups):
            xhat = self.xhat()
            a = grad if weight is None else grad * weight
            along = xhat * self.mean_of(a * xhat)
            dw = sum_to(grad * xhat, weight.shape) if weight is not None and need[1] else None
            db = sum_to(grad, weight.shape) if weight is not None and need[2] else None
            return spread(self.rstd, x, groups) * (a - along), dw, db
        dx, dw, db = self._aten(grad, weight, need)
        if dx is not None:
            rows = grad.view(x.shape[:2])
            total = rows.sum(1) if weight is None else rows @ weight.reshape(-1).to(rows.dtype)
            dx.add_(spread(total * self.rstd / x.shape[1], x, groups))
        return dx, dw, db

    def mean_of(self, t: Tensor) -> Tensor:
        """m(t), ready to broadcast."""
        return spread(group_mean(t, self.groups), t, self.groups)


def backward(grad: Tensor, given: Given, need: list[bool]) -> Gradients:
    """As `reference.backward`; gradients that are not needed are None.

    Half precision is worked on in float32: torch's CPU kernel sums a weight's gradient in half.
    """
    x, weight, mean, rstd, groups, centre = given
    safe = Conditioned(suited(x, groups).to(mean.dtype), mean, rstd, groups, centre)
    if weight is None or channelwise(weight, x):
        return safe.backward(grad, weight, need)
    wide = grad.to(mean.dtype)
    dx = safe.backward(wide * weight, None, need)[0] if need[0] else None
    dw = sum_to(wide * safe.xhat(), weight.shape) if need[1] else None
    db = sum_to(wide, weight.shape) if need[2] else None
    return dx, dw, db


def double_backward(
    cotangents: Cotangents, grad: Tensor, given: Given, need: list[bool]
) -> Gradients:
    """As `reference.double_backward`, on two of torch's backward kernels.

    On a CPU a large tensor is worked through in chunks of whole groups that stay in the cache:
    the formula has about twenty element-wise steps, each of which would else read main memory.
    """
    v, p, q = cotangents
    x, weight, mean, rstd, groups, centre = given
    x = suited(x, groups)
    dim = 1 if groups == 0 else 0
    size = min(x.shape[dim], max(1, CHUNK * x.shape[dim] // x.numel()))
    if x.is_cuda or not x.is_contiguous():
        size = x.shape[dim]
    gg, gx = (torch.empty_like(x, dtype=mean.dtype) if n else None for n in need[:2])
    gw = torch.zeros_like(weight, dtype=mean.dtype) if weight is not None and need[2] else None
    first = x.narrow(dim, 0, size)
    spare = [torch.empty_like(first, dtype=mean.dtype) for _ in range(3)]
    for start in range(0, x.shape[dim], size):
        stop = min(start + size, x.shape[dim])
        cut = partial(_cut, dim=dim, start=start, stop=stop)
        stats = slice(start * max(groups, 1), stop * max(groups, 1))
        part = x.narrow(dim, start, stop - start)
        part = part if size == x.shape[dim] else part.contiguous()
        safe = Conditioned(part.to(mean.dtype), mean[stats], rstd[stats], groups, centre)
        _second_order(
            safe,
            SecondOrder(
                cut(v),
                cut(p),
                cut(q),
                grad.narrow(dim, start, stop - start),
                cut(weight),
            ),
            [t.narrow(dim, 0, stop - start) for t in spare],
            cut(gg),
            cut(gx),
            cut(gw),
        )
    return gg, gx, gw


def _cut(t: Tensor | None, dim: int, start: int, stop: int) -> Tensor | None:
    """The part of a tensor along `dim`; all of it where it is broadcast there."""
    return t if t is None or t.shape[dim] == 1 else t.narrow(dim, start, stop - start)


class SecondOrder(NamedTuple):
    """Inputs of the double backward beside x and its statistics."""

    v: Tensor | None
    p: Tensor | None
    q: Tensor | None
    grad: Tensor
    weight: Tensor | None


def _second_order(
    safe: Conditioned,
    given: SecondOrder,
    spare: list[Tensor],
    gg: Tensor | None,
    gx: Tensor | None,
    gw: Tensor | None,
) -> None:
    """Writes gg and gx, and adds to gw; `spare` are three tensors of x's shape to work in.

    gg = weight u + p xhat + q;  gw = sum grad u;  u = rstd P v;
    gx = rstd P(p grad - rstd t a) - rstd (s u + xhat m(u a)), s = m(a xhat), t = m(v xhat).
    Fresh memory costs more than arithmetic here: every step writes over what is used up.
    """
    v, p, q, _, weight = given
    grad = laid_out_as(given.grad, safe.x)
    xhat, a, work = spare
    safe.xhat(out=xhat)
    only_x = [True, False, False]
    u = None if v is None else safe.backward(v.to(xhat.dtype), None, only_x)[0]
    if gx is not None:
        h = None if p is None else torch.mul(grad, p, out=work)
        scaled: list[Tensor] = []
        if u is not None and v is not None:
            torch.mul(grad, 1 if weight is None else weight, out=a)
            r = -spread(safe.true_rstd, xhat, safe.groups)
            spent = torch.empty_like(xhat) if h is not None else work
            pairs = (v, xhat), (a, xhat), (u, a)
            t, *scaled = (r * safe.mean_of(torch.mul(*pair, out=spent)) for pair in pairs)
            h = a.mul_(t) if h is None else h.add_(a.mul_(t))
        first = None if h is None else safe.backward(h, None, only_x)[0]
        gx.copy_(torch.zeros_like(gx) if first is None else first)
        if u is not None and scaled:
            gx.add_(torch.mul(u, scaled[0], out=work)).add_(torch.mul(xhat, scaled[1], out=work))
    if gg is not None:
        if u is None:
            gg.zero_()
        else:
            torch.mul(u, 1 if weight is None else weight, out=gg)
        if p is not None:
            gg.add_(torch.mul(xhat, p, out=work))
        if q is not None:
            gg.add_(q)
    if gw is not None and u is not None:
        gw.add_(sum_to(torch.mul(grad, u, out=work), gw.shape))
