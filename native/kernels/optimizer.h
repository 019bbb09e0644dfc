// The walk over a range of elements that all optimizer rules share: load the weight and the gradient, apply the rule, store
// the new weight in fp32 and, in the same pass, its 16-bit copy.
//
// A rule is a struct of constants with `vf operator()(vf weight, vf gradient, int64_t i, Extent) const` that gives the new
// weights of elements i.. and keeps its own states. Padding (gradient, states and weight all zero) must stay exactly zero.
#pragma once
#include "split.h"

namespace shunya::SHUNYA_ISA {

// A constant of the step: formed in fp64, rounded to fp32 once.
static inline vf constant(double x) { return broadcast((float)x); }

// Keeps a denominator above zero, so that padding is 0 / something also with epsilon 0. NaN passes the limit.
SHUNYA_INLINE vf aboveZero(vf denominator) { return max(broadcast(1.17549435e-38f), denominator); }

// The 16-bit parameter is the one stream that is written without being read.
template <DType G, DType P, bool WithParameter, class Rule>
static void updatePiece(const UpdateArgs& args, const Rule& rule, int64_t begin, int64_t end) {
  const UpdateArgs a = args;  // copies of its own, so that no store can be taken to change them
  const Rule apply = rule;
  const vf gradientScale = constant(a.gradientScale);
  const auto update = [=](int64_t i, auto extent) {
    const vf w = load<DType::F32>(a.master, i, extent), g = load<G>(a.gradient, i, extent) * gradientScale;
    const vf updated = apply(w, g, i, extent);
    store<DType::F32>(a.master, i, updated, extent);
    return updated;
  };
  if constexpr (WithParameter) {
    const bool streamed = a.count * (int64_t)sizeof(Storage<P>) >= streamedBytes;
    storeVectors<P>(begin, end, a.parameter, streamed, update);
  } else {
    eachVector(begin, end, update);
  }
}

template <class Rule> static void updateRange(const UpdateArgs& a, const Rule& rule, Pool& pool) {
  withDType(a.gradientType, [&](auto gradient) {
    constexpr DType G = decltype(gradient)::value;
    if (!a.parameter)
      return overPieces(pool, a.count, elementsPerTask, [&](int64_t begin, int64_t end) {
        updatePiece<G, DType::F32, false>(a, rule, begin, end);
      });
    withDType(a.parameterType, [&](auto parameter) {
      overPieces(pool, a.count, elementsPerTask, [&](int64_t begin, int64_t end) {
        updatePiece<G, decltype(parameter)::value, true>(a, rule, begin, end);
      });
    });
  });
}

}  // namespace shunya::SHUNYA_ISA
