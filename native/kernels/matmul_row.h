// The product of one row with a matrix: each weight is used once, so that reading them is all the time there is. Nothing is
// packed. An element's terms are added in the order of matmul.cc, block of depth by block, so the bits are the same.
#pragma once
#include "gelu.h"
#include "matmul.h"

namespace shunya::SHUNYA_ISA {

// Turns a run-time dtype of C or a bias into loads and stores.
template <class Extent> vf loadAs(DType type, const void* base, int64_t i, Extent extent) {
  if (type == DType::F32) return load<DType::F32>(base, i, extent);
  return type == DType::BF16 ? load<DType::BF16>(base, i, extent) : load<DType::F16>(base, i, extent);
}
template <class Extent> void storeAs(DType type, void* base, int64_t i, vf x, Extent extent) {
  if (type == DType::F32) store<DType::F32>(base, i, x, extent);
  else if (type == DType::BF16) store<DType::BF16>(base, i, x, extent);
  else store<DType::F16>(base, i, x, extent);
}

// What stands between finished fp32 sums of `extent` columns from element i of C on, and C: the old C or the bias, the
// activation, one rounding.
template <class Extent>
void finishColumns(const MatmulArgs& g, int64_t i, int64_t col, vf value, Extent extent) {
  if (g.accumulate) value = loadAs(g.cType, g.c, i, extent) + value;
  if (g.bias) value = value + loadAs(g.biasType, g.bias, col, extent);
  if (g.preActivation) storeAs(g.cType, g.preActivation, i, value, extent);
  if (g.activation == Activation::GeluTanh) value = geluOf(value);
  storeAs(g.cType, g.c, i, value, extent);
}

template <DType T> struct RowProduct {
  static constexpr int wordsAtOnce = 8;
  static constexpr int64_t mostTaskCols = 1024;
  static constexpr int64_t wordBytes = wordDepth<T> * (int64_t)sizeof(Storage<T>);
  const MatmulArgs& g;
  const int64_t depthBlock;
  uint32_t* const row;  // the words of A, and room up to a whole vector of them

  // `split(tasks, body)` runs body(task) for each task.
  template <class Split> void run(int workers, Split&& split) const {
    packRow();
    const int64_t taskCols = std::min(roundUp(ceilDiv(g.n, workers), VL), mostTaskCols);
    split(ceilDiv(g.n, taskCols), [&](int64_t task) {
      const int64_t begin = task * taskCols, end = std::min(g.n, begin + taskCols);
      if (g.b.depthStride != 1) return alongRows(begin, end);
      eachVector(begin, end, [&](int64_t col, auto extent) { alongDepth(col, extent); });
    });
  }

  void packRow() const {
    const int64_t words = ceilDiv(g.k, wordDepth<T>), stepBytes = g.a.depthStride * (int64_t)sizeof(Storage<T>);
    const char* p = (const char*)g.a.data;
    if (g.a.depthStride == 1) {
      for (int64_t w = 0; w < words; w += VL) storeLanes(row + w, wordsAlongDepth<T>(p + w * wordBytes, g.k - w * wordDepth<T>), Whole{});
    } else {
      for (int64_t w = 0; w < words; w++, p += wordDepth<T> * stepBytes)
        row[w] = wordsAlongRows<T>(p, w * wordDepth<T> + 1 < g.k ? p + stepBytes : nullptr, Part{1})[0];
    }
  }

  // Sums of one block of depth join those of the blocks before it. In fp32 C's old value comes first, as it does where sums
  // grow in C itself.
  template <class Extent> vf join(vf sum, vf before, int64_t start, int64_t col, Extent extent) const {
    if (start > 0) return sum + before;
    return g.accumulate && g.cType == DType::F32 ? sum + load<DType::F32>(g.c, col, extent) : sum;
  }
  template <class Extent> void finish(int64_t col, vf total, Extent extent) const {
    if (!g.accumulate) return finishColumns(g, col, col, total, extent);
    storeAs(g.cType, g.c, col, g.cType == DType::F32 ? total : loadAs(g.cType, g.c, col, extent) + total, extent);
  }

  // Columns of B lie next to each other: a few words of depth at a time, along all columns of the task, so that memory is read
  // in long runs.
  void alongRows(int64_t begin, int64_t end) const {
    alignas(64) float totals[mostTaskCols], sums[mostTaskCols];
    for (int64_t start = 0; start == 0 || start < g.k; start += depthBlock) {
      const int64_t depth = std::clamp<int64_t>(g.k - start, 0, depthBlock), words = ceilDiv(depth, wordDepth<T>);
      for (int64_t i = 0; i < roundUp(end - begin, VL); i += VL) storeLanes(sums + i, zero(), Whole{});
      int64_t w = 0;
      for (; w + wordsAtOnce <= depth / wordDepth<T>; w += wordsAtOnce) addRows<wordsAtOnce>(start, w, begin, end, sums);
      if constexpr (wordDepth<T> == 2) orderPairs(sums, end - begin);
      for (; w < words; w++) addRows<1>(start, w, begin, end, sums);
      eachVector(begin, end, [&](int64_t col, auto extent) {
        const int64_t i = col - begin;
        storeLanes(totals + i, join(loadLanes<vf>(sums + i, Whole{}), loadLanes<vf>(totals + i, Whole{}), start, col, extent), Whole{});
      });
    }
    eachVector(begin, end, [&](int64_t col, auto extent) { finish(col, loadLanes<vf>(totals + col - begin, Whole{}), extent); });
  }

  template <int count> void addRows(int64_t start, int64_t word, int64_t begin, int64_t end, float* sums) const {
    const int64_t depthBytes = g.b.depthStride * (int64_t)sizeof(Storage<T>), k = start + word * wordDepth<T>;
    const uint32_t* a = row + k / wordDepth<T>;
    const bool isWhole = k + count * wordDepth<T> <= g.k;  // else the last word's second half lies beyond B
    const char* rows = elementAt(g.b, begin, k);
    int64_t col = begin;
    if constexpr (wordDepth<T> == 2 && count == wordsAtOnce)
      for (; col + 2 * VL <= end; col += 2 * VL) addPairs<count>(rows + (col - begin) * 2, depthBytes, a, sums + col - begin);
    eachVector(col, end, [&](int64_t c, auto extent) {
      const char* p = rows + (c - begin) * (int64_t)sizeof(Storage<T>);
      float* at = sums + c - begin;
      vf sum = loadLanes<vf>(at, Whole{});
      prefetchRows<count>(p, depthBytes);
      SHUNYA_UNROLL
      for (int i = 0; i < count; i++, p += wordDepth<T> * depthBytes) {
        const char* next = isWhole || i + 1 < count ? p + depthBytes : nullptr;
        sum = multiplyAdd<wordDepth<T> == 2>(a[i], wordsAlongRows<T>(p, next, extent), sum);
      }
      storeLanes(at, sum, Whole{});
    });
  }

  // The rows that come next: several short rows in one page are more than the processor foresees by itself.
  template <int count> static void prefetchRows(const char* p, int64_t depthBytes) {
    SHUNYA_UNROLL
    for (int i = 0; i < count * wordDepth<T>; i++) __builtin_prefetch(p + (count * wordDepth<T> + i) * depthBytes);
  }

  // The same for 2 VL columns of 16-bit elements, whose pairs are made by interleaving whole registers of two rows: their sums are in that
  // order until orderPairs.
  template <int count> static void addPairs(const char* p, int64_t depthBytes, const uint32_t* a, float* at) {
    vf low = loadLanes<vf>(at, Whole{}), high = loadLanes<vf>(at + VL, Whole{});
    prefetchRows<count>(p, depthBytes);
    SHUNYA_UNROLL
    for (int i = 0; i < count; i++, p += 2 * depthBytes) {
      vu first, second;
      interleaveHalves(loadLanes<vu>(p, Whole{}), loadLanes<vu>(p + depthBytes, Whole{}), first, second);
      low = multiplyAdd<true>(a[i], first, low);
      high = multiplyAdd<true>(a[i], second, high);
    }
    storeLanes(at, low, Whole{});
    storeLanes(at + VL, high, Whole{});
  }

  static void orderPairs(float* sums, int64_t cols) {
    for (int64_t i = 0; i + 2 * VL <= cols; i += 2 * VL) {
      vf low = loadLanes<vf>(sums + i, Whole{}), high = loadLanes<vf>(sums + i + VL, Whole{});
      inLaneOrder(low, high);
      storeLanes(sums + i, low, Whole{});
      storeLanes(sums + i + VL, high, Whole{});
    }
  }

  // The depth of a column of B lies in one piece: VL columns are turned in registers.
  template <class Extent> void alongDepth(int64_t col, Extent extent) const {
    const int64_t colBytes = g.b.rowStride * (int64_t)sizeof(Storage<T>);
    const int filled = std::is_same_v<Extent, Whole> ? VL : (int)(g.n - col);
    vf total = zero();
    for (int64_t start = 0; start == 0 || start < g.k; start += depthBlock) {
      const int64_t depth = std::clamp<int64_t>(g.k - start, 0, depthBlock), words = ceilDiv(depth, wordDepth<T>);
      const char* p = elementAt(g.b, col, start);
      const uint32_t* a = row + start / wordDepth<T>;
      vf sum = zero();
      for (int64_t w = 0; w < words; w += VL) {
        vu r[VL];
        SHUNYA_UNROLL
        for (int i = 0; i < VL; i++) __builtin_prefetch(p + (VL + i) * colBytes + w * wordBytes, 0, 2);
        SHUNYA_UNROLL
        for (int i = 0; i < VL; i++)
          r[i] = i < filled ? wordsAlongDepth<T>(p + i * colBytes + w * wordBytes, depth - w * wordDepth<T>) : vu{};
        transpose(r);
        const int64_t count = std::min<int64_t>(VL, words - w);
        SHUNYA_UNROLL
        for (int i = 0; i < VL; i++)
          if (i < count) sum = multiplyAdd<wordDepth<T> == 2>(a[w + i], r[i], sum);
      }
      total = join(sum, total, start, col, extent);
    }
    finish(col, total, extent);
  }
};

}  // namespace shunya::SHUNYA_ISA
