// The microkernel of all matrix products: one tile of C in registers. matmul.cc and the attention kernels feed it panels that
// pack.h laid out (after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", TOMS 2008).
#pragma once
#include "pack.h"

namespace shunya::SHUNYA_ISA {

// A tile is tileRows x tileCols; its accumulators, one row of B and one broadcast of A fill the register file.
#if defined(__AVX512F__)
constexpr int tileRows = 12, tileVectors = 2;
#elif defined(__AVX2__)
constexpr int tileRows = 6, tileVectors = 2;
#elif defined(__ARM_NEON)
constexpr int tileRows = 8, tileVectors = 2;
#else
constexpr int tileRows = 4, tileVectors = 2;
#endif
constexpr int tileCols = tileVectors * VL;

template <bool pairs> SHUNYA_INLINE vf multiplyAdd(uint32_t a, vu b, vf c) {
#if defined(__AVX512BF16__)
  if constexpr (pairs) return (vf)_mm512_dpbf16_ps((__m512)c, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
#endif
  float scalar;
  memcpy(&scalar, &a, sizeof scalar);
  return fma(broadcast(scalar), floatOf(b), c);
}

// c[rows][vectors * VL] (row stride ldc) = (add ? c : 0) + sum over `words` of a[word][row] * b[word][col].
template <int rows, int vectors, bool pairs>
void multiplyTile(int64_t words, const uint32_t* a, const uint32_t* b, float* c, int64_t ldc, bool add) {
  vf sum[rows][vectors];
  SHUNYA_UNROLL
  for (int i = 0; i < rows; i++) {
    __builtin_prefetch(c + i * ldc, 1);
    __builtin_prefetch(c + i * ldc + vectors * VL - 1, 1);
    SHUNYA_UNROLL
    for (int j = 0; j < vectors; j++) sum[i][j] = zero();
  }
  for (int64_t w = 0; w < words; w++, a += rows, b += vectors * VL) {
    vu line[vectors];
    SHUNYA_UNROLL
    for (int j = 0; j < vectors; j++) line[j] = loadLanes<vu>(b + j * VL, Whole{});
    SHUNYA_UNROLL
    for (int i = 0; i < rows; i++) {
      SHUNYA_UNROLL
      for (int j = 0; j < vectors; j++) sum[i][j] = multiplyAdd<pairs>(a[i], line[j], sum[i][j]);
    }
  }
  SHUNYA_UNROLL
  for (int i = 0; i < rows; i++) {
    SHUNYA_UNROLL
    for (int j = 0; j < vectors; j++) {
      float* p = c + i * ldc + j * VL;
      storeLanes(p, add ? sum[i][j] + loadLanes<vf>(p, Whole{}) : sum[i][j], Whole{});
    }
  }
}

}  // namespace shunya::SHUNYA_ISA
