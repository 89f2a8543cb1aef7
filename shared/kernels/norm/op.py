"""The torch ops `renorm::norm`, its backward and double backward, and their public function.

Legend: N samples, C channels, S positions.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from shared.kernels import library
from shared.kernels.library import Kind, kind_of
from shared.kernels.norm import cpp, fused, native, reference
from shared.kernels.norm.layout import Given, flat, group_size, num_groups, shaped
from shared.kernels.registry import (
    Implementation,
    Operator,
    register,
    run,
    without_triton,
)

OPERATOR = register(
    Operator(
        name="norm",
        equation="y = (x - mean) / sqrt(var + eps) * weight + bias, statistics over a group",
        source="Ba, Kiros, Hinton (2016), arXiv 1607.06450; Ioffe, Szegedy (2015), "
        "arXiv 1502.03167; Wu, He (2018), arXiv 1803.08494; Zhang, Sennrich (2019), "
        "arXiv 1910.07467",
        implementations={
            "reference": Implementation(
                reference.forward, reference.backward, reference.double_backward
            ),
            "native": Implementation(native.forward, native.backward, native.double_backward),
            "cpp": Implementation(
                cpp.forward,
                cpp.backward,
                cpp.double_backward,
                cpp.obstacle,
                as_given=True,
            ),
            "triton": Implementation(
                fused.forward, fused.backward, fused.double_backward, without_triton
            ),
        },
    )
)


def variant(groups: int, centre: bool, x: Tensor) -> str:
    """Row of the measured table."""
    if groups == 0:
        return "batch_norm"
    if not centre:
        return "rms_norm"
    return "layer_norm" if groups == 1 and x.dim() == 2 else "group_norm"


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _parameter(value: Tensor | None, x: Tensor) -> Tensor | None:
    """(C,) or a tensor that broadcasts against x -> (1 or N, 1 or C, 1 or S)."""
    if value is None:
        return None
    if value.dim() == 1:
        return value.view(1, -1, 1)
    return value.flatten(2) if value.dim() > 2 else value.unsqueeze(2)


def _like(value: Tensor | None, like: Tensor | None, needed: bool = True) -> Tensor:
    """A result in the shape, type and strides of `like`; empty where it is not needed."""
    if like is None:
        return torch.empty(0)
    if not needed:
        return like.new_empty(0)
    if value is None:
        return torch.zeros_like(like)
    value = value.view(like.shape) if value.shape != like.shape else value
    if value.dtype == like.dtype and value.stride() == like.stride():
        return value
    return torch.empty_like(like).copy_(value)


def _made(value: Tensor | None, x: Tensor, needed: bool) -> Tensor:
    """The result itself; empty where it is not needed or there is none."""
    return value if value is not None and needed else x.new_empty(0)


def _fake_like(like: Tensor | None, needed: bool = True) -> Tensor:
    if like is None:
        return torch.empty(0)
    return torch.empty_like(like) if needed else like.new_empty(0)


def _norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    groups: int,
    centre: bool,
    eps: float,
    impl: str,
) -> tuple[Tensor, Tensor, Tensor]:
    forward, as_given = run("norm", "forward", impl, x, variant(groups, centre, x))
    if x.numel() == 0:
        return _norm_fake(x, weight, bias, groups, centre, eps, impl)
    if as_given:
        result: tuple[Tensor, Tensor, Tensor] = forward(x, weight, bias, groups, centre, eps)
        return result
    x_NCS = flat(x)
    y, mean, rstd = forward(x_NCS, _parameter(weight, x), _parameter(bias, x), groups, centre, eps)
    return shaped(_like(y, x_NCS), x), mean, rstd


def _norm_fake(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, *settings: Any
) -> tuple[Tensor, Tensor, Tensor]:
    x_NCS = flat(x)
    count = num_groups(x_NCS, groups)
    return (
        torch.empty_like(x_NCS).view(x.shape),
        x.new_empty(count, dtype=_wide(x)),
        x.new_empty(count, dtype=_wide(x)),
    )


def _norm_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, _, ctx.groups, ctx.centre, _, ctx.impl = inputs
    _, mean, rstd = output
    ctx.mark_non_differentiable(mean, rstd)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, weight, mean, rstd)


def _norm_autograd(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
    if grad is None:
        return (None,) * 7
    x, weight, mean, rstd = ctx.saved_tensors
    need = list(ctx.needs_input_grad[:3])
    # The gradient of a bias of x's shape is that of y, which needs no computing.
    db = grad if need[2] and weight.shape == x.shape else None
    need[2] = need[2] and db is None
    if any(need):
        given = Given(x, weight, mean, rstd, ctx.groups, ctx.centre)
        dx, dw, summed = norm_backward_op(grad, *given, need, ctx.impl)
        db = summed if need[2] else db
    return dx if need[0] else None, dw if need[1] else None, db, None, None, None, None


def _flattened(given: Given) -> Given:
    """With x of (N, C, S), and a weight to match."""
    x = given.x
    return given._replace(x=flat(x), weight=_parameter(given.weight, x))


def _norm_backward(grad: Tensor, *args: Any) -> tuple[Tensor, Tensor, Tensor]:
    given, need, impl = Given(*args[:6]), *args[6:]
    x, weight = given.x, given.weight
    backward, as_given = run("norm", "backward", impl, x, variant(given.groups, given.centre, x))
    if x.numel() > 0 and as_given:
        dx, dw, db = backward(grad, given, need)
        return _made(dx, x, need[0]), _made(dw, x, need[1]), _made(db, x, need[2])
    dx = dw = db = None
    given = _flattened(given)
    if x.numel() > 0:
        dx, dw, db = backward(flat(grad), given, need)
    dx = shaped(_like(dx, given.x), x) if need[0] else x.new_empty(0)
    return dx, _like(dw, weight, need[1]), _like(db, weight, need[2])


def _norm_backward_fake(grad: Tensor, *args: Any) -> tuple[Tensor, Tensor, Tensor]:
    given, need = Given(*args[:6]), args[6]
    x, weight = given.x, given.weight
    return (
        torch.empty_like(flat(x)).view(x.shape) if need[0] else x.new_empty(0),
        _fake_like(weight, need[1]),
        _fake_like(weight, need[2]),
    )


def _norm_backward_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    grad, x, weight, mean, rstd, ctx.groups, ctx.centre, need, ctx.impl = inputs
    ctx.made = need[0], need[1] and weight is not None, need[2] and weight is not None
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(grad, x, weight, mean, rstd)


def _norm_backward_autograd(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
    grad, *saved = ctx.saved_tensors
    # Results that were not asked for are empty tensors; their cotangents mean nothing.
    used = (t if made else None for t, made in zip(cotangents, ctx.made, strict=True))
    need = list(ctx.needs_input_grad[:3])
    results = norm_double_backward_op(*used, grad, *saved, ctx.groups, ctx.centre, need, ctx.impl)
    pick = [t if n else None for t, n in zip(results, need, strict=True)]
    return (*pick, None, None, None, None, None, None)


def _norm_double_backward(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    (v, p, q), grad, given, need, impl = (
        args[:3],
        args[3],
        Given(*args[4:10]),
        *args[10:],
    )
    x, weight = given.x, given.weight
    variety = variant(given.groups, given.centre, x)
    double, as_given = run("norm", "double_backward", impl, x, variety)
    if x.numel() > 0 and as_given:
        gg, gx, gw = double((v, p, q), grad, given, need)
        gw = torch.zeros_like(weight) if gw is None and weight is not None else gw
        return _made(gg, x, need[0]), _made(gx, x, need[1]), _made(gw, x, need[2])
    gg = gx = gw = None
    given = _flattened(given)
    if x.numel() > 0:
        cotangents = None if v is None else flat(v), _parameter(p, x), _parameter(q, x)
        gg, gx, gw = double(cotangents, flat(grad), given, need)
    gg, gx = (
        shaped(_like(t, given.x), x) if n else x.new_empty(0)
        for t, n in zip((gg, gx), need[:2], strict=True)
    )
    return gg, gx, _like(gw, weight, need[2])


def _norm_double_backward_fake(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    x, weight, need = args[4], args[5], args[10]
    gg, gx = (torch.empty_like(flat(x)).view(x.shape) if n else x.new_empty(0) for n in need[:2])
    return gg, gx, _fake_like(weight, need[2])


norm_op = library.define(
    "norm",
    "(Tensor x, Tensor? weight, Tensor? bias, int groups, bool centre, float eps, str impl)"
    " -> (Tensor, Tensor, Tensor)",
    _norm,
    _norm_fake,
    _norm_autograd,
    _norm_setup,
    only_first=True,
)
norm_backward_op = library.define(
    "norm_backward",
    "(Tensor grad, Tensor x, Tensor? weight, Tensor mean, Tensor rstd, int groups, bool centre,"
    " bool[3] need, str impl) -> (Tensor, Tensor, Tensor)",
    _norm_backward,
    _norm_backward_fake,
    _norm_backward_autograd,
    _norm_backward_setup,
)
norm_double_backward_op = library.define(
    "norm_double_backward",
    "(Tensor? v, Tensor? p, Tensor? q, Tensor grad, Tensor x, Tensor? weight, Tensor mean,"
    " Tensor rstd, int groups, bool centre, bool[3] need, str impl) -> (Tensor, Tensor, Tensor)",
    _norm_double_backward,
    _norm_double_backward_fake,
    library.no_third_order("norm_double_backward"),
    None,
)


def _check(x: Kind, weight: Kind | None, bias: Kind | None, groups: int, eps: float) -> None:
    if len(x.shape) < 2 or not x.dtype.is_floating_point:
        raise ValueError(
            f"norm: got x of shape {tuple(x.shape)} and type {x.dtype}, expected (N, C, ...) of a "
            "floating-point type: reshape or convert it"
        )
    if not 0 <= eps < math.inf:
        raise ValueError(
            f"norm: got eps {eps}, expected a finite number of 0 or more: it is added to the "
            "variance, under the root"
        )
    if groups < 0 or (groups > 0 and x.shape[1] % groups):
        raise ValueError(
            f"norm: got {x.shape[1]} channels in {groups} groups, expected a divisor of the "
            "channels (or 0 for batch statistics): choose another number of groups"
        )
    if bias is not None and (weight is None or weight.shape != bias.shape):
        got = None if weight is None else tuple(weight.shape)
        raise ValueError(
            f"norm: got bias {tuple(bias.shape)} beside weight {got}, expected equal shapes: pass "
            "a weight of ones"
        )
    if weight is not None:
        _check_parameter(weight.shape, x.shape)
    wide = torch.promote_types(x.dtype, torch.float32)
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and value.dtype not in (x.dtype, wide):
            expected = " or ".join(str(dtype) for dtype in dict.fromkeys((x.dtype, wide)))
            raise TypeError(
                f"norm: got {name} of type {value.dtype} with x of {x.dtype}, expected {expected}: "
                "convert one of them"
            )
    if group_size(x.shape, groups) == 0:
        raise ValueError(
            f"norm: got x of shape {tuple(x.shape)}, whose groups hold no element, expected at "
            "least one: an empty batch has no batch statistics"
        )


_check_once = lru_cache(4096)(_check)


def _check_parameter(shape: torch.Size, x: torch.Size) -> None:
    if len(shape) == 1 and shape[0] == x[1]:
        return
    if len(shape) == len(x):
        pairs = list(zip(shape, x, strict=True))
        positions = all(v == s for v, s in pairs[2:]) or all(v == 1 for v, _ in pairs[2:])
        if positions and all(v in (1, s) for v, s in pairs[:2]):
            return
    raise ValueError(
        f"norm: got a weight or bias of shape {tuple(shape)} for x of {tuple(x)}, "
        f"expected ({x[1]},) or x's shape with 1 for N, for C or for all positions"
    )


def norm_with_statistics(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    groups: int,
    centre: bool = True,
    eps: float = 1e-5,
    impl: str = "auto",
) -> tuple[Tensor, Tensor, Tensor]:
    """As `norm`, and the statistics of each group: (y, mean, rstd), the latter two detached."""
    args = x, weight, bias, groups, centre, eps, impl
    plain = library.are_plain(*args)
    # A compiler must see the checks, and may have sizes that no cache can hold.
    check: Any = _check_once if plain else _check
    check(kind_of(x), kind_of(weight), kind_of(bias), groups, eps)
    result: tuple[Tensor, Tensor, Tensor] = (norm_op.plain if plain else norm_op.op)(*args)
    return result


def norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    groups: int,
    centre: bool = True,
    eps: float = 1e-5,
    impl: str = "auto",
) -> Tensor:
    """Normalises groups of x, then scales and shifts.

    y = (x - mean) / sqrt(var + eps) * weight + bias, with the biased variance of the group;
    without `centre` the mean is 0 (RMS norm).

    Args:
        x: (N, C, ...), float16, bfloat16, float32 or float64.
        weight: (C,), or a tensor that broadcasts against x. None: 1.
        bias: As weight. None: 0.
        groups: 0 for one group a channel over the batch (batch norm), else the number of groups
            into which the channels of each sample are cut (1: layer norm, C: instance norm).
        centre: Whether the mean is taken off.
        eps: Added to the variance, inside the root.
        impl: `auto`, `reference`, `native`, `cpp` or `triton`.

    Returns:
        A tensor of x's shape and type; statistics are computed in float32 at least.

    Raises:
        ValueError: Shapes that do not fit, an eps below 0, or an unknown implementation.
        TypeError: A weight in neither x's type nor the type of its statistics.
        RuntimeError: The implementation cannot run here; or a third derivative is taken.

    Example:
        >>> norm(torch.tensor([[0.0, 2.0]]), groups=1, eps=0.0).tolist()
        [[-1.0, 1.0]]
    """
    return norm_with_statistics(x, weight, bias, groups=groups, centre=centre, eps=eps, impl=impl)[
        0
    ]
