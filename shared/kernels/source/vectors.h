// Vectors of numbers of any type, computed in float or double, and sums over them.
#pragma once
#include <cstdint>
#include <cstring>

typedef int64_t i64;

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
