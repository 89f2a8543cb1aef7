// Groups of runs of contiguous elements: rows, NCHW.
#pragma once
#include "norm.h"

template <class T, class A, bool SECOND> struct Runs : Norm<T, A, SECOND> {
    typedef Norm<T, A, SECOND> Base;
    using Base::a, Base::x, Base::grad, Base::v, Base::weight, Base::bias, Base::p, Base::q;
    using Base::mean, Base::rstd, Base::out, Base::dw, Base::db, Base::centre, Base::size;
    using Base::parallel, Base::doubtful, Base::inverse_root, Base::add_weight_gradients;
    using Base::write, Base::Base;
    template <int N> using Vec = typename Vector<A, N>::type;
    template <int N> using Spread = typename Base::template Spread<N>;

    template <bool EACH, int N> inline Vec<N> at(const A* w, i64 slot, i64 q, A none) const {
        return Base::template at<EACH, N>(w, slot, q, none);
    }

    // Asks memory for the same place of the next run: processors do not foresee the step between.
    static void fetch(const T* at) { __builtin_prefetch(at); }

    // Moments of a group of runs. Squares are of distances from a first guess, which is replaced
    // by the mean itself where it turns out to be further from it than the deviation.
    Moments<A> moments(const T* x, i64 runs, i64 length, i64 step) const {
        if (step == length) length *= runs, runs = 1;
        A centre_at = 0;
        if (centre) {
            const i64 known = std::min<i64>(length, 64);
            const A start = load<A, 1>(x)[0];
            Sum<A> sum;
            sweep<A>(known, [&](auto width, i64 i) {
                sum.add(load<A, decltype(width)::value>(x + i) - start);
            });
            centre_at = start + sum.total() / known;
        }
        for (int trial = 0;; ++trial) {
            Sum<A> s1, s2;
            for (i64 run = 0; run < runs; ++run) {
                const T* from = x + run * step;
                sweep<A>(length, [&](auto width, i64 i) {
                    constexpr int N = decltype(width)::value;
                    fetch(from + i + step);
                    Vec<N> d = load<A, N>(from + i) - centre_at;
                    s1.add(d);
                    s2.add(d * d);
                });
            }
            const A rest = centre ? s1.total() / size : 0;
            const A var = std::max<A>(s2.total() / size - rest * rest, 0);
            if (doubtful(var)) return careful(x, runs, length, step);
            if (!(rest * rest > var) || trial == 2)
                return {centre_at, rest, inverse_root(var, a.eps)};
            centre_at += rest;
        }
    }

    Moments<A> careful(const T* x, i64 runs, i64 length, i64 step) const {
        double sum = 0, squares = 0;
        for (i64 run = 0; centre && run < runs; ++run)
            for (i64 i = 0; i < length; ++i) sum += load<A, 1>(x + run * step + i)[0];
        const double mean = sum / size;
        for (i64 run = 0; run < runs; ++run)
            for (i64 i = 0; i < length; ++i) {
                const double d = load<A, 1>(x + run * step + i)[0] - mean;
                squares += d * d;
            }
        return {(A)mean, (A)(mean - (A)mean), inverse_root(squares / size, a.eps)};
    }

    template <bool EACH> void forward_runs() const {
#pragma omp parallel for num_threads(a.threads) if (parallel())
        for (i64 group = 0; group < a.outer * a.inner; ++group) {
            const i64 outer = group / a.inner, inner = group % a.inner;
            const i64 x_at = outer * a.x_outer + inner * a.x_inner;
            const i64 w_at = outer * a.w_outer + inner * a.w_inner;
            const Moments<A> m = moments(x + x_at, a.num_p, a.num_q, a.x_p);
            mean[group] = m.mean + m.rest;
            rstd[group] = m.rstd;
            for (i64 run = 0; run < a.num_p; ++run) {
                const T* from = x + x_at + run * a.x_p;
                T* to = out + x_at + run * a.x_p;
                const i64 w_run = w_at + run * a.w_p;
                const A scale = !EACH && weight ? m.rstd * weight[w_run] : m.rstd;
                const A shift = (!EACH && bias ? bias[w_run] : 0) - m.rest * scale;
                sweep<A>(a.num_q, [&](auto width, i64 i) {
                    constexpr int N = decltype(width)::value;
                    Vec<N> y = (load<A, N>(from + i) - m.mean) * scale + shift;
                    if (EACH)
                        y = y * at<EACH, N>(weight, w_run, i, 1) + at<EACH, N>(bias, w_run, i, 0);
                    store<A, N>(to + i, y);
                });
            }
        }
    }

    // Blocks of groups, which threads share.
    template <bool EACH> void backward_runs() const {
        const i64 groups = a.outer * a.inner;
        WeightGradient<A> all_dw(a, dw), all_db(a, db);
#pragma omp parallel for num_threads(a.threads) if (parallel())
        for (i64 block = 0; block < a.blocks; ++block) {
            std::vector<A> sums(NUM_SUMS * a.num_p);
            for (i64 g = groups * block / a.blocks; g < groups * (block + 1) / a.blocks; ++g)
                backward_group<EACH>(g, sums.data(), all_dw.of(block), all_db.of(block));
        }
        all_dw.finish(), all_db.finish();
    }

    template <bool EACH> void backward_group(i64 group, A* sums, A* own_dw, A* own_db) const {
        const i64 outer = group / a.inner, inner = group % a.inner;
        const i64 x_at = outer * a.x_outer + inner * a.x_inner;
        const i64 w_at = outer * a.w_outer + inner * a.w_inner;
        GroupSums<A> total;
        for (i64 run = 0; run < a.num_p; ++run) {
            const i64 w_run = w_at + run * a.w_p;
            sums_of_run<EACH>(group, x_at + run * a.x_p, w_run, sums + run);
            const A w = weight && !EACH ? weight[w_run] : 1, p_run = p && !EACH ? p[w_run] : 0;
            total.add(sums + run, a.num_p, w, p_run, EACH, SECOND);
        }
        const Coefficients<A> k = total.coefficients(size, rstd[group], centre);
        for (i64 run = 0; run < a.num_p; ++run) {
            const i64 w_run = w_at + run * a.w_p;
            write_run<EACH>(group, x_at + run * a.x_p, w_run, k, own_dw, own_db);
            if (EACH || !own_dw) continue;
            add_weight_gradients(sums + run, a.num_p, k, rstd[group], own_dw + w_run,
                                 own_db ? own_db + w_run : nullptr);
        }
    }

    template <bool EACH> void sums_of_run(i64 group, i64 at_x, i64 w_run, A* sums) const {
        const A m = mean[group], r = rstd[group];
        const T *from = x + at_x, *from_grad = grad + at_x, *from_v = SECOND ? v + at_x : nullptr;
        Sum<A> s[NUM_SUMS];
        sweep<A>(a.num_q, [&](auto width, i64 i) {
            constexpr int N = decltype(width)::value;
            fetch(from + i + a.x_p), fetch(from_grad + i + a.x_p);
            const Vec<N> xhat = (load<A, N>(from + i) - m) * r;
            const Vec<N> plain = load<A, N>(from_grad + i);
            const Vec<N> g = EACH ? plain * at<EACH, N>(weight, w_run, i, 1) : plain;
            s[XHAT].add(xhat);
            s[G].add(g);
            s[GX].add(g * xhat);
            if (!SECOND) return;
            const Vec<N> value = load<A, N>(from_v + i);
            s[V].add(value);
            s[VG].add(value * g);
            s[VX].add(value * xhat);
            if (!EACH) return;
            const Vec<N> pg = plain * at<EACH, N>(p, w_run, i, 0);
            s[PG].add(pg);
            s[PGX].add(pg * xhat);
        });
        for (int i = 0; i < (SECOND ? NUM_SUMS : FIRST_SUMS); ++i) sums[i * a.num_p] = s[i].total();
    }

    template <bool EACH>
    void write_run(i64 group, i64 at_x, i64 w_run, const Coefficients<A>& k, A* own_dw,
                   A* own_db) const {
        const A m = mean[group], r = rstd[group];
        sweep<A>(a.num_q, [&](auto width, i64 i) {
            constexpr int N = decltype(width)::value;
            const Vec<N> xhat = (load<A, N>(x + at_x + i) - m) * r - k.off;
            const Vec<N> g = load<A, N>(grad + at_x + i);
            const auto weights = [&](const A* w, A none) { return at<EACH, N>(w, w_run, i, none); };
            const Vec<N> to_weight =
                write(width, at_x + i, xhat, g, weights(weight, 1), weights(p, 0), weights(q, 0),
                      Vec<N>{} + r, Base::template spread<N>(k));
            if (!EACH) return;
            Base::template give<N>(own_dw, w_run + i, to_weight);
            Base::template give<N>(own_db, w_run + i, g);
        });
    }
};
