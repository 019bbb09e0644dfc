// GELU in its tanh approximation ("gelu_new" of GPT-2; Hendrycks, Gimpel: "Gaussian error linear units", 2016) and its slope.
#pragma once
#include "simd.h"

namespace shunya::SHUNYA_ISA {

constexpr float sqrtTwoOverPi = 0.797884561f, geluCubic = 0.044715f;

// The tanh form written with the logistic function, 0.5 * (1 + tanh(u)) = 1 / (1 + exp(-2u)): nothing cancels where that
// gate is small.
struct Inner { vf value, slope; };  // 2u and its derivative
SHUNYA_INLINE Inner geluInner(vf x) {
  // Beyond |x| = 100 the gate is 0 or 1; the limit keeps x^2 finite, so that 0 * inf does not make NaN out of a finite x.
  const vf square = min(broadcast(1e4f), x * x), linear = broadcast(2 * sqrtTwoOverPi);
  return {x * fma(square, broadcast(2 * sqrtTwoOverPi * geluCubic), linear),
          fma(square, broadcast(6 * sqrtTwoOverPi * geluCubic), linear)};
}

SHUNYA_INLINE vf geluOf(vf x) { return x / (broadcast(1.0f) + vexp(-geluInner(x).value)); }

// The gate and its complement are `near` and `far` or the other way round; neither is formed as a difference from 1.
SHUNYA_INLINE vf geluSlope(vf x) {
  const Inner inner = geluInner(x);
  const vf e = vexp(floatOf(bitsOf(inner.value) | 0x80000000u));  // exp(-|2u|)
  const vf near = broadcast(1.0f) / (broadcast(1.0f) + e), far = e * near;
  const vf gate = inner.value < zero() ? far : near;
  return fma((near * far) * x, inner.slope, gate);
}

}  // namespace shunya::SHUNYA_ISA
