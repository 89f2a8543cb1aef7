// What the two layouts share: arguments, a group's sums and what follows from them.
//
// A group's sums are kept by slot. In the layout of rows and NCHW (runs.h) a slot is a run of
// contiguous elements; in channels-last (columns.h) it is a channel. A weight is either one number
// a slot, or differs within it (EACH). Weights are of type A, but for a WHOLE one, which has x's
// shape, layout and type: its gradient is stored as it is found, where others are summed.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "vectors.h"

constexpr i64 CHUNK = 8;   // rows of columns that are summed before the next channels' turn
constexpr i64 AHEAD = 16;  // rows of columns between what is asked of memory and what is worked on

struct Args {  // cpp.py packs the same: what follows from shapes, then what each call has
    i64 dtype, columns, centre;
    i64 outer, inner, num_p, num_q;    // columns: samples, groups (0: over the batch), S, C
    i64 x_outer, x_inner, x_p;         // strides of runs
    i64 w_outer, w_inner, w_p, each;   // strides of weights; columns: by sample, -, by position
    i64 whole;                         // the weight is of x's shape, layout and type
    i64 w_numel, blocks, shared;       // elements of a weight; whether several blocks use a slot's

    i64 threads;
    const void *x, *grad, *v, *weight, *bias, *p, *q;
    void *mean, *rstd, *out, *out2, *dw, *db;
    double eps;
};

// A mean in two parts (the float32 nearest, and what it lacks) and the inverse deviation.
template <class A> struct Moments { A mean, rest, rstd; };

// Sums over a group of the quantities that the backwards need, and what follows from them.
enum { XHAT, G, GX, V, VG, VX, PG, PGX, NUM_SUMS };
constexpr int FIRST_SUMS = 3;

template <class A> struct Coefficients { A off, mean_a, mean_v, s, t, mean_h, along_h; };

template <class A> struct GroupSums {  // with weights: a = w g, pg = p g
    A xhat = 0, a = 0, ax = 0, v = 0, va = 0, vx = 0, pg = 0, pgx = 0;

    // Adds the sums of a slot whose weight and cotangent p are w and p (1 where EACH).
    void add(const A* sums, i64 stride, A w, A p, bool each, bool second) {
        xhat += sums[XHAT * stride];
        a += w * sums[G * stride];
        ax += w * sums[GX * stride];
        if (!second) return;
        v += sums[V * stride];
        va += w * sums[VG * stride];
        vx += sums[VX * stride];
        pg += each ? sums[PG * stride] : p * sums[G * stride];
        pgx += each ? sums[PGX * stride] : p * sums[GX * stride];
    }

    Coefficients<A> coefficients(A size, A r, bool centre) const {
        Coefficients<A> k;
        k.off = centre ? xhat / size : 0;  // what the rounded mean lacks
        k.mean_a = centre ? a / size : 0;
        k.mean_v = centre ? v / size : 0;
        k.s = ax / size - k.off * k.mean_a;
        k.t = vx / size - k.off * k.mean_v;
        const A mean_pg = centre ? pg / size : 0;
        const A mean_ua = r * (va / size - k.mean_v * k.mean_a - k.t * k.s);
        k.mean_h = mean_pg - r * (k.mean_v * k.s + k.mean_a * k.t);
        k.along_h = pgx / size - k.off * mean_pg - 2 * r * k.s * k.t + mean_ua;
        return k;
    }
};

// The gradient of a weight, to which blocks add. Those that share slots have each their own, summed
// in their order, so that the result does not depend on the number of threads.
template <class A> struct WeightGradient {
    A* const to;
    const i64 numel;
    std::vector<A> own;

    WeightGradient(const Args& a, void* to) : to((A*)to), numel(a.w_numel) {
        if (!to || a.whole) return;
        if (a.shared) own.resize(a.blocks * numel);
        else std::fill(this->to, this->to + numel, (A)0);
    }
    A* of(i64 block) { return own.empty() ? to : own.data() + block * numel; }
    void finish() const {
        for (i64 i = 0; i < (own.empty() ? 0 : numel); ++i) {
            A sum = 0;
            for (size_t at = i; at < own.size(); at += numel) sum += own[at];
            to[i] = sum;
        }
    }
};

template <class T, class A, bool SECOND> struct Norm {
    const Args& a;
    const T *x, *grad, *v;
    const A *weight, *bias, *p, *q;
    A *mean, *rstd, *dw, *db;
    T *out, *out2;
    const bool centre;
    i64 size;  // elements of a group

    explicit Norm(const Args& args)
        : a(args), x((const T*)args.x), grad((const T*)args.grad), v((const T*)args.v),
          weight((const A*)args.weight), bias((const A*)args.bias), p((const A*)args.p),
          q((const A*)args.q), mean((A*)args.mean), rstd((A*)args.rstd), dw((A*)args.dw),
          db((A*)args.db), out((T*)args.out), out2((T*)args.out2), centre(args.centre) {
        if (!a.columns) size = a.num_p * a.num_q;
        else size = a.inner ? a.num_p * (a.num_q / a.inner) : a.outer * a.num_p;
    }

    bool parallel() const { return a.threads > 1; }

    template <int N> using Vec = typename Vector<A, N>::type;

    // Weights of the slot that begins at `slot`, q elements into it: one number a slot, or each its
    // own (EACH); `none` where there is no weight.
    template <bool EACH, int N> inline Vec<N> at(const A* w, i64 slot, i64 q, A none) const {
        if (!w) return Vec<N>{} + none;
        if (!EACH) return Vec<N>{} + w[slot];
        return a.whole ? load<A, N>((const T*)w + slot + q) : load<A, N>(w + slot + q);
    }

    // Gives elements' shares to the gradient of weights that differ within a slot.
    template <int N> inline void give(A* gradient, i64 at_w, Vec<N> share) const {
        if (!gradient) return;
        if (a.whole) return store<A, N>((T*)gradient + at_w, share);
        store<A, N>(gradient + at_w, load<A, N>(gradient + at_w) + share);
    }

    // Whether float32 sums of squares may have over- or underflowed.
    bool doubtful(A var) const {
        return sizeof(A) == 4 && (!(var < (A)1e30) || (double)var + a.eps < 1e-30);
    }

    static A inverse_root(double var, double eps) { return (A)(1.0 / std::sqrt(var + eps)); }

    // Gradients of a slot's weight and bias, which follow from its sums.
    void add_weight_gradients(const A* s, i64 stride, const Coefficients<A>& k, A r, A* to_dw,
                              A* to_db) const {
        const A g = s[G * stride], gx = s[GX * stride] - k.off * g;
        *to_dw += SECOND ? r * (s[VG * stride] - k.mean_v * g - k.t * gx) : gx;
        if (to_db) *to_db += g;
    }

    template <int N> struct Spread { Vec<N> mean_a, mean_v, s, t, mean_h, along_h; };

    template <int N> static inline Spread<N> spread(const Coefficients<A>& k) {
        const Vec<N> zero = {};
        return {zero + k.mean_a, zero + k.mean_v, zero + k.s, zero + k.t, zero + k.mean_h,
                zero + k.along_h};
    }

    // Writes dx, or gg and gx; returns each element's share of the weight's gradient.
    template <class W>
    inline Vec<W::value> write(W, i64 at_x, Vec<W::value> xhat, Vec<W::value> g, Vec<W::value> w,
                               Vec<W::value> p, Vec<W::value> q, Vec<W::value> r,
                               const Spread<W::value>& k) const {
        constexpr int N = W::value;
        const Vec<N> a = g * w;
        if (!SECOND) {
            store<A, N>(out + at_x, r * (a - k.mean_a - xhat * k.s));
            return g * xhat;
        }
        const Vec<N> v_at = load<A, N>(v + at_x), u = r * (v_at - k.mean_v - xhat * k.t);
        const Vec<N> h = p * g - r * (v_at * k.s + a * k.t);
        store<A, N>(out + at_x, u * w + p * xhat + q);
        store<A, N>(out2 + at_x, r * (h - k.mean_h - xhat * k.along_h));
        return g * u;
    }
};
