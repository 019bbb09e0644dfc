// Rotary positions (Su et al.: "RoFormer: Enhanced transformer with rotary position embedding", 2021), with the two halves of a
// head as the coordinates of its pairs, which is how Llama's published weights have them.
#include "declarations.h"
#include "split.h"

namespace shunya::SHUNYA_ISA {

namespace {

// Pair c of a head is elements c and half + c; its cosine and sine stand at the same places of `angles`.
template <DType T> void rotateHead(int64_t half, const void* x, const float* angles, bool inverse, void* y) {
  const vf sign = broadcast(inverse ? -1.0f : 1.0f);
  eachVector(0, half, [&](int64_t c, auto extent) {
    const vf cosine = load<DType::F32>(angles, c, extent), sine = load<DType::F32>(angles, half + c, extent) * sign;
    const vf a = load<T>(x, c, extent), b = load<T>(x, half + c, extent);
    store<T>(y, c, fma(a, cosine, -(b * sine)), extent);
    store<T>(y, half + c, fma(b, cosine, a * sine), extent);
  });
}

}  // namespace

void rope(int64_t rows, int64_t places, int64_t heads, int64_t headDim, DType type, const void* x, const float* angles,
          bool inverse, void* y, Pool& pool) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    const int64_t width = heads * headDim;
    overPieces(pool, rows, rowsPerTask(width), [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r++)
        for (int64_t h = 0; h < heads; h++) {
          const int64_t first = r * width + h * headDim;
          rotateHead<T>(headDim / 2, (const Storage<T>*)x + first, angles + r % places * headDim, inverse,
                        (Storage<T>*)y + first);
        }
    });
  });
}

}  // namespace shunya::SHUNYA_ISA
