// tanh, erf and relu of vectors, with their first two derivatives.
//
// In double each element is a call of the C library. In float such a call would cost far more than
// the memory it reads, so tanh is made of an exponential and erf of a fraction, good to 3 and 7 units
// in the last place. NaN and the sign of zero pass through.
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

// c[0] + c[1] x + ...; by Horner's rule, since x^4 of a small x underflows, which takes processors
// a hundred times as long as a product does.
template <int N, int K>
static inline Vec<float, N> polynomial(Vec<float, N> x, const float (&c)[K]) {
    Vec<float, N> sum = Vec<float, N>{} + c[K - 1];
    for (int i = K - 2; i >= 0; --i) sum = sum * x + c[i];
    return sum;
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
            // erf(z) / z as a fraction of polynomials of z^2, fitted to 3e-8 up to 4; beyond erf is 1.
            const Vec<float, N> size = at_most<N>(magnitude<N>(z), 4), square = size * size;
            const Vec<float, N> above = polynomial<N>(
                square, {1.12837911f, .193546042f, .0531018861f, .00388338906f, 2.84567359e-4f,
                         1.98678072e-6f});
            const Vec<float, N> below = polynomial<N>(
                square, {1, .504858255f, .11535041f, .0152073419f, .00118558283f, 3.74202355e-5f});
            const Vec<float, N> found = size * (above / below), one = Vec<float, N>{} + 1;
            value = with_sign_of<N>(z, ((size >= 4) | (found > 1)) ? one : found);
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
