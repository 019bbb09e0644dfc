// Sums over many elements in a fixed order: columns of a matrix, squares for the gradient norm, copies from several ranks.
#include "declarations.h"
#include "split.h"

namespace shunya::SHUNYA_ISA {

namespace {

// Adds rows of x to a row of partials, four rows for each visit to the partials.
template <DType T> void addRowsTo(int64_t rows, int64_t cols, int64_t ld, const Storage<T>* x, float* partial) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * ld)
    eachVector(0, cols, [=](int64_t c, auto extent) {
      vf total = load<DType::F32>(partial, c, extent);
      for (int j = 0; j < 4; j++) total += load<T>(x + j * ld, c, extent);
      store<DType::F32>(partial, c, total, extent);
    });
  for (; r < rows; r++, x += ld)
    eachVector(0, cols, [=](int64_t c, auto extent) {
      store<DType::F32>(partial, c, load<DType::F32>(partial, c, extent) + load<T>(x, c, extent), extent);
    });
}

typedef double vd __attribute__((vector_size(VL * 4)));  // as many fp64 lanes as one register has

struct Wide { vd low, high; };
SHUNYA_INLINE Wide widen(vf x) {
#if defined(__AVX512F__)
  return {(vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)), (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1))};
#elif defined(__AVX2__)
  return {(vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)), (vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1))};
#else
  return {vd{x[0], x[1]}, vd{x[2], x[3]}};
#endif
}

// Squares in fp64: those of large bf16 values are beyond fp32. Position decides an element's lane, so the order of the
// additions is the same wherever the block lies in memory.
template <DType T> double squaresOfBlock(int64_t count, const Storage<T>* x) {
  vd part[4] = {};
  const auto add = [&](vf value, int slot) {
    const Wide wide = widen(value);
    part[slot] += wide.low * wide.low;
    part[slot + 1] += wide.high * wide.high;
  };
  int64_t i = 0;
  for (; i + 2 * VL <= count; i += 2 * VL) {
    add(load<T>(x, i), 0);
    add(load<T>(x, i + VL), 2);
  }
  eachVector(i, count, [&](int64_t c, auto extent) { add(load<T>(x, c, extent), 0); });
  const vd lanes = (part[0] + part[1]) + (part[2] + part[3]);
  double total = 0;
  for (int l = 0; l < VL / 2; l++) total += lanes[l];
  return total;
}

// Squares of finite fp32 values cannot overflow fp64, so only a block with a sum that is not finite needs the count.
template <DType T> SquareSum squareSumOfBlock(int64_t count, const Storage<T>* x) {
  SquareSum total{squaresOfBlock<T>(count, x), 0};
  if (total.sum - total.sum == 0) return total;
  vi nonFinite = {};
  eachVector(0, count, [&](int64_t i, auto extent) {
    nonFinite -= (vi)((bitsOf(load<T>(x, i, extent)) & 0x7f800000u) == 0x7f800000u);
  });
  for (int l = 0; l < VL; l++) total.nonFinite += nonFinite[l];
  return total;
}

struct ReduceArgs { const void* const* sources; int numSources; void* dst; float factor; Join join; bool streamed; };

// `Sources` > 0: that many, known when compiling; 0: `numSources`.
template <DType S, DType D, int Sources> void reduceRange(const ReduceArgs& a, int64_t begin, int64_t end) {
  const void* const* sources = a.sources;
  const void* dst = a.dst;
  const int n = Sources > 0 ? Sources : a.numSources;
  const Join join = a.join;
  const vf scale = broadcast(a.factor);
  storeVectors<D>(begin, end, a.dst, a.streamed, [=](int64_t i, auto extent) {
    vf total = load<S>(sources[0], i, extent);
    for (int s = 1; s < n; s++) total += load<S>(sources[s], i, extent);
    total = total * scale;
    if (join == Join::Overwrite) return total;
    return load<D>(dst, i, extent) + (join == Join::AddRounded ? rounded<D>(total) : total);
  });
}

// Whether dst is only written: memory that is read anyway is better written through the caches.
bool isOnlyWritten(const void* dst, const void* const* sources, int numSources, Join join) {
  bool isSource = join != Join::Overwrite;
  for (int s = 0; s < numSources; s++) isSource |= sources[s] == dst;
  return !isSource;
}

}  // namespace

size_t columnSumScratch(int64_t rows, int64_t cols) { return (size_t)(piecesOf(rows, rowsPerPartial) * cols) * sizeof(float); }

void columnSum(int64_t rows, int64_t cols, int64_t ld, DType type, const void* x, void* out, bool accumulate, Pool& pool,
               void* scratch) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    float* partials = (float*)scratch;
    overPieces(pool, rows, rowsPerPartial, [=](int64_t begin, int64_t end) {
      float* partial = partials + begin / rowsPerPartial * cols;
      memset(partial, 0, cols * sizeof(float));
      addRowsTo<T>(end - begin, cols, ld, (const Storage<T>*)x + begin * ld, partial);
    });
    addPartials<T>(pool, partials, piecesOf(rows, rowsPerPartial), cols, cols, out, accumulate);
  });
}

size_t squareSumScratch(int64_t count, int64_t block) { return (size_t)piecesOf(count, block) * sizeof(SquareSum); }

void squareSum(int64_t count, DType type, const void* x, int64_t block, SquareSum* out, bool accumulate, Pool& pool, void* scratch) {
  SquareSum* partials = (SquareSum*)scratch;
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    const int64_t blocksPerTask = piecesOf(elementsPerTask, block);
    overPieces(pool, piecesOf(count, block), blocksPerTask, [=](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; b++) {
        const int64_t length = (b + 1) * block < count ? block : count - b * block;
        partials[b] = squareSumOfBlock<T>(length, (const Storage<T>*)x + b * block);
      }
    });
  });
  if (!accumulate) *out = {0, 0};
  for (int64_t b = 0; b < piecesOf(count, block); b++) {
    out->sum += partials[b].sum;
    out->nonFinite += partials[b].nonFinite;
  }
}

void reduce(int64_t count, const void* const* sources, int numSources, DType sourceType, void* dst, DType dstType, float factor,
            Join join, Pool& pool) {
  withDType(sourceType, [&](auto from) {
    withDType(dstType, [&](auto to) {
      constexpr DType S = decltype(from)::value, D = decltype(to)::value;
      const bool large = count * (int64_t)sizeof(Storage<D>) >= streamedBytes;
      const ReduceArgs a{sources, numSources, dst, factor, join,
                         large && isOnlyWritten(dst, sources, numSources, join)};
      overPieces(pool, count, elementsPerTask, [=](int64_t begin, int64_t end) {
        if (numSources == 2) reduceRange<S, D, 2>(a, begin, end);
        else reduceRange<S, D, 0>(a, begin, end);
      });
    });
  });
}

}  // namespace shunya::SHUNYA_ISA
