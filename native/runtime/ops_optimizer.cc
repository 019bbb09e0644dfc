// Optimizer updates of a range of elements. What all rules share comes first on the wire (`updateFields` in ops.ts).
#include "ops.h"

namespace shunya {

static void readUpdate(ArgReader& a, UpdateArgs& k) {
  k.count = a.size("count");
  const auto master = a.span("master");
  k.gradientType = a.dtype("gradientType");
  const auto gradient = a.span("gradient");
  k.parameterType = a.dtype("parameterType");
  const auto parameter = a.span("parameter");
  k.gradientScale = a.real("gradientScale"); k.learningRate = a.real("learningRate"); k.weightDecay = a.real("weightDecay");
  k.master = a.at<float>(master, k.count, DType::F32);
  k.gradient = a.at(gradient, k.count, k.gradientType);
  k.parameter = a.atOrNull(parameter, k.count, k.parameterType);
}

static float* readState(ArgReader& a, const char* field, int64_t count) { return a.at<float>(a.span(field), count, DType::F32); }

PreparedOp prepareAdam(ArgReader& a, int) {
  AdamArgs k{};
  readUpdate(a, k);
  k.m = readState(a, "firstMoment", k.count); k.v = readState(a, "secondMoment", k.count);
  k.beta1 = a.real("beta1"); k.beta2 = a.real("beta2"); k.epsilon = a.real("epsilon");
  k.correction1 = a.real("correction1"); k.correction2 = a.real("correction2"); k.decoupled = a.flag("decoupled");
  return {[=](OpContext& on, void*) { kernels().adam(k, on.pool); }};
}

PreparedOp prepareLion(ArgReader& a, int) {
  LionArgs k{};
  readUpdate(a, k);
  k.m = readState(a, "firstMoment", k.count);
  k.beta1 = a.real("beta1"); k.beta2 = a.real("beta2");
  return {[=](OpContext& on, void*) { kernels().lion(k, on.pool); }};
}

PreparedOp prepareSgd(ArgReader& a, int) {
  SgdArgs k{};
  readUpdate(a, k);
  k.m = (float*)a.atOrNull(a.span("firstMoment"), k.count, DType::F32);
  k.momentum = a.real("momentum"); k.gradientShare = a.real("gradientShare"); k.nesterov = a.flag("nesterov");
  return {[=](OpContext& on, void*) { kernels().sgd(k, on.pool); }};
}

PreparedOp prepareAdagrad(ArgReader& a, int) {
  AdagradArgs k{};
  readUpdate(a, k);
  k.sum = readState(a, "secondMoment", k.count);
  k.epsilon = a.real("epsilon"); k.initialSum = a.real("initialSum");
  return {[=](OpContext& on, void*) { kernels().adagrad(k, on.pool); }};
}

}  // namespace shunya
