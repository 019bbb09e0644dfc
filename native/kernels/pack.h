// Packing: how operands of a product are laid out for the microkernel of tile.h.
//
// The microkernel reads 32-bit words. A word is one float, or, where the processor multiplies pairs of bf16, two bf16 of
// consecutive depth. One word size makes packing, transposition and blocking the same code for every dtype. A panel of
// width W holds W rows of an operand as words [depth][W]: what the microkernel needs next always lies next.
#pragma once
#include <algorithm>
#include <type_traits>

#include "simd.h"

#if defined(__clang__)
#define SHUNYA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SHUNYA_UNROLL _Pragma("GCC unroll 16")
#endif

namespace shunya::SHUNYA_ISA {

#if defined(__AVX512BF16__)
constexpr bool hasPairs = true;
#else
constexpr bool hasPairs = false;
#endif
// Elements of depth in one word.
template <DType T> constexpr int wordDepth = hasPairs && T == DType::BF16 ? 2 : 1;
inline int wordDepthOf(DType type) { return hasPairs && type == DType::BF16 ? 2 : 1; }

inline int64_t ceilDiv(int64_t x, int64_t y) { return (x + y - 1) / y; }
inline int64_t roundUp(int64_t x, int64_t multiple) { return ceilDiv(x, multiple) * multiple; }
inline int64_t roundDown(int64_t x, int64_t multiple) { return x / multiple * multiple; }

inline const char* elementAt(const MatrixView& v, int64_t row, int64_t depth) {
  return (const char*)v.data + (row * v.rowStride + depth * v.depthStride) * (int64_t)dtypeBytes(v.dtype);
}

// VL words along the depth, which is contiguous; `left` elements remain, the words beyond them are zero.
template <DType T> SHUNYA_INLINE vu wordsAlongDepth(const char* p, int64_t left) {
  if constexpr (wordDepth<T> == 1) {
    if (__builtin_expect(left >= VL, 1)) return bitsOf(load<T>(p, 0));
    return bitsOf(load<T>(p, 0, Part{(int)left}));
  } else {
    if (__builtin_expect(left >= 2 * VL, 1)) return loadLanes<vu>(p, Whole{});
    vu words{};
    memcpy(&words, p, left * 2);
    return words;
  }
}

// VL words along the rows, which are contiguous; `next` is one step of depth further, or null at an odd end.
template <DType T, class Extent> SHUNYA_INLINE vu wordsAlongRows(const char* p, const char* next, Extent extent) {
  if constexpr (wordDepth<T> == 1) {
    return bitsOf(load<T>(p, 0, extent));
  } else {
    const vu low = __builtin_convertvector(loadLanes<vh>(p, extent), vu);
    return next ? low | (__builtin_convertvector(loadLanes<vh>(next, extent), vu) << 16) : low;
  }
}

#if defined(__AVX512BF16__)
// The 16-bit halves of all lanes of a and b by turns, in the order in which one instruction makes them: of every eight halves `first` has
// the first four of each. What comes of them lane by lane, inLaneOrder puts in order.
SHUNYA_INLINE void interleaveHalves(vu a, vu b, vu& first, vu& second) {
  first = (vu)_mm512_unpacklo_epi16((__m512i)a, (__m512i)b);
  second = (vu)_mm512_unpackhi_epi16((__m512i)a, (__m512i)b);
}
SHUNYA_INLINE void inLaneOrder(vf& first, vf& second) {
  const vf x = first, y = second;
  first = __builtin_shufflevector(x, y, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  second = __builtin_shufflevector(x, y, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
}
#else
void interleaveHalves(vu, vu, vu&, vu&);  // words are no pairs
void inLaneOrder(vf&, vf&);
#endif

// The lanes of a and b by turns: the first halves, and the second halves.
SHUNYA_INLINE void interleave(vu a, vu b, vu& first, vu& second) {
#if defined(__AVX512F__)
  first = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  second = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif defined(__AVX2__)
  first = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  second = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  first = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  second = __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
}

// VL x VL words, transposed in registers: log2(VL) rounds of interleaving row q with row q + VL / 2.
SHUNYA_INLINE void transpose(vu (&r)[VL]) {
  SHUNYA_UNROLL
  for (int width = VL; width > 1; width /= 2) {
    vu t[VL];
    SHUNYA_UNROLL
    for (int q = 0; q < VL / 2; q++) interleave(r[q], r[q + VL / 2], t[2 * q], t[2 * q + 1]);
    SHUNYA_UNROLL
    for (int q = 0; q < VL; q++) r[q] = t[q];
  }
}

// Stores VL words of which W - group * VL belong to this panel row. A panel row's overhang is the start of the next row, which is
// written later; only the last row of a panel must not run over.
template <int W, int group> SHUNYA_INLINE void storeGroup(uint32_t* rowStart, vu words, bool lastRow) {
  constexpr int lanes = W - group * VL;
  if (lanes < VL && lastRow) storeLanes(rowStart + group * VL, words, Part{lanes < VL ? lanes : 0});
  else storeLanes(rowStart + group * VL, words, Whole{});
}

template <int W, DType T, int group> SHUNYA_INLINE void packGroupAlongDepth(const char* base, int64_t rowBytes, int64_t rows, int64_t depth,
                                                                             uint32_t* out) {
  constexpr int width = std::min(VL, W - group * VL), bytes = (int)sizeof(Storage<T>);
  const int64_t words = ceilDiv(depth, wordDepth<T>);
  const char* first = base + group * VL * rowBytes;
  const int filled = (int)std::clamp<int64_t>(rows - group * VL, 0, width);
  for (int64_t w = 0; w < words; w += VL) {
    vu r[VL];
    SHUNYA_UNROLL
    for (int q = 0; q < VL; q++)
      r[q] = q < filled ? wordsAlongDepth<T>(first + q * rowBytes + w * wordDepth<T> * bytes, depth - w * wordDepth<T>) : vu{};
    transpose(r);
    const int64_t count = std::min<int64_t>(VL, words - w);
    for (int q = 0; q < count; q++) storeGroup<W, group>(out + (w + q) * W, r[q], w + q == words - 1);
  }
}

template <int W, DType T, int group> SHUNYA_INLINE void packWordAlongRows(const char* p, const char* next, int64_t rows, uint32_t* rowStart,
                                                                           bool lastRow) {
  constexpr int64_t skip = group * VL * (int64_t)sizeof(Storage<T>);
  const int64_t left = rows - group * VL;
  if (next) next += skip;
  const vu words = left >= VL ? wordsAlongRows<T>(p + skip, next, Whole{})
                              : wordsAlongRows<T>(p + skip, next, Part{(int)std::max<int64_t>(left, 0)});
  storeGroup<W, group>(rowStart, words, lastRow);
}

// Calls body(group) for each group of VL lanes in a panel of width W; group() is a constant expression.
template <int W, int group = 0, class Body> SHUNYA_INLINE void eachGroup(Body&& body) {
  body(std::integral_constant<int, group>{});
  if constexpr ((group + 1) * VL < W) eachGroup<W, group + 1>(body);
}

// Packs rows [row, row + W) and depth [depth0, depth0 + depth) of `v` into one panel; rows from `rowEnd` on are zero.
template <int W, DType T> void packPanel(const MatrixView& v, int64_t row, int64_t rowEnd, int64_t depth0, int64_t depth,
                                         uint32_t* out) {
  constexpr int bytes = (int)sizeof(Storage<T>);
  static_assert(W < VL || W % VL == 0, "only a single group of lanes may have an overhang");
  const char* base = elementAt(v, row, depth0);
  const int64_t rows = rowEnd - row;
  if (v.depthStride == 1) {
    eachGroup<W>([&](auto group) { packGroupAlongDepth<W, T, group()>(base, v.rowStride * bytes, rows, depth, out); });
  } else {
    const int64_t depthBytes = v.depthStride * bytes, words = ceilDiv(depth, wordDepth<T>);
    for (int64_t w = 0; w < words; w++) {
      const char* p = base + w * wordDepth<T> * depthBytes;
      const char* next = w * wordDepth<T> + 1 < depth ? p + depthBytes : nullptr;
      eachGroup<W>([&](auto group) { packWordAlongRows<W, T, group()>(p, next, rows, out + w * W, w == words - 1); });
    }
  }
}

}  // namespace shunya::SHUNYA_ISA
