// Adam and AdamW (Kingma, Ba: "Adam", 2015; Loshchilov, Hutter: "Decoupled weight decay regularization", 2019), in the
// order of operations of PyTorch's torch.optim.Adam and AdamW.
#include <cmath>
#include "declarations.h"
#include "split.h"

namespace shunya::SHUNYA_ISA {

namespace {

// The step's constants: formed in fp64, rounded to fp32 once.
struct Constants { vf gradientScale, keepWeight, decay, oneMinusBeta1, beta2, oneMinusBeta2, inverseRoot2, epsilon, stepSize; };

Constants constantsOf(const AdamArgs& a) {
  const auto constant = [](double x) { return broadcast((float)x); };
  return {constant(a.gradientScale), constant(1.0 - a.learningRate * a.weightDecay), constant(a.weightDecay),
          constant(1.0 - a.beta1), constant(a.beta2), constant(1.0 - a.beta2),
          constant(1.0 / std::sqrt(a.correction2)), constant(a.epsilon), constant(a.learningRate / a.correction1)};
}

// Padding (gradient, moments and weight all zero) stays exactly zero, also with epsilon 0: the denominator is kept above
// zero. NaN passes the limit.
constexpr float smallestDenominator = 1.17549435e-38f;

// Updates a vector of master weights and moments; the new weights.
template <DType G, bool Decoupled, class Extent>
SHUNYA_INLINE vf adamVector(const AdamArgs& a, const Constants& k, int64_t i, Extent extent) {
  vf w = load<DType::F32>(a.master, i, extent);
  vf g = load<G>(a.gradient, i, extent) * k.gradientScale;
  if constexpr (Decoupled) w = w * k.keepWeight;
  else g = fma(w, k.decay, g);
  vf m = load<DType::F32>(a.m, i, extent), v = load<DType::F32>(a.v, i, extent);
  m = fma(g - m, k.oneMinusBeta1, m);
  v = fma(g * g, k.oneMinusBeta2, v * k.beta2);
  const vf denominator = max(broadcast(smallestDenominator), fma(sqrt(v), k.inverseRoot2, k.epsilon));
  w = w - (k.stepSize * m) / denominator;
  store<DType::F32>(a.master, i, w, extent);
  store<DType::F32>(a.m, i, m, extent);
  store<DType::F32>(a.v, i, v, extent);
  return w;
}

// The 16-bit parameter is the one stream that is written without being read.
template <DType G, DType P, bool Decoupled, bool WithParameter>
void adamRange(const AdamArgs& args, const Constants& constants, int64_t begin, int64_t end) {
  const AdamArgs a = args;  // copies of its own, so that no store can be taken to change them
  const Constants k = constants;
  const auto update = [=](int64_t i, auto extent) { return adamVector<G, Decoupled>(a, k, i, extent); };
  if constexpr (WithParameter) {
    const bool streamed = a.count * (int64_t)sizeof(Storage<P>) >= streamedBytes;
    storeVectors<P>(begin, end, a.parameter, streamed, update);
  } else {
    eachVector(begin, end, update);
  }
}

template <DType G, DType P, bool WithParameter> void adamOver(const AdamArgs& a, Pool& pool) {
  const Constants k = constantsOf(a);
  overPieces(pool, a.count, elementsPerTask, [&](int64_t begin, int64_t end) {
    if (a.decoupled) adamRange<G, P, true, WithParameter>(a, k, begin, end);
    else adamRange<G, P, false, WithParameter>(a, k, begin, end);
  });
}

}  // namespace

void adam(const AdamArgs& a, Pool& pool) {
  withDType(a.gradientType, [&](auto gradient) {
    constexpr DType G = decltype(gradient)::value;
    if (!a.parameter) return adamOver<G, DType::F32, false>(a, pool);
    withDType(a.parameterType, [&](auto parameter) { adamOver<G, decltype(parameter)::value, true>(a, pool); });
  });
}

}  // namespace shunya::SHUNYA_ISA
