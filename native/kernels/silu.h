// SiLU, x times the logistic function of x (Hendrycks, Gimpel, 2016; "swish" of Ramachandran et al., 2017), and its slope.
#pragma once
#include "simd.h"

namespace shunya::SHUNYA_ISA {

SHUNYA_INLINE vf siluOf(vf x) { return x / (broadcast(1.0f) + vexp(-x)); }

// As geluSlope: neither the gate nor its complement is formed as a difference from 1.
SHUNYA_INLINE vf siluSlope(vf x) {
  const vf e = vexp(floatOf(bitsOf(x) | 0x80000000u));  // exp(-|x|)
  const vf near = broadcast(1.0f) / (broadcast(1.0f) + e), far = e * near;
  const vf gate = x < zero() ? far : near;
  return fma((near * far), x, gate);
}

}  // namespace shunya::SHUNYA_ISA
