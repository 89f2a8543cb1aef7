// Groups of channels that are neighbours in memory: channels-last, and batch norm of (N, C).
#pragma once
#include "norm.h"

template <class T, class A, bool SECOND> struct Columns : Norm<T, A, SECOND> {
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

    // A scope is what shares statistics: a sample, or (batch statistics) the whole batch.
    bool batch() const { return a.inner == 0; }
    i64 scopes() const { return batch() ? 1 : a.outer; }
    i64 rows() const { return batch() ? a.outer * a.num_p : a.num_p; }
    i64 groups() const { return batch() ? a.num_q : a.inner; }
    i64 channels() const { return a.num_q / groups(); }  // of a group

    // Asks memory for what comes AHEAD rows later: processors do not foresee steps of whole rows.
    void fetch(const T* at) const { __builtin_prefetch(at + AHEAD * a.num_q); }

    // Calls f(block, first row, end) for the blocks of a scope's rows and adds up their sums.
    template <class F> void over_blocks(A* sums, i64 count, F f) const {
        if (!batch() || a.blocks == 1) return f(sums, 0, rows());
        std::vector<A> partial(a.blocks * count);
#pragma omp parallel for num_threads(a.threads) if (parallel())
        for (i64 b = 0; b < a.blocks; ++b)
            f(partial.data() + b * count, rows() * b / a.blocks, rows() * (b + 1) / a.blocks);
        std::fill(sums, sums + count, (A)0);
        for (i64 b = 0; b < a.blocks; ++b)
            for (i64 i = 0; i < count; ++i) sums[i] += partial[b * count + i];
    }

    // Calls f(first row, end) for a few rows at a time, which stay in the cache for all channels.
    template <class F> void over_chunks(F f) const {
#pragma omp parallel for num_threads(a.threads) if (parallel() && batch() && a.blocks > 1)
        for (i64 row = 0; row < rows(); row += CHUNK) f(row, std::min(row + CHUNK, rows()));
    }

    // Weights of a row of a scope start here.
    i64 weight_row(i64 scope, i64 row) const {
        if (!batch()) return scope * a.w_outer + row * a.w_p;
        return row / a.num_p * a.w_outer + row % a.num_p * a.w_p;
    }

    template <bool EACH> void forward_columns() const {
#pragma omp parallel for num_threads(a.threads) if (parallel() && !batch())
        for (i64 scope = 0; scope < scopes(); ++scope) forward_scope<EACH>(scope);
    }

    template <bool EACH> void forward_scope(i64 scope) const {
        const i64 C = a.num_q, K = channels();
        std::vector<A> buffer(5 * C);
        A *centre_at = buffer.data(), *rest = centre_at + C, *scale = rest + C, *s1 = scale + C;
        const T* from = x + scope * rows() * C;
        if (centre) guess(from, centre_at);
        for (int trial = 0; trial < 3; ++trial) {
            over_blocks(s1, 2 * C, [&](A* sums, i64 begin, i64 end) {
                squares(from, centre_at, begin, end, sums);
            });
            bool again = false;
            for (i64 group = 0; group < groups(); ++group) {
                const i64 first = group * K;
                A sum = 0, square = 0;
                for (i64 c = first; c < first + K; ++c) sum += s1[c], square += s1[C + c];
                Moments<A> m = {centre_at[first], centre ? sum / size : 0, 0};
                const A var = std::max<A>(square / size - m.rest * m.rest, 0);
                m.rstd = inverse_root(var, a.eps);
                if (doubtful(var)) m = careful_columns(from, first);
                else if (m.rest * m.rest > var && trial < 2) m.mean += m.rest, again = true;
                std::fill(centre_at + first, centre_at + first + K, m.mean);
                std::fill(rest + first, rest + first + K, m.rest);
                std::fill(scale + first, scale + first + K, m.rstd);
            }
            if (!again) break;
        }
        for (i64 group = 0; group < groups(); ++group) {
            mean[scope * groups() + group] = centre_at[group * K] + rest[group * K];
            rstd[scope * groups() + group] = scale[group * K];
        }
        A* shift = rest;
        const i64 w_scope = scope * a.w_outer;
        for (i64 c = 0; c < C; ++c) {
            if (!EACH && weight) scale[c] *= weight[w_scope + c];
            shift[c] = (!EACH && bias ? bias[w_scope + c] : 0) - rest[c] * scale[c];
        }
        T* to = out + scope * rows() * C;
        over_chunks([&](i64 begin, i64 end) {
            sweep<A>(C, [&](auto width, i64 c) {
                constexpr int N = decltype(width)::value;
                const Vec<N> middle = load<A, N>(centre_at + c), by = load<A, N>(scale + c),
                             add = load<A, N>(shift + c);
                for (i64 row = begin; row < end; ++row) {
                    fetch(from + row * C + c);
                    Vec<N> y = (load<A, N>(from + row * C + c) - middle) * by + add;
                    if (EACH) {
                        const i64 w_row = weight_row(scope, row);
                        y = y * at<true, N>(weight, w_row, c, 1) + at<true, N>(bias, w_row, c, 0);
                    }
                    store<A, N>(to + row * C + c, y);
                }
            });
        });
    }

    // A first guess at each group's mean, from its channels' first rows.
    void guess(const T* from, A* centre_at) const {
        const i64 C = a.num_q, K = channels(), known = std::min<i64>(rows(), 8);
        for (i64 first = 0; first < C; first += K) {
            const A start = load<A, 1>(from + first)[0];
            A sum = 0;
            for (i64 row = 0; row < known; ++row)
                for (i64 c = first; c < first + K; ++c)
                    sum += load<A, 1>(from + row * C + c)[0] - start;
            std::fill(centre_at + first, centre_at + first + K, start + sum / (known * K));
        }
    }

    // Sums by channel of the distance from centre_at and of its square.
    void squares(const T* from, const A* centre_at, i64 begin, i64 end, A* sums) const {
        std::fill(sums, sums + 2 * a.num_q, (A)0);
        for (i64 row = begin; row < end; row += CHUNK)
            add_squares(from, centre_at, row, std::min(row + CHUNK, end), sums);
    }

    void add_squares(const T* from, const A* centre_at, i64 begin, i64 end, A* sums) const {
        sweep<A>(a.num_q, [&](auto width, i64 c) {
            constexpr int N = decltype(width)::value;
            const Vec<N> middle = load<A, N>(centre_at + c);
            Vec<N> s1 = load<A, N>(sums + c), s2 = load<A, N>(sums + a.num_q + c);
            for (i64 row = begin; row < end; ++row) {
                fetch(from + row * a.num_q + c);
                const Vec<N> d = load<A, N>(from + row * a.num_q + c) - middle;
                s1 += d;
                s2 += d * d;
            }
            store<A, N>(sums + c, s1);
            store<A, N>(sums + a.num_q + c, s2);
        });
    }

    Moments<A> careful_columns(const T* from, i64 first) const {
        double sum = 0, squares = 0;
        const i64 C = a.num_q, end = first + channels();
        for (i64 row = 0; centre && row < rows(); ++row)
            for (i64 c = first; c < end; ++c) sum += load<A, 1>(from + row * C + c)[0];
        const double mean = sum / size;
        for (i64 row = 0; row < rows(); ++row)
            for (i64 c = first; c < end; ++c) {
                const double d = load<A, 1>(from + row * C + c)[0] - mean;
                squares += d * d;
            }
        return {(A)mean, (A)(mean - (A)mean), inverse_root(squares / size, a.eps)};
    }

    template <bool EACH> void backward_columns() const {
        const i64 parts = batch() ? 1 : a.blocks;
        WeightGradient<A> all_dw(a, dw), all_db(a, db);
#pragma omp parallel for num_threads(a.threads) if (parallel() && !batch())
        for (i64 part = 0; part < parts; ++part) {
            for (i64 s = scopes() * part / parts; s < scopes() * (part + 1) / parts; ++s)
                backward_scope<EACH>(s, all_dw.of(part), all_db.of(part));
        }
        all_dw.finish(), all_db.finish();
    }

    enum { MEAN, RSTD, OFF, MEAN_A, MEAN_V, S, T_, MEAN_H, ALONG_H, NUM_COLUMNS };

    template <bool EACH> void backward_scope(i64 scope, A* own_dw, A* own_db) const {
        const i64 C = a.num_q, K = channels(), kinds = SECOND ? NUM_SUMS : FIRST_SUMS;
        std::vector<A> sums(NUM_SUMS * C), columns(NUM_COLUMNS * C);
        A* of = columns.data();
        for (i64 c = 0; c < C; ++c) {
            of[MEAN * C + c] = mean[scope * groups() + c / K];
            of[RSTD * C + c] = rstd[scope * groups() + c / K];
        }
        over_blocks(sums.data(), kinds * C, [&](A* own, i64 begin, i64 end) {
            std::fill(own, own + kinds * C, (A)0);
            for (i64 row = begin; row < end; row += CHUNK)
                sums_of_columns<EACH>(scope, of, row, std::min(row + CHUNK, end), own);
        });
        const i64 w_scope = EACH ? 0 : scope * a.w_outer;
        for (i64 first = 0; first < C; first += K) {
            GroupSums<A> total;
            for (i64 c = first; c < first + K; ++c) {
                const A w = weight && !EACH ? weight[w_scope + c] : 1;
                total.add(sums.data() + c, C, w, p && !EACH ? p[w_scope + c] : 0, EACH, SECOND);
            }
            const A r = of[RSTD * C + first];
            const Coefficients<A> k = total.coefficients(size, r, centre);
            for (i64 c = first; c < first + K; ++c) {
                of[OFF * C + c] = k.off, of[MEAN_A * C + c] = k.mean_a;
                of[MEAN_V * C + c] = k.mean_v, of[S * C + c] = k.s, of[T_ * C + c] = k.t;
                of[MEAN_H * C + c] = k.mean_h, of[ALONG_H * C + c] = k.along_h;
                if (!EACH && own_dw)
                    add_weight_gradients(sums.data() + c, C, k, r, own_dw + w_scope + c,
                                         own_db ? own_db + w_scope + c : nullptr);
            }
        }
        over_chunks([&](i64 begin, i64 end) {
            write_rows<EACH>(scope, begin, end, of, own_dw, own_db);
        });
    }

    template <bool EACH>
    void sums_of_columns(i64 scope, const A* of, i64 begin, i64 end, A* sums) const {
        const i64 C = a.num_q, base = scope * rows() * C;
        sweep<A>(C, [&](auto width, i64 c) {
            constexpr int N = decltype(width)::value;
            const Vec<N> m = load<A, N>(of + MEAN * C + c), r = load<A, N>(of + RSTD * C + c);
            constexpr int KINDS = SECOND ? NUM_SUMS : FIRST_SUMS;
            Vec<N> s[NUM_SUMS];
            for (int i = 0; i < KINDS; ++i) s[i] = load<A, N>(sums + i * C + c);
            for (i64 row = begin; row < end; ++row) {
                const i64 at_x = base + row * C + c;
                fetch(x + at_x), fetch(grad + at_x);
                const i64 w_row = EACH ? weight_row(scope, row) : 0;
                const Vec<N> xhat = (load<A, N>(x + at_x) - m) * r;
                const Vec<N> plain = load<A, N>(grad + at_x);
                const Vec<N> g = EACH ? plain * at<true, N>(weight, w_row, c, 1) : plain;
                s[XHAT] += xhat;
                s[G] += g;
                s[GX] += g * xhat;
                if (!SECOND) continue;
                const Vec<N> value = load<A, N>(v + at_x);
                s[V] += value;
                s[VG] += value * g;
                s[VX] += value * xhat;
                if (!EACH) continue;
                const Vec<N> pg = plain * at<true, N>(p, w_row, c, 0);
                s[PG] += pg;
                s[PGX] += pg * xhat;
            }
            for (int i = 0; i < KINDS; ++i) store<A, N>(sums + i * C + c, s[i]);
        });
    }

    template <bool EACH>
    void write_rows(i64 scope, i64 begin, i64 end, const A* of, A* own_dw, A* own_db) const {
        const i64 C = a.num_q;
        sweep<A>(C, [&](auto width, i64 c) {
            constexpr int N = decltype(width)::value;
            const auto column = [&](int i) { return load<A, N>(of + i * C + c); };
            const auto weights = [&](const A* w, i64 row, A none) {
                const i64 start = EACH ? weight_row(scope, row) : scope * a.w_outer;
                return at<true, N>(w, start, c, none);
            };
            const Vec<N> m = column(MEAN), r = column(RSTD), off = column(OFF), zero = {};
            Spread<N> k = {column(MEAN_A), zero, column(S), zero, zero, zero};
            if (SECOND) k.mean_v = column(MEAN_V), k.t = column(T_), k.mean_h = column(MEAN_H),
                        k.along_h = column(ALONG_H);
            Vec<N> w = weights(weight, begin, 1), at_p = weights(p, begin, 0),
                   at_q = weights(q, begin, 0);
            for (i64 row = begin; row < end; ++row) {
                const i64 at_x = (scope * rows() + row) * C + c;
                fetch(x + at_x), fetch(grad + at_x);
                if (EACH)
                    w = weights(weight, row, 1), at_p = weights(p, row, 0), at_q = weights(q, row, 0);
                const Vec<N> xhat = (load<A, N>(x + at_x) - m) * r - off;
                const Vec<N> g = load<A, N>(grad + at_x);
                const Vec<N> to_weight = write(width, at_x, xhat, g, w, at_p, at_q, r, k);
                if (!EACH) continue;
                Base::template give<N>(own_dw, weight_row(scope, row) + c, to_weight);
                Base::template give<N>(own_db, weight_row(scope, row) + c, g);
            }
        });
    }
};
