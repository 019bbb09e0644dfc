// Softmax cross-entropy, forward and gradient in one visit to a row of logits while it is in the cache.
#include <cmath>
#include "declarations.h"
#include "split.h"

namespace shunya::SHUNYA_ISA {

namespace {

template <DType T> float largestOf(int64_t cols, const void* logits) {
  const float lowest = -INFINITY;
  vf largest[4] = {broadcast(lowest), broadcast(lowest), broadcast(lowest), broadcast(lowest)};
  int64_t c = 0;
  for (; c + 4 * VL <= cols; c += 4 * VL)
    for (int j = 0; j < 4; j++) largest[j] = max(load<T>(logits, c + j * VL), largest[j]);
  eachVector(c, cols, [&](int64_t i, auto extent) {
    largest[0] = max(keepLanes(load<T>(logits, i, extent), lowest, extent), largest[0]);
  });
  return maxLanes(max(max(largest[0], largest[1]), max(largest[2], largest[3])));
}

// Everything is relative to the row's largest logit: no overflow, and a loss near zero keeps its digits. A NaN or +inf
// logit makes the loss and the gradient NaN, as it should.
template <DType T>
float lossOfRow(int64_t cols, void* logits, int32_t target, bool gradient, float gradientScale) {
  const float largest = largestOf<T>(cols, logits);
  const vf shift = broadcast(largest);
  const float total = sumTerms(cols, [=](int64_t c, auto extent) { return vexp(load<T>(logits, c, extent) - shift); });
  const float above = loadOne<T>(logits, target) - largest;
  if (gradient) {
    const float perUnit = gradientScale / total;
    const vf factor = broadcast(perUnit);
    eachVector(0, cols, [=](int64_t c, auto extent) {
      store<T>(logits, c, vexp(load<T>(logits, c, extent) - shift) * factor, extent);
    });
    storeOne<T>(logits, target, (vexp(broadcast(above))[0] / total - 1.0f) * gradientScale);
  }
  return std::log(total) - above;
}

}  // namespace

void crossEntropy(int64_t rows, int64_t cols, int64_t ld, DType type, void* logits, const int32_t* targets, float* rowLoss,
                  bool gradient, float gradientScale, Pool& pool) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overPieces(pool, rows, rowsPerTask(cols), [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r++) {
        Storage<T>* row = (Storage<T>*)logits + r * ld;
        if (targets[r] >= 0) {
          rowLoss[r] = lossOfRow<T>(cols, row, targets[r], gradient, gradientScale);
          continue;
        }
        rowLoss[r] = 0;
        if (gradient) memset(row, 0, cols * sizeof *row);
      }
    });
  });
}

void sum(int64_t count, const float* x, float factor, float* dst, bool accumulate) {
  double total = 0;
  for (int64_t i = 0; i < count; i++) total += x[i];
  *dst = (float)((accumulate ? (double)*dst : 0.0) + (double)factor * total);
}

}  // namespace shunya::SHUNYA_ISA
