// tanh, erf and relu of vectors, with their first two derivatives.
//
// In double each element is a call of the C library. In float such a call would cost far more than
// the memory it reads, so tanh and erf are made of one exponential, which is good to a few units in
// the last place. NaN and the sign of zero pass through.
#pragma once
#include <cmath>

#include "vectors.h"

template <class A, int N> using Vec = typename Vector<A, N>::type;
template <int N> using Bits = typename Vector<uint32_t, N>::type;

template <class To, class From> static inline To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "only the type changes");
    To to;
    std::memcpy(&to, &from, sizeof(to));
    return to;
}
template <int N, class F> static inline Vec<double, N> one_by_one(Vec<double, N> x, F f) {
    for (int i = 0; i < N; ++i) x[i] = f(x[i]);
    return x;
}
// Comparisons with NaN are false, so that NaN stays.
template <int N> static inline Vec<float, N> at_most(Vec<float, N> x, float bound) {
    return x > bound ? Vec<float, N>{} + bound : x;
}
template <int N> static inline Vec<float, N> magnitude(Vec<float, N> x) {
    return same_bits<Vec<float, N>>(same_bits<Bits<N>>(x) & 0x7fffffff);
}
template <int N> static inline Vec<float, N> with_sign_of(Vec<float, N> x, Vec<float, N> size) {
    return same_bits<Vec<float, N>>((same_bits<Bits<N>>(size) & 0x7fffffff) |
                                    (same_bits<Bits<N>>(x) & 0x80000000));
}

// c[0] + c[1] x + ...: by pairs, then pairs of these, so that no step waits for all before it.
template <int N, int K>
static inline Vec<float, N> polynomial(Vec<float, N> x, const float (&c)[K]) {
    Vec<float, N> sums[K];
    for (int i = 0; i < K; ++i) sums[i] = Vec<float, N>{} + c[i];
    for (int n = K; n > 1; n = (n + 1) / 2, x = x * x) {
        for (int i = 0; i + 1 < n; i += 2) sums[i / 2] = sums[i] + sums[i + 1] * x;
        if (n % 2) sums[n / 2] = sums[n - 1];
    }
    return sums[0];
}

// exp(x) = scale (1 + rest), a power of two and what is left; |x| <= 87.
template <int N> struct Exponential {
    Vec<float, N> scale, rest;

    explicit Exponential(Vec<float, N> x) {
        const float shifter = 12582912;  // 1.5 2^23: the sum's last bits are the nearest integer
        const Vec<float, N> shifted = x * 1.44269504f + shifter, power = shifted - shifter;
        // log(2) in two parts: the first has so few bits that its product is exact.
        const Vec<float, N> r = (x - power * 0.693359375f) + power * 2.12194440e-4f;
        // exp(r) - 1 - r, interpolated for |r| <= log(2) / 2.
        rest = r + r * r * polynomial<N>(r, {.5f, .166665763f, .0416662693f, .00836323295f,
                                             .00139450748f});
        scale = same_bits<Vec<float, N>>((same_bits<Bits<N>>(shifted) << 23) + 0x3f800000);
    }
    Vec<float, N> value() const { return scale + scale * rest; }
    Vec<float, N> minus_one() const { return scale * rest + (scale - 1); }
};

template <class A, int N> struct Tanh {
    Vec<A, N> value, to_one;  // the function, and what its magnitude lacks to 1

    explicit Tanh(Vec<A, N> z) {
        if constexpr (sizeof(A) == 8) value = one_by_one<N>(z, [](double e) { return std::tanh(e); });
        else {
            const Vec<float, N> size = magnitude<N>(z);
            const auto e = Exponential<N>(2 * at_most<N>(size, 43)).minus_one();
            const auto inverse = 1 / (e + 2);
            value = with_sign_of<N>(z, e * inverse);
            to_one = size > 43 ? Vec<float, N>{} : 2 * inverse;
        }
    }
    Vec<A, N> first() const {
        if constexpr (sizeof(A) == 8) return 1 - value * value;
        else return to_one * (2 - to_one);  // the same, but nothing cancels
    }
    Vec<A, N> second() const { return -2 * value * first(); }
};

template <class A, int N> struct Erf {
    Vec<A, N> z, value;

    explicit Erf(Vec<A, N> z) : z(z) {
        if constexpr (sizeof(A) == 8) value = one_by_one<N>(z, [](double e) { return std::erf(e); });
        else {
            // -log(1 - erf(t)) = t sum on 0 to 4, interpolated; beyond erf is 1.
            const Vec<float, N> t = at_most<N>(magnitude<N>(z), 4);
            const Vec<float, N> sum = polynomial<N>(
                t, {1.12837911f, .636620581f, .102762364f, -.0190764088f, -3.51144117e-4f,
                    .00193420611f, -8.54247541e-4f, 2.27120312e-4f, -4.0587387e-5f, 4.78560787e-6f,
                    -3.37605087e-7f, 1.08054827e-8f});
            value = with_sign_of<N>(z, Exponential<N>(-t * sum).minus_one());
        }
    }
    Vec<A, N> first() const {
        const A factor = (A)1.1283791670955126;  // 2 / sqrt(pi)
        if constexpr (sizeof(A) == 8)
            return factor * one_by_one<N>(z, [](double e) { return std::exp(-e * e); });
        else {
            const Vec<float, N> square = z * z;
            const auto value = factor * Exponential<N>(-at_most<N>(square, 87)).value();
            return square > 87 ? Vec<float, N>{} : value;
        }
    }
    Vec<A, N> second() const { return -2 * z * first(); }
};

template <class A, int N> struct Relu {
    Vec<A, N> value;

    explicit Relu(Vec<A, N> z) : value(z < 0 ? Vec<A, N>{} : z) {}
    Vec<A, N> first() const { return value > 0 ? Vec<A, N>{} + 1 : value; }
    Vec<A, N> second() const { return Vec<A, N>{}; }
};
