"""Triton kernels of `norm`; see fused.py for the addressing and README.md for the formulas.

Imported by fused.py only where a kernel runs: Triton is not on every platform.
"""

# Triton's arguments carry no Python types; its constants are written in capitals.
# mypy: ignore-errors

import triton
import triton.language as tl

RUN_TIME = ("num_outer", "workers")


@triton.jit
def _load(pointer, offset, mask, WIDE: tl.constexpr):
    value = tl.load(pointer + offset, mask=mask, other=0.0)
    return value.to(tl.float64) if WIDE else value.to(tl.float32)


@triton.jit
def _tile(p0, q0, num_p, num_q, BLOCK_P: tl.constexpr, BLOCK_Q: tl.constexpr):
    p = (p0 + tl.arange(0, BLOCK_P))[:, None].to(tl.int64)
    q = (q0 + tl.arange(0, BLOCK_Q))[None, :].to(tl.int64)
    return p, q, (p < num_p) & (q < num_q)


@triton.jit(do_not_specialize=RUN_TIME)
def forward_kernel(
    x, weight, bias, y, mean, rstd, eps: tl.float64,
    num_outer, num_inner, num_p, num_q,
    x_outer, x_inner, x_p, x_q,
    w_outer, w_inner, w_p, w_q,
    CENTRE: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_Q: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0).to(tl.int64)
    outer, inner = group // num_inner, group % num_inner
    x += outer * x_outer + inner * x_inner
    y += outer * x_outer + inner * x_inner
    w_at = outer * w_outer + inner * w_inner
    size = num_p * num_q
    kind = tl.float64 if WIDE else tl.float32
    zero = tl.zeros([BLOCK_P, BLOCK_Q], kind)
    epsilon = (tl.zeros([], tl.float64) + eps).to(kind)

    # A common offset is taken off before summing, twice: by the first element, then by the mean
    # so found, since the first element may itself be far from the mean.
    centre = tl.zeros([], kind)
    if CENTRE:
        centre = tl.load(x).to(kind)
        total = zero
        for p0 in range(0, num_p, BLOCK_P):
            for q0 in range(0, num_q, BLOCK_Q):
                p, q, mask = _tile(p0, q0, num_p, num_q, BLOCK_P, BLOCK_Q)
                value = _load(x, p * x_p + q * x_q, mask, WIDE)
                total += tl.where(mask, value - centre, 0.0)
        centre += tl.sum(total) / size
    total, largest = zero, zero
    for p0 in range(0, num_p, BLOCK_P):
        for q0 in range(0, num_q, BLOCK_Q):
            p, q, mask = _tile(p0, q0, num_p, num_q, BLOCK_P, BLOCK_Q)
            d = tl.where(mask, _load(x, p * x_p + q * x_q, mask, WIDE) - centre, 0.0)
            total += d
            largest = tl.maximum(largest, tl.abs(d))
    rest = tl.sum(total) / size if CENTRE else tl.zeros([], kind)
    # Squares are taken of numbers of at most 1 (2 with `rest`), so that none overflows.
    scale = tl.maximum(tl.max(largest), tl.sqrt(epsilon))
    scale = tl.where(scale == 0.0, 1.0, scale)
    total = zero
    for p0 in range(0, num_p, BLOCK_P):
        for q0 in range(0, num_q, BLOCK_Q):
            p, q, mask = _tile(p0, q0, num_p, num_q, BLOCK_P, BLOCK_Q)
            d = (_load(x, p * x_p + q * x_q, mask, WIDE) - centre - rest) / scale
            total += tl.where(mask, d * d, 0.0)
    r = 1.0 / tl.sqrt(tl.sum(total) / size + epsilon / scale / scale) / scale
    tl.store(mean + group, centre + rest)
    tl.store(rstd + group, r)

    for p0 in range(0, num_p, BLOCK_P):
        for q0 in range(0, num_q, BLOCK_Q):
            p, q, mask = _tile(p0, q0, num_p, num_q, BLOCK_P, BLOCK_Q)
            at = p * x_p + q * x_q
            out = (_load(x, at, mask, WIDE) - centre - rest) * r
            w_offset = w_at + p * w_p + q * w_q
            if HAS_WEIGHT:
                out *= _load(weight, w_offset, mask, WIDE)
            if HAS_BIAS:
                out += _load(bias, w_offset, mask, WIDE)
            tl.store(y + at, out.to(y.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=RUN_TIME)
def backward_kernel(
    grad, x, weight, mean, rstd, dx, dw, db, workers,
    num_outer, num_inner, num_p, num_q,
    x_outer, x_inner, x_p, x_q,
    w_outer, w_inner, w_p, w_q,
    CENTRE: tl.constexpr, HAS_WEIGHT: tl.constexpr, WANTS_WEIGHT: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_Q: tl.constexpr,
):  # fmt: skip
    inner, worker = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    own = (worker * num_inner + inner) * num_p
    size = num_p * num_q
    kind = tl.float64 if WIDE else tl.float32
    zero = tl.zeros([BLOCK_P, BLOCK_Q], kind)
    for outer in range(worker, num_outer, workers):
        group = outer * num_inner + inner
        x_at = outer * x_outer + inner * x_inner
        w_at = outer * w_outer + inner * w_inner
        centre, r = tl.load(mean + group), tl.load(rstd + group)

        # The saved mean is rounded: `off`, the mean of xhat so computed, is what it lacks.
        sum_xhat, sum_a, sum_a_xhat = zero, zero, zero
        for p0 in range(0, num_p, BLOCK_P):
            for q0 in range(0, num_q, BLOCK_Q):
                p, q, mask = _tile(p0, q0, num_p, num_q, BLOCK_P, BLOCK_Q)
                at = x_at + p * x_p + q * x_q
                a = _load(grad, at, mask, WIDE)
                if HAS_WEIGHT:
                    a *= _load(weight, w_at + p * w_p + q * w_q, mask, WIDE)
                xhat = tl.where(mask, (_load(x, at, mask, WIDE) - centre) * r, 0.0)
                sum_xhat += xhat
                sum_a += a
                sum_a_xhat += a * xhat
        off, mean_a = tl.zeros([], kind), tl.zeros([], kind)
        if CENTRE:
            off, mean_a = tl.sum(sum_xhat) / size, tl.sum(sum_a) / size
        along = tl.sum(sum_a_xhat) / size - off * mean_a

        for p0 in range(0, num_p, BLOCK_P):
            total_w, total_b = tl.zeros([BLOCK_P], kind), tl.zeros([BLOCK_P], kind)
            for q0 in range(0, num_q, BLOCK_Q):
                p, q, mask = _tile(p0, q0, num_p, num_q, BLOCK_P, BLOCK_Q)
                at = x_at + p * x_p + q * x_q
                g = _load(grad, at, mask, WIDE)
                a = g
                if HAS_WEIGHT:
                    a = g * _load(weight, w_at + p * w_p + q * w_q, mask, WIDE)
                xhat = tl.where(mask, (_load(x, at, mask, WIDE) - centre) * r - off, 0.0)
                out = r * (a - mean_a - xhat * along)
                tl.store(dx + at, out.to(dx.dtype.element_ty), mask=mask)
                total_w += tl.sum(g * xhat, 1)
                total_b += tl.sum(g, 1)
            if WANTS_WEIGHT:
                p = p0 + tl.arange(0, BLOCK_P)
                total_w += tl.load(dw + own + p, mask=p < num_p, other=0.0)
                total_b += tl.load(db + own + p, mask=p < num_p, other=0.0)
                tl.store(dw + own + p, total_w, mask=p < num_p)
                tl.store(db + own + p, total_b, mask=p < num_p)


@triton.jit(do_not_specialize=RUN_TIME)
def double_backward_kernel(
    v, p_, q_, grad, x, weight, mean, rstd, gg, gx, sums, each, workers,
    num_outer, num_inner, num_p, num_q,
    x_outer, x_inner, x_p, x_q,
    w_outer, w_inner, w_p, w_q,
    p_outer, p_inner, p_p, p_q,
    q_outer, q_inner, q_p, q_q,
    CENTRE: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_P: tl.constexpr, HAS_Q: tl.constexpr,
    WANTS_SUMS: tl.constexpr, WANTS_EACH: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_Q: tl.constexpr,
):  # fmt: skip
    inner, worker = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    own = (worker * num_inner + inner) * num_p
    size = num_p * num_q
    kind = tl.float64 if WIDE else tl.float32
    zero = tl.zeros([BLOCK_P, BLOCK_Q], kind)
    for outer in range(worker, num_outer, workers):
        group = outer * num_inner + inner
        x_at = outer * x_outer + inner * x_inner
        w_at = outer * w_outer + inner * w_inner
        p_at = outer * p_outer + inner * p_inner
        q_at = outer * q_outer + inner * q_inner
        centre, r = tl.load(mean + group), tl.load(rstd + group)

        sum_xhat, sum_a, sum_v, sum_pg = zero, zero, zero, zero
        sum_va, sum_a_xhat, sum_v_xhat, sum_pg_xhat = zero, zero, zero, zero
        for p0 in range(0, num_p, BLOCK_P):
            for q0 in range(0, num_q, BLOCK_Q):
                p, q, mask = _tile(p0, q0, num_p, num_q, BLOCK_P, BLOCK_Q)
                at = x_at + p * x_p + q * x_q
                g, v_pq = _load(grad, at, mask, WIDE), _load(v, at, mask, WIDE)
                a = g
                if HAS_WEIGHT:
                    a = g * _load(weight, w_at + p * w_p + q * w_q, mask, WIDE)
                xhat = tl.where(mask, (_load(x, at, mask, WIDE) - centre) * r, 0.0)
                sum_xhat += xhat
                sum_a += a
                sum_v += v_pq
                sum_va += v_pq * a
                sum_a_xhat += a * xhat
                sum_v_xhat += v_pq * xhat
                if HAS_P:
                    pg = g * _load(p_, p_at + p * p_p + q * p_q, mask, WIDE)
                    sum_pg += pg
                    sum_pg_xhat += pg * xhat
        off, mean_a, mean_v, mean_pg = (tl.zeros([], kind),) * 4
        if CENTRE:
            off, mean_a = tl.sum(sum_xhat) / size, tl.sum(sum_a) / size
            mean_v, mean_pg = tl.sum(sum_v) / size, tl.sum(sum_pg) / size
        s = tl.sum(sum_a_xhat) / size - off * mean_a
        t = tl.sum(sum_v_xhat) / size - off * mean_v
        mean_ua = r * (tl.sum(sum_va) / size - mean_v * mean_a - t * s)
        mean_h = mean_pg - r * (mean_v * s + mean_a * t)
        mean_h_xhat = tl.sum(sum_pg_xhat) / size - off * mean_pg - 2.0 * r * s * t

        for p0 in range(0, num_p, BLOCK_P):
            total = tl.zeros([BLOCK_P], kind)
            for q0 in range(0, num_q, BLOCK_Q):
                p, q, mask = _tile(p0, q0, num_p, num_q, BLOCK_P, BLOCK_Q)
                at = x_at + p * x_p + q * x_q
                g, v_pq = _load(grad, at, mask, WIDE), _load(v, at, mask, WIDE)
                xhat = tl.where(mask, (_load(x, at, mask, WIDE) - centre) * r - off, 0.0)
                u = tl.where(mask, r * (v_pq - mean_v - xhat * t), 0.0)
                a, out = g, u
                if HAS_WEIGHT:
                    w = _load(weight, w_at + p * w_p + q * w_q, mask, WIDE)
                    a, out = g * w, u * w
                h = -r * (v_pq * s + a * t)
                if HAS_P:
                    p_pq = _load(p_, p_at + p * p_p + q * p_q, mask, WIDE)
                    h += p_pq * g
                    out += p_pq * xhat
                if HAS_Q:
                    out += _load(q_, q_at + p * q_p + q * q_q, mask, WIDE)
                second = r * (h - mean_h - xhat * (mean_h_xhat + mean_ua))
                tl.store(gg + at, out.to(gg.dtype.element_ty), mask=mask)
                tl.store(gx + at, second.to(gx.dtype.element_ty), mask=mask)
                if WANTS_EACH:
                    tl.store(each + at, g * u, mask=mask)
                total += tl.sum(g * u, 1)
            if WANTS_SUMS:
                p = p0 + tl.arange(0, BLOCK_P)
                total += tl.load(sums + own + p, mask=p < num_p, other=0.0)
                tl.store(sums + own + p, total, mask=p < num_p)
