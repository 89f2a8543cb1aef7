// `pointwise` on a CPU: see README.md for the formulas and cpp.py for who calls this.
//
// x is cut into runs of neighbours in memory. A run holds one element of every channel (EACH: rows
// and channels-last), or belongs to one channel. Sums are taken in vectors of fixed width and blocks
// of fixed number, so that results do not depend on the number of threads.
#include <algorithm>
#include <vector>

#include "functions.h"

struct Args {  // cpp.py packs the same
    i64 dtype, function, each, num_runs, length, num_channels, blocks, threads;
    // x, grad and residual are alike; parameters, their cotangents and gradients are of type A.
    const void *x, *slope, *shift, *residual, *weight, *bias;
    const void *vx, *v_slope, *v_shift, *v_residual, *p, *q, *grad;
    void *out;  // y, or the gradient of grad
    void *of_x, *of_slope, *of_shift, *of_residual, *of_weight, *of_bias;
};

template <class T, class A, template <class, int> class F, bool EACH> struct Pointwise {
    const Args& a;
    const A slope = number(a.slope), shift = number(a.shift);

    static A number(const void* from) { return from ? *(const A*)from : 0; }

    // Elements of a tensor like x; zeros where there is none.
    template <int N> static inline Vec<A, N> like_x(const void* from, i64 at) {
        return from ? load<A, N>((const T*)from + at) : Vec<A, N>{};
    }
    template <int N> static inline void write(void* to, i64 at, Vec<A, N> value) {
        if (to) store<A, N>((T*)to + at, value);
    }
    // A parameter of the channels of a run's elements i, i + 1, ...
    template <int N> inline Vec<A, N> of_channel(const void* from, i64 run, i64 i, A none) const {
        if (!from) return Vec<A, N>{} + none;
        if (EACH) return load<A, N>((const A*)from + i);
        return Vec<A, N>{} + ((const A*)from)[run % a.num_channels];
    }
    template <int N> inline Vec<A, N> z(Vec<A, N> x, i64 at) const {
        const Vec<A, N> z = a.shift ? x * slope + shift : x * slope;
        return a.residual ? z + like_x<N>(a.residual, at) : z;
    }

    // Calls f(block, run) for all runs.
    template <class G> void over_runs(G f) const {
#pragma omp parallel for num_threads(a.threads) if (a.threads > 1 && a.blocks > 1)
        for (i64 block = 0; block < a.blocks; ++block)
            for (i64 run = a.num_runs * block / a.blocks; run < a.num_runs * (block + 1) / a.blocks;
                 ++run)
                f(block, run);
    }

    void forward() const {
        over_runs([&](i64, i64 run) {
            sweep<A>(a.length, [&](auto width, i64 i) {
                constexpr int N = decltype(width)::value;
                const i64 at = run * a.length + i;
                Vec<A, N> y = F<A, N>(z<N>(like_x<N>(a.x, at), at)).value;
                if (a.weight) y = y * of_channel<N>(a.weight, run, i, 1);
                if (a.bias) y = y + of_channel<N>(a.bias, run, i, 0);
                write<N>(a.out, at, y);
            });
        });
    }

    // Sums over a block's elements, and over those of a run.
    struct BlockSums {
        double slope = 0, shift = 0;
        std::vector<A> weight, bias;
    };
    struct RunSums {
        Sum<A> slope, shift, weight, bias;
    };

    template <bool SECOND> void backward() const {
        const i64 num_weights = a.of_weight ? a.num_channels : 0;
        const i64 num_biases = a.of_bias ? a.num_channels : 0;
        const std::vector<A> weight(num_weights), bias(num_biases);
        std::vector<BlockSums> blocks(a.blocks, {0, 0, weight, bias});
        over_runs([&](i64 block, i64 run) {
            BlockSums& sums = blocks[block];
            RunSums own;
            sweep<A>(a.length, [&](auto width, i64 i) {
                element<SECOND, decltype(width)::value>(run, i, sums, own);
            });
            sums.slope += own.slope.total();
            sums.shift += own.shift.total();
            if (EACH) return;
            if (num_weights) sums.weight[run % a.num_channels] += own.weight.total();
            if (num_biases) sums.bias[run % a.num_channels] += own.bias.total();
        });
        BlockSums& all = blocks[0];
        for (i64 block = 1; block < a.blocks; ++block) {
            all.slope += blocks[block].slope;
            all.shift += blocks[block].shift;
            for (i64 c = 0; c < num_weights; ++c) all.weight[c] += blocks[block].weight[c];
            for (i64 c = 0; c < num_biases; ++c) all.bias[c] += blocks[block].bias[c];
        }
        *(A*)a.of_slope = all.slope;
        if (a.of_shift) *(A*)a.of_shift = all.shift;
        std::copy(all.weight.begin(), all.weight.end(), (A*)a.of_weight);
        std::copy(all.bias.begin(), all.bias.end(), (A*)a.of_bias);
    }

    template <int N>
    static inline void add(std::vector<A>& each, i64 i, Sum<A>& sum, Vec<A, N> value) {
        if (EACH) store<A, N>(&each[i], load<A, N>(&each[i]) + value);
        else sum.add(value);
    }

    template <bool SECOND, int N>
    inline void element(i64 run, i64 i, BlockSums& sums, RunSums& own) const {
        const i64 at = run * a.length + i;
        const Vec<A, N> x = like_x<N>(a.x, at), g = like_x<N>(a.grad, at);
        const Vec<A, N> w = of_channel<N>(a.weight, run, i, 1);
        const F<A, N> function(z<N>(x, at));
        const Vec<A, N> f = function.value, f1 = function.first();
        const Vec<A, N> along = g * w * f1;  // the gradient of z
        if (!SECOND) {
            write<N>(a.of_x, at, slope * along);
            write<N>(a.of_residual, at, along);
            own.slope.add(along * x);
            own.shift.add(along);
            if (a.of_weight) add<N>(sums.weight, i, own.weight, g * f);
            if (a.of_bias) add<N>(sums.bias, i, own.bias, g);
            return;
        }
        const A v_slope = number(a.v_slope), v_shift = number(a.v_shift);
        const Vec<A, N> vx = like_x<N>(a.vx, at), p = of_channel<N>(a.p, run, i, 0);
        const Vec<A, N> v = slope * vx + v_slope * x + v_shift + like_x<N>(a.v_residual, at);
        const Vec<A, N> dz = v * g * w * function.second() + p * g * f1;
        write<N>(a.out, at, v * w * f1 + p * f + of_channel<N>(a.q, run, i, 0));
        write<N>(a.of_x, at, slope * dz + v_slope * along);
        write<N>(a.of_residual, at, dz);
        own.slope.add(dz * x + vx * along);
        own.shift.add(dz);
        if (a.of_weight) add<N>(sums.weight, i, own.weight, v * g * f1);
    }
};

enum Phase { FORWARD, BACKWARD, DOUBLE_BACKWARD };

template <Phase PHASE, class T, class A, template <class, int> class F, bool EACH>
static void compute(const Args& args) {
    const Pointwise<T, A, F, EACH> pointwise{args};
    if constexpr (PHASE == FORWARD) pointwise.forward();
    else pointwise.template backward<PHASE == DOUBLE_BACKWARD>();
}
template <Phase PHASE, class T, class A, template <class, int> class F>
static void by_layout(const Args& args) {
    args.each ? compute<PHASE, T, A, F, true>(args) : compute<PHASE, T, A, F, false>(args);
}
template <Phase PHASE, class T, class A> static void by_function(const Args& args) {
    switch (args.function) {
        case 0: return by_layout<PHASE, T, A, Tanh>(args);
        case 1: return by_layout<PHASE, T, A, Erf>(args);
        default: by_layout<PHASE, T, A, Relu>(args);
    }
}
template <Phase PHASE> static void by_type(const Args& args) {
    switch (args.dtype) {
        case 0: return by_function<PHASE, float, float>(args);
        case 1: return by_function<PHASE, bfloat16, float>(args);
        case 2: return by_function<PHASE, float16, float>(args);
        default: by_function<PHASE, double, double>(args);
    }
}

extern "C" void renorm_forward(const Args* args) { by_type<FORWARD>(*args); }
extern "C" void renorm_backward(const Args* args) { by_type<BACKWARD>(*args); }
extern "C" void renorm_double_backward(const Args* args) { by_type<DOUBLE_BACKWARD>(*args); }
