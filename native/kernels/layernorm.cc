// Layer normalization over rows, forward and backward (Ba, Kiros, Hinton: "Layer Normalization", 2016).
#include <cmath>
#include "declarations.h"
#include "split.h"

namespace shunya::SHUNYA_ISA {

namespace {

// Mean first, then the squared distances from it: one pass over sums of squares would cancel for rows far from zero.
template <DType T>
void normalizeRow(int64_t cols, float epsilon, const void* x, const void* gamma, const void* beta, void* y, float* meanOut,
                  float* rstdOut) {
  const float mean = sumTerms(cols, [=](int64_t c, auto extent) { return load<T>(x, c, extent); }) / (float)cols;
  const vf center = broadcast(mean);
  const float squares = sumTerms(cols, [=](int64_t c, auto extent) {
    const vf distance = load<T>(x, c, extent) - center;
    return distance * distance;
  });
  const float rstd = 1.0f / std::sqrt(squares / (float)cols + epsilon);
  const vf scale = broadcast(rstd);
  eachVector(0, cols, [=](int64_t c, auto extent) {
    const vf normalized = (load<T>(x, c, extent) - center) * scale;
    store<T>(y, c, fma(normalized, load<T>(gamma, c, extent), load<T>(beta, c, extent)), extent);
  });
  *meanOut = mean;
  *rstdOut = rstd;
}

struct BackwardRow { const void *dy, *x, *gamma; void* dx; float mean, rstd; bool accumulate; };

// With xhat the normalized row and g = dy * gamma: dx = rstd * (g - mean(g) - xhat * mean(g * xhat)). The row's share of
// dgamma (dy * xhat) and dbeta (dy) is added to the partials when there are any.
template <DType T, bool WithPartials> void backwardRow(int64_t cols, const BackwardRow& row, float* dgamma, float* dbeta) {
  const vf center = broadcast(row.mean), scale = broadcast(row.rstd);
  vf sumG[2] = {}, sumGx[2] = {};
  const auto gather = [&](int64_t c, auto extent, int slot) {
    const vf xhat = keepLanes((load<T>(row.x, c, extent) - center) * scale, 0, extent);
    const vf dy = load<T>(row.dy, c, extent), g = dy * load<T>(row.gamma, c, extent);
    sumG[slot] += g;
    sumGx[slot] = fma(g, xhat, sumGx[slot]);
    if constexpr (WithPartials) {
      store<DType::F32>(dgamma, c, fma(dy, xhat, load<DType::F32>(dgamma, c, extent)), extent);
      store<DType::F32>(dbeta, c, dy + load<DType::F32>(dbeta, c, extent), extent);
    }
  };
  int64_t c = 0;
  for (; c + 2 * VL <= cols; c += 2 * VL) {
    gather(c, Whole{}, 0);
    gather(c + VL, Whole{}, 1);
  }
  eachVector(c, cols, [&](int64_t rest, auto extent) { gather(rest, extent, 0); });
  const vf meanG = broadcast(sumLanes(sumG[0] + sumG[1]) / (float)cols);
  const vf meanGx = broadcast(sumLanes(sumGx[0] + sumGx[1]) / (float)cols);
  eachVector(0, cols, [&](int64_t i, auto extent) {
    const vf xhat = (load<T>(row.x, i, extent) - center) * scale;
    const vf g = load<T>(row.dy, i, extent) * load<T>(row.gamma, i, extent);
    vf dx = scale * ((g - meanG) - xhat * meanGx);
    if (row.accumulate) dx = load<T>(row.dx, i, extent) + dx;
    store<T>(row.dx, i, dx, extent);
  });
}

}  // namespace

void layerNorm(int64_t rows, int64_t cols, DType type, float epsilon, const void* x, const void* gamma, const void* beta, void* y,
               float* mean, float* rstd, Pool& pool) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overPieces(pool, rows, rowsPerTask(cols), [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r++)
        normalizeRow<T>(cols, epsilon, (const Storage<T>*)x + r * cols, gamma, beta, (Storage<T>*)y + r * cols, mean + r,
                        rstd + r);
    });
  });
}

// Two fp32 rows, dgamma's and dbeta's, per block of rows.
size_t layerNormBackwardScratch(int64_t rows, int64_t cols) {
  return (size_t)(piecesOf(rows, rowsPerPartial) * 2 * cols) * sizeof(float);
}

void layerNormBackward(int64_t rows, int64_t cols, DType type, const void* dy, const void* x, const void* gamma,
                       const float* mean, const float* rstd, void* dx, bool accumulateInput, void* dgamma, void* dbeta,
                       bool accumulateParameters, Pool& pool, void* scratch) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    float* partials = (float*)scratch;
    const bool withPartials = dgamma != nullptr;
    overPieces(pool, rows, rowsPerPartial, [=](int64_t begin, int64_t end) {
      float* block = partials + begin / rowsPerPartial * 2 * cols;
      if (withPartials) memset(block, 0, 2 * cols * sizeof(float));
      for (int64_t r = begin; r < end; r++) {
        const BackwardRow row{(const Storage<T>*)dy + r * cols, (const Storage<T>*)x + r * cols, gamma,
                              (Storage<T>*)dx + r * cols, mean[r], rstd[r], accumulateInput};
        if (withPartials) backwardRow<T, true>(cols, row, block, block + cols);
        else backwardRow<T, false>(cols, row, nullptr, nullptr);
      }
    });
    if (!withPartials) return;
    const int64_t blocks = piecesOf(rows, rowsPerPartial);
    addPartials<T>(pool, partials, blocks, 2 * cols, cols, dgamma, accumulateParameters);
    addPartials<T>(pool, partials + cols, blocks, 2 * cols, cols, dbeta, accumulateParameters);
  });
}

}  // namespace shunya::SHUNYA_ISA
