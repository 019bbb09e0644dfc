// The optimizers' rules. Adam, AdamW, SGD and Adagrad follow the order of operations of torch.optim; Lion that of its paper.
#include <cmath>
#include "declarations.h"
#include "optimizer.h"

namespace shunya::SHUNYA_ISA {

namespace {

#define SHUNYA_RULE inline __attribute__((always_inline)) vf operator()

// Kingma, Ba: "Adam", 2015; decoupled: Loshchilov, Hutter: "Decoupled weight decay regularization", 2019.
template <bool Decoupled> struct Adam {
  float *m, *v;
  vf keepWeight, decay, oneMinusBeta1, beta2, oneMinusBeta2, inverseRoot2, epsilon, stepSize;

  explicit Adam(const AdamArgs& a)
      : m(a.m), v(a.v), keepWeight(constant(1.0 - a.learningRate * a.weightDecay)), decay(constant(a.weightDecay)),
        oneMinusBeta1(constant(1.0 - a.beta1)), beta2(constant(a.beta2)), oneMinusBeta2(constant(1.0 - a.beta2)),
        inverseRoot2(constant(1.0 / std::sqrt(a.correction2))), epsilon(constant(a.epsilon)),
        stepSize(constant(a.learningRate / a.correction1)) {}

  template <class Extent> SHUNYA_RULE(vf w, vf g, int64_t i, Extent extent) const {
    if constexpr (Decoupled) w = w * keepWeight;
    else g = fma(w, decay, g);
    vf first = load<DType::F32>(m, i, extent), second = load<DType::F32>(v, i, extent);
    first = fma(g - first, oneMinusBeta1, first);
    second = fma(g * g, oneMinusBeta2, second * beta2);
    store<DType::F32>(m, i, first, extent);
    store<DType::F32>(v, i, second, extent);
    return w - (stepSize * first) / aboveZero(fma(sqrt(second), inverseRoot2, epsilon));
  }
};

// Chen et al.: "Symbolic discovery of optimization algorithms", 2023, algorithm 2. The sign of zero is zero; NaN stays NaN.
struct Lion {
  float* m;
  vf keepWeight, stepSize, oneMinusBeta1, oneMinusBeta2;

  explicit Lion(const LionArgs& a)
      : m(a.m), keepWeight(constant(1.0 - a.learningRate * a.weightDecay)), stepSize(constant(a.learningRate)),
        oneMinusBeta1(constant(1.0 - a.beta1)), oneMinusBeta2(constant(1.0 - a.beta2)) {}

  template <class Extent> SHUNYA_RULE(vf w, vf g, int64_t i, Extent extent) const {
    const vf moment = load<DType::F32>(m, i, extent), change = g - moment;
    const vf direction = fma(change, oneMinusBeta1, moment);
    store<DType::F32>(m, i, fma(change, oneMinusBeta2, moment), extent);
    const vf one = broadcast(1.0f), sign = direction > zero() ? one : (direction < zero() ? -one : direction);
    return w * keepWeight - stepSize * sign;
  }
};

enum class Momentum { None, Plain, Nesterov };

// Gradient descent; momentum: Sutskever et al.: "On the importance of initialization and momentum in deep learning", 2013.
template <Momentum Kind> struct Sgd {
  float* m;
  vf decay, momentum, gradientShare, stepSize;

  explicit Sgd(const SgdArgs& a)
      : m(a.m), decay(constant(a.weightDecay)), momentum(constant(a.momentum)), gradientShare(constant(a.gradientShare)),
        stepSize(constant(a.learningRate)) {}

  template <class Extent> SHUNYA_RULE(vf w, vf g, int64_t i, Extent extent) const {
    g = fma(w, decay, g);
    if constexpr (Kind != Momentum::None) {
      const vf moment = fma(load<DType::F32>(m, i, extent), momentum, g * gradientShare);
      store<DType::F32>(m, i, moment, extent);
      g = Kind == Momentum::Nesterov ? fma(moment, momentum, g) : moment;
    }
    return w - stepSize * g;
  }
};

// Duchi, Hazan, Singer: "Adaptive subgradient methods", 2011.
struct Adagrad {
  float* sum;
  vf decay, stepSize, initialSum, epsilon;

  explicit Adagrad(const AdagradArgs& a)
      : sum(a.sum), decay(constant(a.weightDecay)), stepSize(constant(a.learningRate)), initialSum(constant(a.initialSum)),
        epsilon(constant(a.epsilon)) {}

  template <class Extent> SHUNYA_RULE(vf w, vf g, int64_t i, Extent extent) const {
    g = fma(w, decay, g);
    const vf squares = fma(g, g, load<DType::F32>(sum, i, extent));
    store<DType::F32>(sum, i, squares, extent);
    return w - (stepSize * g) / aboveZero(sqrt(squares + initialSum) + epsilon);
  }
};

#undef SHUNYA_RULE

}  // namespace

void adam(const AdamArgs& a, Pool& pool) {
  if (a.decoupled) updateRange(a, Adam<true>(a), pool);
  else updateRange(a, Adam<false>(a), pool);
}

void lion(const LionArgs& a, Pool& pool) { updateRange(a, Lion(a), pool); }

void sgd(const SgdArgs& a, Pool& pool) {
  if (!a.m) updateRange(a, Sgd<Momentum::None>(a), pool);
  else if (a.nesterov) updateRange(a, Sgd<Momentum::Nesterov>(a), pool);
  else updateRange(a, Sgd<Momentum::Plain>(a), pool);
}

void adagrad(const AdagradArgs& a, Pool& pool) { updateRange(a, Adagrad(a), pool); }

}  // namespace shunya::SHUNYA_ISA
