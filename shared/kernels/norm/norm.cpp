// `norm` on a CPU: see README.md for the formulas and cpp.py for who calls this.
//
// Plain C++ without torch's headers: it compiles in seconds and belongs to no version of torch.
// A group's sums are kept by slot. In the layout of rows and NCHW ("runs") a slot is a run of
// contiguous elements; in channels-last ("columns") it is a channel. A weight is either one number
// a slot, or differs within it (EACH).
//
// Sums are taken in vectors of fixed width and blocks of fixed number, so that results depend
// neither on the number of threads nor on the processor's own vectors.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

typedef int64_t i64;

struct Args {  // cpp.py packs the same
    i64 dtype, columns, threads, centre;
    i64 outer, inner, num_p, num_q;    // columns: samples, groups (0: over the batch), S, C
    i64 x_outer, x_inner, x_p;         // strides of runs
    i64 w_outer, w_inner, w_p, each;   // strides of weights; columns: by sample, -, by position
    i64 w_numel, blocks;
    const void *x, *grad, *v, *weight, *bias, *p, *q;
    void *mean, *rstd, *out, *out2, *dw, *db;
    double eps;
};

struct bfloat16 { uint16_t bits; };
typedef _Float16 float16;

template <class A, int N> struct Vector { typedef A type __attribute__((vector_size(N * sizeof(A)))); };
template <int N> struct Width { static constexpr int value = N; };

template <class A, int N> static inline typename Vector<A, N>::type load(const A* from) {
    typename Vector<A, N>::type value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}
template <class A, int N> static inline typename Vector<A, N>::type load(const bfloat16* from) {
    auto bits = __builtin_convertvector((load<uint16_t, N>((const uint16_t*)from)),
                                        typename Vector<uint32_t, N>::type) << 16;
    typename Vector<A, N>::type value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}
template <class A, int N> static inline typename Vector<A, N>::type load(const float16* from) {
    typename Vector<float16, N>::type value;
    std::memcpy(&value, from, sizeof(value));
    return __builtin_convertvector(value, typename Vector<A, N>::type);
}
template <class A, int N>
static inline void store(A* to, typename Vector<A, N>::type value) {
    std::memcpy(to, &value, sizeof(value));
}
template <class A, int N>
static inline void store(bfloat16* to, typename Vector<A, N>::type value) {
    typename Vector<uint32_t, N>::type bits;
    std::memcpy(&bits, &value, sizeof(bits));
    bits = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to nearest, ties to even
    bits = value == value ? bits : bits * 0 + 0x7fc0;
    auto narrow = __builtin_convertvector(bits, typename Vector<uint16_t, N>::type);
    std::memcpy(to, &narrow, sizeof(narrow));
}
template <class A, int N>
static inline void store(float16* to, typename Vector<A, N>::type value) {
    auto narrow = __builtin_convertvector(value, typename Vector<float16, N>::type);
    std::memcpy(to, &narrow, sizeof(narrow));
}

template <class A> constexpr int LANES = 64 / sizeof(A);
constexpr i64 CHUNK = 32;  // rows of columns that are summed before the next channels' turn

// f(width, q) for q from 0 to n, in steps of a full vector, half a vector, one.
template <class A, class F> static inline void sweep(i64 n, F f) {
    constexpr int W = LANES<A>;
    i64 q = 0;
    for (; q + W <= n; q += W) f(Width<W>(), q);
    for (; q + W / 2 <= n; q += W / 2) f(Width<W / 2>(), q);
    for (; q < n; ++q) f(Width<1>(), q);
}

// The sum of a vector's elements, by halves.
template <class A, int N> static inline A total(typename Vector<A, N>::type value) {
    if constexpr (N == 1) return value[0];
    else {
        typename Vector<A, N / 2>::type halves[2];
        std::memcpy(halves, &value, sizeof(value));
        return total<A, N / 2>(halves[0] + halves[1]);
    }
}

// A sum over a run: full vectors apart from the rest.
template <class A> struct Sum {
    typename Vector<A, LANES<A>>::type full = {};
    A rest = 0;
    template <class V> inline void add(V value) {
        if constexpr (sizeof(V) == sizeof(full)) full += value;
        else rest += ::total<A, sizeof(V) / sizeof(A)>(value);
    }
    inline A total() const { return ::total<A, LANES<A>>(full) + rest; }
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

    // ---- one element or vector of elements -------------------------------------------------

    template <int N> using Vec = typename Vector<A, N>::type;

    // A weight at q: one number a slot, or its own (EACH); `none` where there is no weight.
    template <bool EACH, int N> static inline Vec<N> at(const A* w, i64 q, A none) {
        if (!w) return Vec<N>{} + none;
        return EACH ? load<A, N>(w + q) : Vec<N>{} + *w;
    }

    // ---- forward ---------------------------------------------------------------------------

    // Whether float32 sums of squares may have over- or underflowed.
    bool doubtful(A var) const {
        return sizeof(A) == 4 && (!(var < (A)1e30) || (double)var + a.eps < 1e-30);
    }

    static A inverse_root(double var, double eps) { return (A)(1.0 / std::sqrt(var + eps)); }

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
                const A* w = weight ? weight + w_at + run * a.w_p : nullptr;
                const A* b = bias ? bias + w_at + run * a.w_p : nullptr;
                const A scale = !EACH && w ? m.rstd * *w : m.rstd, shift = !EACH && b ? *b : 0;
                sweep<A>(a.num_q, [&](auto width, i64 i) {
                    constexpr int N = decltype(width)::value;
                    Vec<N> y = (load<A, N>(from + i) - m.mean - m.rest) * scale;
                    if (EACH) y = y * at<EACH, N>(w, i, 1) + at<EACH, N>(b, i, 0);
                    else y = y + shift;
                    store<A, N>(to + i, y);
                });
            }
        }
    }

    // ---- backward and double backward, runs -------------------------------------------------

    // Blocks of groups: each has its own partial weight gradients, summed in order afterwards.
    template <bool EACH> void backward_runs() const {
        const i64 groups = a.outer * a.inner;
#pragma omp parallel for num_threads(a.threads) if (parallel())
        for (i64 block = 0; block < a.blocks; ++block) {
            std::vector<A> sums(NUM_SUMS * a.num_p);
            A* own_dw = dw ? dw + block * a.w_numel : nullptr;
            A* own_db = db ? db + block * a.w_numel : nullptr;
            for (i64 g = groups * block / a.blocks; g < groups * (block + 1) / a.blocks; ++g)
                backward_group<EACH>(g, sums.data(), own_dw, own_db);
        }
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

    // Gradients of a slot's weight and bias, which follow from its sums.
    void add_weight_gradients(const A* s, i64 stride, const Coefficients<A>& k, A r, A* to_dw,
                              A* to_db) const {
        const A g = s[G * stride], gx = s[GX * stride] - k.off * g;
        *to_dw += SECOND ? r * (s[VG * stride] - k.mean_v * g - k.t * gx) : gx;
        if (to_db) *to_db += g;
    }

    template <bool EACH> void sums_of_run(i64 group, i64 at_x, i64 w_run, A* sums) const {
        const A m = mean[group], r = rstd[group];
        const T *from = x + at_x, *from_grad = grad + at_x, *from_v = SECOND ? v + at_x : nullptr;
        const A* w = weight ? weight + w_run : nullptr;
        const A* with_p = p ? p + w_run : nullptr;
        Sum<A> s[NUM_SUMS];
        sweep<A>(a.num_q, [&](auto width, i64 i) {
            constexpr int N = decltype(width)::value;
            const Vec<N> xhat = (load<A, N>(from + i) - m) * r;
            const Vec<N> plain = load<A, N>(from_grad + i);
            const Vec<N> g = EACH ? plain * at<EACH, N>(w, i, 1) : plain;
            s[XHAT].add(xhat);
            s[G].add(g);
            s[GX].add(g * xhat);
            if (!SECOND) return;
            const Vec<N> value = load<A, N>(from_v + i);
            s[V].add(value);
            s[VG].add(value * g);
            s[VX].add(value * xhat);
            if (!EACH) return;
            const Vec<N> pg = plain * at<EACH, N>(with_p, i, 0);
            s[PG].add(pg);
            s[PGX].add(pg * xhat);
        });
        for (int i = 0; i < (SECOND ? NUM_SUMS : FIRST_SUMS); ++i) sums[i * a.num_p] = s[i].total();
    }

    template <bool EACH>
    void write_run(i64 group, i64 at_x, i64 w_run, const Coefficients<A>& k, A* own_dw,
                   A* own_db) const {
        const A m = mean[group], r = rstd[group];
        const A* w = weight ? weight + w_run : nullptr;
        const A* with_p = p ? p + w_run : nullptr;
        const A* with_q = q ? q + w_run : nullptr;
        A* to_dw = EACH && own_dw ? own_dw + w_run : nullptr;
        A* to_db = EACH && own_db ? own_db + w_run : nullptr;
        sweep<A>(a.num_q, [&](auto width, i64 i) {
            constexpr int N = decltype(width)::value;
            const Vec<N> xhat = (load<A, N>(x + at_x + i) - m) * r - k.off;
            const Vec<N> g = load<A, N>(grad + at_x + i), with_w = at<EACH, N>(w, i, 1);
            const Vec<N> to_weight = write(width, at_x + i, xhat, g, with_w,
                                           at<EACH, N>(with_p, i, 0), at<EACH, N>(with_q, i, 0),
                                           Vec<N>{} + r, spread<N>(k));
            if (to_dw) store<A, N>(to_dw + i, load<A, N>(to_dw + i) + to_weight);
            if (to_db) store<A, N>(to_db + i, load<A, N>(to_db + i) + g);
        });
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

    // ---- columns -----------------------------------------------------------------------------

    // A scope is what shares statistics: a sample, or (batch statistics) the whole batch.
    bool batch() const { return a.inner == 0; }
    i64 scopes() const { return batch() ? 1 : a.outer; }
    i64 rows() const { return batch() ? a.outer * a.num_p : a.num_p; }
    i64 groups() const { return batch() ? a.num_q : a.inner; }
    i64 channels() const { return a.num_q / groups(); }  // of a group

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
        const i64 w_scope = scope * a.w_outer;
        if (!EACH && weight)
            for (i64 c = 0; c < C; ++c) scale[c] *= weight[w_scope + c];
        T* to = out + scope * rows() * C;
#pragma omp parallel for num_threads(a.threads) if (parallel() && batch())
        for (i64 row = 0; row < rows(); ++row) {
            const i64 w_row = EACH ? weight_row(scope, row) : w_scope;
            const A *w = weight ? weight + w_row : nullptr, *b = bias ? bias + w_row : nullptr;
            sweep<A>(C, [&](auto width, i64 c) {
                constexpr int N = decltype(width)::value;
                Vec<N> y = load<A, N>(from + row * C + c) - load<A, N>(centre_at + c);
                y = (y - load<A, N>(rest + c)) * load<A, N>(scale + c);
                if (EACH) y = y * at<true, N>(w, c, 1);
                store<A, N>(to + row * C + c, y + at<true, N>(b, c, 0));
            });
        }
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
#pragma omp parallel for num_threads(a.threads) if (parallel() && !batch())
        for (i64 part = 0; part < parts; ++part) {
            A* own_dw = dw ? dw + part * a.w_numel : nullptr;
            A* own_db = db ? db + part * a.w_numel : nullptr;
            for (i64 s = scopes() * part / parts; s < scopes() * (part + 1) / parts; ++s)
                backward_scope<EACH>(s, own_dw, own_db);
        }
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
#pragma omp parallel for num_threads(a.threads) if (parallel() && batch() && a.blocks > 1)
        for (i64 row = 0; row < rows(); ++row) write_row<EACH>(scope, row, of, own_dw, own_db);
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
                const i64 w_row = EACH ? weight_row(scope, row) : 0;
                const Vec<N> xhat = (load<A, N>(x + at_x) - m) * r;
                const Vec<N> plain = load<A, N>(grad + at_x);
                const Vec<N> g =
                    EACH ? plain * at<true, N>(weight ? weight + w_row : nullptr, c, 1) : plain;
                s[XHAT] += xhat;
                s[G] += g;
                s[GX] += g * xhat;
                if (!SECOND) continue;
                const Vec<N> value = load<A, N>(v + at_x);
                s[V] += value;
                s[VG] += value * g;
                s[VX] += value * xhat;
                if (!EACH) continue;
                const Vec<N> pg = plain * at<true, N>(p ? p + w_row : nullptr, c, 0);
                s[PG] += pg;
                s[PGX] += pg * xhat;
            }
            for (int i = 0; i < KINDS; ++i) store<A, N>(sums + i * C + c, s[i]);
        });
    }

    template <bool EACH>
    void write_row(i64 scope, i64 row, const A* of, A* own_dw, A* own_db) const {
        const i64 C = a.num_q, at_x = (scope * rows() + row) * C;
        const i64 w_row = EACH ? weight_row(scope, row) : scope * a.w_outer;
        const A *w = weight ? weight + w_row : nullptr, *with_p = p ? p + w_row : nullptr,
                *with_q = q ? q + w_row : nullptr;
        A *to_dw = EACH && own_dw ? own_dw + w_row : nullptr,
          *to_db = EACH && own_db ? own_db + w_row : nullptr;
        sweep<A>(C, [&](auto width, i64 c) {
            constexpr int N = decltype(width)::value;
            const auto column = [&](int i) { return load<A, N>(of + i * C + c); };
            const Vec<N> r = column(RSTD), zero = {};
            const Vec<N> xhat = (load<A, N>(x + at_x + c) - column(MEAN)) * r - column(OFF);
            const Vec<N> g = load<A, N>(grad + at_x + c);
            Spread<N> k = {column(MEAN_A), zero, column(S), zero, zero, zero};
            if (SECOND) k.mean_v = column(MEAN_V), k.t = column(T_), k.mean_h = column(MEAN_H),
                        k.along_h = column(ALONG_H);
            const Vec<N> to_weight =
                write(width, at_x + c, xhat, g, at<true, N>(w, c, 1), at<true, N>(with_p, c, 0),
                      at<true, N>(with_q, c, 0), r, k);
            if (to_dw) store<A, N>(to_dw + c, load<A, N>(to_dw + c) + to_weight);
            if (to_db) store<A, N>(to_db + c, load<A, N>(to_db + c) + g);
        });
    }
};

#define RENORM_DISPATCH(PHASE)                                                   \
    switch (args->dtype) {                                                       \
        case 0: PHASE<float, float>(*args); break;                               \
        case 1: PHASE<bfloat16, float>(*args); break;                            \
        case 2: PHASE<float16, float>(*args); break;                             \
        default: PHASE<double, double>(*args);                                   \
    }

template <class T, class A> static void run_forward(const Args& args) {
    const Norm<T, A, false> norm(args);
    if (args.columns) args.each ? norm.template forward_columns<true>() : norm.template forward_columns<false>();
    else args.each ? norm.template forward_runs<true>() : norm.template forward_runs<false>();
}

template <class T, class A, bool SECOND> static void run_order(const Args& args) {
    const Norm<T, A, SECOND> norm(args);
    if (args.columns) args.each ? norm.template backward_columns<true>() : norm.template backward_columns<false>();
    else args.each ? norm.template backward_runs<true>() : norm.template backward_runs<false>();
}

template <class T, class A> static void run_backward(const Args& args) {
    args.v ? run_order<T, A, true>(args) : run_order<T, A, false>(args);
}

extern "C" void renorm_forward(const Args* args) { RENORM_DISPATCH(run_forward) }
extern "C" void renorm_backward(const Args* args) { RENORM_DISPATCH(run_backward) }
