"""The torch ops `renorm::pointwise`, its backward and double backward, and their function.

Legend: N samples, C channels, S positions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from shared.kernels import library
from shared.kernels.library import Kind, kind_of
from shared.kernels.norm.layout import dense, flat, laid_out_as, shaped
from shared.kernels.pointwise import cpp, formula, fused
from shared.kernels.pointwise.formula import FUNCTIONS, Inputs
from shared.kernels.registry import Implementation, Operator, register, resolve, run, without_triton


def _in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*args[:-1], torch.float64)


OPERATOR = register(
    Operator(
        name="pointwise",
        equation="y = f(slope x + shift + residual) * weight + bias, f = tanh, erf or relu",
        source="Zhu, Chen, He, LeCun, Liu (2025), arXiv 2503.10622 (tanh); Chen, Lu, Zhu, Sun, "
        "Liu (2025), arXiv 2512.10938 (erf); Zhang, Dauphin, Ma (2019), arXiv 1901.09321 (relu)",
        implementations={
            "reference": Implementation(
                _in_float64(formula.forward),
                _in_float64(formula.backward),
                _in_float64(formula.double_backward),
            ),
            "native": Implementation(formula.forward, formula.backward, formula.double_backward),
            "cpp": Implementation(
                cpp.forward, cpp.backward, cpp.double_backward, cpp.obstacle, as_given=True
            ),
            # Its double backward is the formula on torch's operations: nothing to fuse by hand.
            "triton": Implementation(
                fused.forward, fused.backward, formula.double_backward, without_triton
            ),
        },
    )
)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _column(value: Tensor | None) -> Tensor | None:
    """(C,) -> (1, C, 1)."""
    return None if value is None else value.view(1, -1, 1)


def _flattened(i: Inputs) -> Inputs:
    """With x and residual of (N, C, S), weight and bias of (1, C, 1)."""
    residual = None if i.residual is None else flat(i.residual)
    return Inputs(flat(i.x), i.slope, i.shift, residual, _column(i.weight), _column(i.bias))


def _as(value: Tensor | None, like: Tensor | None, x: Tensor) -> Tensor:
    """A result in the shape, type and strides of its input; empty where there is no such input."""
    if like is None:
        return x.new_empty(0)
    if value is None:
        return torch.zeros_like(like)
    return laid_out_as(value if value.shape == like.shape else shaped(value, like), like)


def _forward(*args: Any) -> Tensor:
    *tensors, function, impl = args
    inputs = Inputs(*tensors)
    f, as_given = run("pointwise", "forward", impl, inputs.x)
    if inputs.x.numel() == 0:
        return torch.empty_like(dense(inputs.x))
    if as_given:
        return f(inputs, function, _wide(inputs.x))
    i = _flattened(inputs)
    return shaped(laid_out_as(f(i, function, _wide(i.x)), i.x), inputs.x)


def _forward_fake(x: Tensor, *args: Any) -> Tensor:
    return torch.empty_like(dense(x))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.function, ctx.impl = inputs
    ctx.save_for_backward(*tensors)


def _autograd(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    tensors = ctx.saved_tensors
    results = pointwise_backward_op(grad, *tensors, ctx.function, ctx.impl)
    present = [t is not None for t in tensors]
    return (*(r if p else None for r, p in zip(results, present, strict=True)), None, None)


def _backward(grad: Tensor, *args: Any) -> tuple[Tensor, ...]:
    *tensors, function, impl = args
    inputs = Inputs(*tensors)
    x = inputs.x
    f, as_given = run("pointwise", "backward", impl, x)
    results = (None,) * 6
    if x.numel() > 0 and as_given:
        results = f(grad, inputs, function, _wide(x))
    elif x.numel() > 0:
        results = f(flat(grad), _flattened(inputs), function, _wide(x))
    likes = dense(x), *inputs[1:]
    return tuple(_as(r, t, x) for r, t in zip(results, likes, strict=True))


def _backward_fake(grad: Tensor, x: Tensor, *args: Any) -> tuple[Tensor, ...]:
    rest = args[:-2]
    return tuple(x.new_empty(0) if t is None else torch.empty_like(t) for t in (dense(x), *rest))


def _backward_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.function, ctx.impl = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors)


def _backward_autograd(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
    grad, *tensors = ctx.saved_tensors
    used = [c if t is not None else None for c, t in zip(cotangents, tensors, strict=True)]
    results = pointwise_double_backward_op(*used, grad, *tensors, ctx.function, ctx.impl)
    present = [True, *(t is not None for t in tensors[:5])]
    picked = [r if p else None for r, p in zip(results, present, strict=True)]
    return (*picked, None, None, None)


def _double_backward(*args: Any) -> tuple[Tensor, ...]:
    cotangents, grad, inputs, function, impl = args[:6], args[6], Inputs(*args[7:13]), *args[13:]
    x = inputs.x
    f, as_given = run("pointwise", "double_backward", impl, x)
    results = (None,) * 6
    if x.numel() > 0 and as_given:
        results = f(cotangents, grad, inputs, function, _wide(x))
    elif x.numel() > 0:
        vx, v_slope, v_shift, v_residual, p, q = cotangents
        vx, v_residual = (None if t is None else flat(t) for t in (vx, v_residual))
        flattened = vx, v_slope, v_shift, v_residual, _column(p), _column(q)
        results = f(flattened, flat(grad), _flattened(inputs), function, _wide(x))
    likes = dense(x), dense(x), *inputs[1:5]
    return tuple(_as(r, t, x) for r, t in zip(results, likes, strict=True))


def _double_backward_fake(*args: Any) -> tuple[Tensor, ...]:
    x = dense(args[7])
    return tuple(x.new_empty(0) if t is None else torch.empty_like(t) for t in (x, x, *args[8:12]))


_SIX = (
    "Tensor x, Tensor slope, Tensor? shift, Tensor? residual, Tensor? weight, Tensor? bias, "
    "str function, str impl"
)
_RESULTS = " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
pointwise_op = library.define(
    "pointwise", f"({_SIX}) -> Tensor", _forward, _forward_fake, _autograd, _setup
)
pointwise_backward_op = library.define(
    "pointwise_backward",
    f"(Tensor grad, {_SIX}){_RESULTS}",
    _backward,
    _backward_fake,
    _backward_autograd,
    _backward_setup,
)
pointwise_double_backward_op = library.define(
    "pointwise_double_backward",
    "(Tensor? vx, Tensor? v_slope, Tensor? v_shift, Tensor? v_residual, Tensor? p, Tensor? q, "
    f"Tensor grad, {_SIX}){_RESULTS}",
    _double_backward,
    _double_backward_fake,
    library.no_third_order("pointwise_double_backward"),
    None,
)


def _require(holds: bool, name: str, got: Kind, expected: str) -> None:
    if not holds:
        raise ValueError(
            f"pointwise: got {name} of shape {tuple(got.shape)} and type {got.dtype}, expected "
            f"{expected}: reshape or convert it"
        )


def _check(function: str, *kinds: Kind | None) -> None:
    x, slope, shift, residual, weight, bias = kinds
    if function not in FUNCTIONS:
        raise ValueError(
            f"pointwise: got function {function!r}, expected one of {', '.join(FUNCTIONS)}"
        )
    assert x is not None
    fits = len(x.shape) >= 2 and x.dtype.is_floating_point
    _require(fits, "x", x, "(N, C, ...) of a floating type")
    types = x.dtype, torch.promote_types(x.dtype, torch.float32)
    for name, one in (("slope", slope), ("shift", shift)):
        if one is not None:
            fits = one.shape.numel() == 1 and one.dtype in types
            _require(fits, name, one, f"one number, {types}")
    for name, many in (("weight", weight), ("bias", bias)):
        if many is not None:
            fits = many.shape == x.shape[1:2] and many.dtype in types
            _require(fits, name, many, f"({x.shape[1]},) of type {types}")
    if residual is not None:
        expected = f"{tuple(x.shape)} of type {x.dtype}, as x"
        _require(residual == x, "residual", residual, expected)
    if bias is not None and weight is None:
        raise ValueError("pointwise: got a bias without a weight: pass a weight of ones")


_check_once = lru_cache(4096)(_check)


def pointwise(
    x: Tensor,
    slope: Tensor,
    shift: Tensor | None = None,
    residual: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    function: str,
    impl: str = "auto",
) -> Tensor:
    """y = f(slope x + shift + residual) * weight + bias.

    Args:
        x: (N, C, ...), float16, bfloat16, float32 or float64.
        slope: One number.
        shift: One number. None: 0.
        residual: As x. None: 0.
        weight: (C,). None: 1.
        bias: (C,), beside a weight. None: 0.
        function: `tanh`, `erf` or `relu`.
        impl: `auto`, `reference`, `native`, `cpp` or `triton`.

    Returns:
        A tensor of x's shape and type, computed in float32 at least.

    Raises:
        ValueError: Shapes or types that do not fit, an unknown function or implementation.
        RuntimeError: The implementation cannot run here; or a third derivative is taken.

    Example:
        >>> pointwise(torch.tensor([[-1.0, 2.0]]), torch.ones(1), function="relu").tolist()
        [[0.0, 2.0]]
    """
    args = x, slope, shift, residual, weight, bias, function, impl
    plain = library.are_plain(*args)
    # A compiler must see the checks, and may have sizes that no cache can hold.
    check: Any = _check_once if plain else _check
    check(function, *map(kind_of, args[:6]))
    # Torch's own operations save what their backward needs, fuse under torch.compile and have
    # derivatives of every order: native needs no op of ours.
    if impl == "auto" and torch.compiler.is_compiling():
        return _plain(x, slope, shift, residual, weight, bias, function)
    if resolve("pointwise", "forward", impl, x).implementation == "native":
        run("pointwise", "forward", impl, x)
        return _plain(x, slope, shift, residual, weight, bias, function)
    y: Tensor = (pointwise_op.plain if plain else pointwise_op.op)(*args)
    return y


def _plain(
    x: Tensor,
    slope: Tensor,
    shift: Tensor | None,
    residual: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    function: str,
) -> Tensor:
    view = (1, -1, *[1] * (x.dim() - 2))
    columns = (None if t is None else t.view(view) for t in (weight, bias))
    inputs = Inputs(x, slope, shift, residual, *columns)
    return formula.forward(inputs, function, _wide(x)).to(x.dtype)
