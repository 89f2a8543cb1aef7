"""Triton kernels of `pointwise`; imported by fused.py only where a kernel runs."""

# Triton's arguments carry no Python types; its constants are written in capitals.
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def _tanh(z):
    # By exp of a number that is never positive, hence without overflow.
    e = tl.exp(-2.0 * tl.abs(z))
    size = (1.0 - e) / (1.0 + e)
    # Near 0 the difference cancels: the series is exact to float64 there.
    t = tl.minimum(z * z, 0.01)
    series = -17.0 / 315 + t * (62.0 / 2835 + t * (-1382.0 / 155925 + t * (21844.0 / 6081075)))
    series = 1.0 + t * (-1.0 / 3 + t * (2.0 / 15 + t * series))
    size = tl.where(tl.abs(z) < 0.1, tl.abs(z) * series, size)
    return tl.where(z < 0, -size, size)


@triton.jit
def _derivatives(z, FUNCTION: tl.constexpr):
    if FUNCTION == "tanh":
        f = _tanh(z)
        first = 1.0 - f * f
    elif FUNCTION == "erf":
        f = tl.erf(z)
        first = tl.exp(-z * z) * 1.1283791670955126
    else:
        f = tl.where(z == z, tl.maximum(z, 0.0), z)
        first = tl.where(z == z, tl.where(z > 0, 1.0, 0.0), z)
    return f, first


@triton.jit
def _load(pointer, offset, mask, WIDE: tl.constexpr):
    value = tl.load(pointer + offset, mask=mask, other=0.0)
    return value.to(tl.float64) if WIDE else value.to(tl.float32)


@triton.jit
def _z(
    x, slope, shift, residual, at, mask,
    HAS_SHIFT: tl.constexpr, HAS_RESIDUAL: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    kind = tl.float64 if WIDE else tl.float32
    z = x * tl.load(slope).to(kind)
    if HAS_SHIFT:
        z += tl.load(shift).to(kind)
    if HAS_RESIDUAL:
        z += _load(residual, at, mask, WIDE)
    return z


@triton.jit(do_not_specialize=["numel"])
def forward_kernel(
    x, slope, shift, residual, weight, bias, y, numel, num_channels, inner,
    FUNCTION: tl.constexpr, HAS_SHIFT: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < numel
    channel = at // inner % num_channels
    value = _load(x, at, mask, WIDE)
    z = _z(value, slope, shift, residual, at, mask, HAS_SHIFT, HAS_RESIDUAL, WIDE)
    out, _ = _derivatives(z, FUNCTION)
    if HAS_WEIGHT:
        out *= _load(weight, channel, mask, WIDE)
    if HAS_BIAS:
        out += _load(bias, channel, mask, WIDE)
    tl.store(y + at, out.to(y.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["numel"])
def backward_kernel(
    grad, x, slope, shift, residual, weight, bias, dx, a, gf, numel, num_channels, inner,
    FUNCTION: tl.constexpr, HAS_SHIFT: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < numel
    channel = at // inner % num_channels
    g, value = _load(grad, at, mask, WIDE), _load(x, at, mask, WIDE)
    z = _z(value, slope, shift, residual, at, mask, HAS_SHIFT, HAS_RESIDUAL, WIDE)
    f, first = _derivatives(z, FUNCTION)
    inside = g * first
    if HAS_WEIGHT:
        inside *= _load(weight, channel, mask, WIDE)
    out = inside * tl.load(slope).to(inside.dtype)
    tl.store(dx + at, out.to(dx.dtype.element_ty), mask=mask)
    tl.store(a + at, inside, mask=mask)
    tl.store(gf + at, g * f, mask=mask)
