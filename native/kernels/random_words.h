// Philox words for a run of elements, VL draws at a time. Word for word what philox.h's philoxWord gives.
#pragma once
#include "philox.h"
#include "simd.h"

namespace shunya::SHUNYA_ISA {

constexpr int wordsPerBlock = 4 * VL;

#if defined(__AVX2__)
// A counter or product per 64-bit lane. Only the low halves of inputs count, so halves need no masking between rounds.
typedef uint64_t vw __attribute__((vector_size(VL * 4)));

SHUNYA_INLINE vw multiplyLow(vw a, vw b) {
#if defined(__AVX512F__)
  return (vw)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#else
  return (vw)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#endif
}

// VL / 2 draws, in the order of their counters.
SHUNYA_INLINE void drawHalfBlock(uint64_t key, uint64_t counter, uint32_t* words) {
  vw c0, c2{}, c3{};
  for (int l = 0; l < VL / 2; l++) c0[l] = counter + l;
  vw c1 = c0 >> 32;
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  const vw m0 = 0xD2511F53u - vw{}, m1 = 0xCD9E8D57u - vw{};
  for (int round = 0; round < 10; round++) {
    const vw p0 = multiplyLow(c0, m0), p1 = multiplyLow(c2, m1);
    c0 = (p1 >> 32) ^ c1 ^ (k0 - vw{});
    c2 = (p0 >> 32) ^ c3 ^ (k1 - vw{});
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const vw first = (c0 & 0xffffffffu) | (c1 << 32), second = (c2 & 0xffffffffu) | (c3 << 32);
#if defined(__AVX512F__)
  const vw low = __builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11);
  const vw high = __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  const vw low = __builtin_shufflevector(first, second, 0, 4, 1, 5);
  const vw high = __builtin_shufflevector(first, second, 2, 6, 3, 7);
#endif
  memcpy(words, &low, sizeof low);
  memcpy(words + VL, &high, sizeof high);
}

static inline void drawBlock(uint64_t key, uint64_t counter, uint32_t* words) {
  drawHalfBlock(key, counter, words);
  drawHalfBlock(key, counter + VL / 2, words + 2 * VL);
}
#else
static inline void drawBlock(uint64_t key, uint64_t counter, uint32_t* words) {
  for (int l = 0; l < VL; l++) {
    const Philox4 draw = philox(key, counter + l);
    memcpy(words + 4 * l, draw.x, sizeof draw.x);
  }
}
#endif

// For elements [begin, end) of an array whose element i has index firstElement + i: calls body(i, words, offset, n) so that
// element i + j has word words[offset + j], j < n. `words` is a whole block starting at an index divisible by 4.
template <class Body>
static inline void eachWordBlock(uint64_t key, int64_t firstElement, int64_t begin, int64_t end, Body&& body) {
  uint64_t counter = (uint64_t)(firstElement + begin) >> 2;
  int offset = (int)((firstElement + begin) & 3);
  alignas(64) uint32_t words[wordsPerBlock];
  for (int64_t i = begin; i < end; counter += VL) {
    const int64_t n = end - i < wordsPerBlock - offset ? end - i : wordsPerBlock - offset;
    drawBlock(key, counter, words);
    body(i, words, offset, (int)n);
    i += n;
    offset = 0;
  }
}

}  // namespace shunya::SHUNYA_ISA
