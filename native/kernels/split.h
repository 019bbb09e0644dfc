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
