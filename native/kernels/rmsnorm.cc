// Root-mean-square normalization over rows, forward and backward (Zhang, Sennrich: "Root mean square layer normalization", 2019).
#include <cmath>
#include "declarations.h"
#include "split.h"

namespace shunya::SHUNYA_ISA {

namespace {

template <DType T>
void normalizeRow(int64_t cols, float epsilon, const void* x, const void* gamma, void* y, float* rstdOut) {
  const float squares = sumTerms(cols, [=](int64_t c, auto extent) {
    const vf value = load<T>(x, c, extent);
    return value * value;
  });
  const float rstd = 1.0f / std::sqrt(squares / (float)cols + epsilon);
  const vf scale = broadcast(rstd);
  eachVector(0, cols, [&](int64_t c, auto extent) {
    store<T>(y, c, load<T>(x, c, extent) * scale * load<T>(gamma, c, extent), extent);
  });
  *rstdOut = rstd;
}

struct BackwardRow { const void *dy, *x, *gamma; void* dx; float rstd; bool accumulate; };

// With xhat the normalized row and g = dy * gamma: dx = rstd * (g - xhat * mean(g * xhat)). The row's share of dgamma
// (dy * xhat) is added to the partial when there is one.
template <DType T, bool WithPartial> void backwardRow(int64_t cols, const BackwardRow& row, float* dgamma) {
  const vf scale = broadcast(row.rstd);
  const float products = sumTerms(cols, [&](int64_t c, auto extent) {
    const vf xhat = load<T>(row.x, c, extent) * scale, dy = load<T>(row.dy, c, extent);
    if constexpr (WithPartial)
      store<DType::F32>(dgamma, c, fma(dy, xhat, load<DType::F32>(dgamma, c, extent)), extent);
    return dy * load<T>(row.gamma, c, extent) * xhat;
  });
  const vf meanGx = broadcast(products / (float)cols);
  eachVector(0, cols, [&](int64_t c, auto extent) {
    const vf xhat = load<T>(row.x, c, extent) * scale;
    const vf g = load<T>(row.dy, c, extent) * load<T>(row.gamma, c, extent);
    vf dx = scale * (g - xhat * meanGx);
    if (row.accumulate) dx = load<T>(row.dx, c, extent) + dx;
    store<T>(row.dx, c, dx, extent);
  });
}

}  // namespace

void rmsNorm(int64_t rows, int64_t cols, DType type, float epsilon, const void* x, const void* gamma, void* y, float* rstd,
             Pool& pool) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overPieces(pool, rows, rowsPerTask(cols), [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r++)
        normalizeRow<T>(cols, epsilon, (const Storage<T>*)x + r * cols, gamma, (Storage<T>*)y + r * cols, rstd + r);
    });
  });
}

// An fp32 row of dgamma per block of rows.
size_t rmsNormBackwardScratch(int64_t rows, int64_t cols) {
  return (size_t)(piecesOf(rows, rowsPerPartial) * cols) * sizeof(float);
}

void rmsNormBackward(int64_t rows, int64_t cols, DType type, const void* dy, const void* x, const void* gamma,
                     const float* rstd, void* dx, bool accumulateInput, void* dgamma, bool accumulateParameter, Pool& pool,
                     void* scratch) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    float* partials = (float*)scratch;
    const bool withPartial = dgamma != nullptr;
    overPieces(pool, rows, rowsPerPartial, [=](int64_t begin, int64_t end) {
      float* partial = partials + begin / rowsPerPartial * cols;
      if (withPartial) memset(partial, 0, cols * sizeof(float));
      for (int64_t r = begin; r < end; r++) {
        const BackwardRow row{(const Storage<T>*)dy + r * cols, (const Storage<T>*)x + r * cols, gamma,
                              (Storage<T>*)dx + r * cols, rstd[r], accumulateInput};
        if (withPartial) backwardRow<T, true>(cols, row, partial);
        else backwardRow<T, false>(cols, row, nullptr);
      }
    });
    if (withPartial) addPartials<T>(pool, partials, piecesOf(rows, rowsPerPartial), cols, cols, dgamma, accumulateParameter);
  });
}

}  // namespace shunya::SHUNYA_ISA
