// How kernels split work over the pool: into pieces whose bounds depend on the problem alone, never on the workers.
#pragma once
#include "simd.h"

namespace shunya::SHUNYA_ISA {

constexpr int64_t elementsPerTask = 1 << 15;
// Rows whose contributions to a column are added up in one fp32 partial; partials are added in row order.
constexpr int64_t rowsPerPartial = 64;

static inline int64_t piecesOf(int64_t count, int64_t pieceSize) { return (count + pieceSize - 1) / pieceSize; }

// Calls body(begin, end) for the pieces of [0, count), in any order.
template <class Body> static inline void overPieces(Pool& pool, int64_t count, int64_t pieceSize, const Body& body) {
  if (count <= 0) return;
  if (count <= pieceSize) return body((int64_t)0, count);
  pool.run(piecesOf(count, pieceSize), [&](int64_t piece, int) {
    const int64_t begin = piece * pieceSize;
    body(begin, begin + pieceSize < count ? begin + pieceSize : count);
  });
}

// Calls body(i, extent) for every vector of [0, count).
template <class Body> static inline void overVectors(Pool& pool, int64_t count, const Body& body) {
  overPieces(pool, count, elementsPerTask, [&](int64_t begin, int64_t end) { eachVector(begin, end, body); });
}

// From this size on a result that is only written would push everything else out of the caches, and fetching the lines it
// overwrites would be a good part of the traffic: such results bypass the caches.
constexpr int64_t streamedBytes = 8 << 20;

// Stores value(i, extent) to element i of dst for all of [begin, end); bypassing the caches when `streamed`, in units of a
// whole vector register, which is two vectors of a 16-bit dtype.
template <DType T, class Value>
SHUNYA_INLINE void storeVectors(int64_t begin, int64_t end, void* dst, bool streamed, const Value& value) {
  const auto plainly = [&](int64_t i, auto extent) { store<T>(dst, i, value(i, extent), extent); };
  if (!streamed) return eachVector(begin, end, plainly);
  constexpr int64_t unit = sizeof(vf) / sizeof(Storage<T>);
  int64_t i = begin + (int64_t)(-(uintptr_t)((Storage<T>*)dst + begin) & (sizeof(vf) - 1)) / (int64_t)sizeof(Storage<T>);
  if (i > end) i = end;
  eachVector(begin, i, plainly);
  for (; i + unit <= end; i += unit) {
    vf lanes;
    if constexpr (T == DType::F32) {
      lanes = value(i, Whole{});
    } else {
      const vh halves[2] = {narrow<T>(value(i, Whole{})), narrow<T>(value(i + VL, Whole{}))};
      memcpy(&lanes, halves, sizeof lanes);
    }
    streamLanes((Storage<T>*)dst + i, lanes);
  }
  eachVector(i, end, plainly);
  streamFence();
}

// A number of rows that makes a task worth its dispatch.
static inline int64_t rowsPerTask(int64_t cols) { return cols >= elementsPerTask ? 1 : elementsPerTask / (cols > 0 ? cols : 1); }

// out[c] = (accumulate ? out[c] : 0) + partials[0][c] + partials[1][c] + ..., partial p at partials + p * stride.
template <DType T>
static inline void addPartials(Pool& pool, const float* partials, int64_t count, int64_t stride, int64_t cols, void* out,
                               bool accumulate) {
  overPieces(pool, cols, 256, [&](int64_t begin, int64_t end) {
    eachVector(begin, end, [&](int64_t c, auto extent) {
      vf total = zero();
      for (int64_t p = 0; p < count; p++) total += load<DType::F32>(partials + p * stride, c, extent);
      if (accumulate) total = load<T>(out, c, extent) + total;
      store<T>(out, c, total, extent);
    });
  });
}

}  // namespace shunya::SHUNYA_ISA
