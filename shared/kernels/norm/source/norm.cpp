// `norm` on a CPU: see README.md for the formulas and cpp.py for who calls this.
//
// Plain C++ without torch's headers: it compiles in seconds and belongs to no version of torch.
// Sums are taken in vectors of fixed width and blocks of fixed number, so that results depend
// neither on the number of threads nor on the processor's own vectors.
#include "columns.h"
#include "runs.h"

#define RENORM_DISPATCH(PHASE)                                                   \
    switch (args->dtype) {                                                       \
        case 0: PHASE<float, float>(*args); break;                               \
        case 1: PHASE<bfloat16, float>(*args); break;                            \
        case 2: PHASE<float16, float>(*args); break;                             \
        default: PHASE<double, double>(*args);                                   \
    }

template <class T, class A> static void run_forward(const Args& args) {
    if (args.columns) {
        const Columns<T, A, false> norm(args);
        args.each ? norm.template forward_columns<true>() : norm.template forward_columns<false>();
    } else {
        const Runs<T, A, false> norm(args);
        args.each ? norm.template forward_runs<true>() : norm.template forward_runs<false>();
    }
}

template <class T, class A, bool SECOND> static void run_order(const Args& args) {
    if (args.columns) {
        const Columns<T, A, SECOND> norm(args);
        args.each ? norm.template backward_columns<true>() : norm.template backward_columns<false>();
    } else {
        const Runs<T, A, SECOND> norm(args);
        args.each ? norm.template backward_runs<true>() : norm.template backward_runs<false>();
    }
}

template <class T, class A> static void run_backward(const Args& args) {
    args.v ? run_order<T, A, true>(args) : run_order<T, A, false>(args);
}

struct Track {  // cpp.py packs the same
    i64 dtype, count;
    const void *mean, *rstd;
    void *running_mean, *running_var;
    double eps, share, factor;
};

// from + share (to - from), rounded as torch's lerp rounds it.
template <class A> static A lerp(A from, A to, A share) {
    const A distance = to - from;
    return std::abs(share) < (A)0.5 ? std::fma(share, distance, from)
                                    : std::fma(share - 1, distance, to);
}

template <class A> static void track(const Track& a) {
    const A *mean = (const A*)a.mean, *rstd = (const A*)a.rstd;
    A *running_mean = (A*)a.running_mean, *running_var = (A*)a.running_var;
    for (i64 c = 0; c < a.count; ++c) {
        const A var = std::max<A>(1 / (rstd[c] * rstd[c]) - (A)a.eps, 0) * (A)a.factor;
        running_mean[c] = lerp<A>(running_mean[c], mean[c], a.share);
        running_var[c] = lerp<A>(running_var[c], var, a.share);
    }
}

extern "C" void renorm_forward(const Args* args) { RENORM_DISPATCH(run_forward) }
extern "C" void renorm_backward(const Args* args) { RENORM_DISPATCH(run_backward) }
extern "C" void renorm_track(const Track* args) {
    args->dtype == 0 ? track<float>(*args) : track<double>(*args);
}
