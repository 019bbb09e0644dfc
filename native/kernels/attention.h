// What attention's forward and backward passes share: tile shape, head addresses, dropout factors, transposed stores.
//
// Both passes keep the scores of one strip of the seq x seq matrix, laid out so that what one product writes is what the
// next one reads as its packed right operand. Forward has queries across the lanes and keys down the rows, backward the
// other way round: probabilities are then summed over their rows, which is the depth of the product that follows.
#pragma once
#include "matmul.h"
#include "random_words.h"

namespace shunya::SHUNYA_ISA {

// Wider and lower than the tile of matmul.h: head sizes are multiples of `wideRows` far more often than of 12.
#if defined(__AVX512F__) || defined(__ARM_NEON)
constexpr int wideRows = 8, wideVectors = 3;
#elif defined(__AVX2__)
constexpr int wideRows = 4, wideVectors = 3;
#else
constexpr int wideRows = 4, wideVectors = 2;
#endif
constexpr int wideCols = wideVectors * VL;

template <DType T> SHUNYA_INLINE void multiplyWide(int64_t words, const uint32_t* a, const uint32_t* b, float* c, bool add) {
  multiplyTile<wideRows, wideVectors, wordDepth<T> == 2>(words, a, b, c, wideCols, add);
}

// Hands out pieces of a scratch area, or, from null, only counts them.
class Carver {
 public:
  explicit Carver(void* base) : base_((char*)base) {}
  template <class Element> Element* take(int64_t count) {
    Element* piece = (Element*)(base_ + bytes_);
    bytes_ += roundUp(count * (int64_t)sizeof(Element), 64);
    return piece;
  }
  int64_t bytes() const { return bytes_; }

 private:
  char* base_;
  int64_t bytes_ = 0;
};

// One head of one sample as an operand: positions are its rows, or its depth when transposed.
struct HeadView {
  const char* data;
  int64_t stride;
  DType dtype;
  MatrixView byPosition() const { return {data, stride, 1, dtype}; }
  MatrixView transposed() const { return {data, 1, stride, dtype}; }
};
inline char* headAddress(const void* base, const AttentionArgs& a, int64_t stride, int64_t sample, int64_t head) {
  return (char*)base + (sample * a.seq * stride + head * a.headDim) * (int64_t)dtypeBytes(a.dtype);
}
inline HeadView headView(const void* base, const AttentionArgs& a, int64_t stride, int64_t sample, int64_t head) {
  return {headAddress(base, a, stride, sample, head), stride, a.dtype};
}
// The same of keys or values, of which a sample may have more rows.
inline HeadView keyView(const void* base, const AttentionArgs& a, int64_t sample, int64_t kvHead) {
  const int64_t first = sample * a.keys * a.kvStride + kvHead * a.headDim;
  return {(const char*)base + first * (int64_t)dtypeBytes(a.dtype), a.kvStride, a.dtype};
}

// The first key that the query at `position` sees.
inline int64_t firstSeen(const AttentionArgs& a, int64_t position) { return std::max<int64_t>(0, position + 1 - a.window); }

// All panels of `width` rows of an operand, one after the other.
template <int width, DType T>
void packPanels(const MatrixView& v, int64_t rowBegin, int64_t rowEnd, int64_t depth0, int64_t depth, uint32_t* out) {
  const int64_t panelWords = width * ceilDiv(depth, wordDepth<T>);
  for (int64_t row = rowBegin; row < rowEnd; row += width, out += panelWords) packPanel<width, T>(v, row, rowEnd, depth0, depth, out);
}

// Two rows of probabilities as one row of words of the next product: pairs where the processor multiplies pairs.
// Values are finite, zero or NaN; half a unit is added and the rest cut off.
SHUNYA_INLINE vu pairWords(vf first, vf second) {
  return ((bitsOf(first) + 0x8000u) >> 16) | ((bitsOf(second) + 0x8000u) & 0xffff0000u);
}

SHUNYA_INLINE vu wordsOf(const vf (&rows)[1]) { return bitsOf(rows[0]); }
SHUNYA_INLINE vu wordsOf(const vf (&rows)[2]) { return pairWords(rows[0], rows[1]); }

// 1 / (1 - p) where a probability is kept and 0 where it is dropped, for keys [key, key + count) of one query.
inline void dropFactors(const AttentionArgs& a, int64_t sample, int64_t head, int64_t query, int64_t key, int64_t count, float* out) {
  const int64_t row = ((a.firstSample + sample) * a.heads + head) * a.seq + query;
  const uint32_t threshold = dropoutThreshold(a.dropProbability);
  const vf factor = broadcast(a.dropProbability < 1.0f ? 1.0f / (1.0f - a.dropProbability) : 0.0f);
  eachWordBlock(a.dropKey, row * a.seq + key, 0, count, [=](int64_t i, const uint32_t* words, int offset, int n) {
    eachVector(0, n, [=](int64_t j, auto extent) {
      store<DType::F32>(out, i + j, loadLanes<vu>(words + offset + j, extent) >= threshold ? factor : zero(), extent);
    });
  });
}

// Writes columns [0, cols) of x[rows][wideCols] as rows of `out`, times a factor per column, in the storage type.
template <DType T>
void storeTransposed(const float* x, int64_t cols, int64_t rows, const vf (&factors)[wideVectors], char* out, int64_t outStride) {
  for (int v = 0; v * VL < cols; v++)
    for (int64_t row = 0; row < rows; row += VL) {
      vu block[VL];
      SHUNYA_UNROLL
      for (int y = 0; y < VL; y++)
        block[y] = row + y < rows ? bitsOf(loadLanes<vf>(x + (row + y) * wideCols + v * VL, Whole{}) * factors[v]) : vu{};
      transpose(block);
      const int count = (int)std::min<int64_t>(VL, cols - v * VL);
      SHUNYA_UNROLL
      for (int c = 0; c < VL; c++) {
        Storage<T>* line = (Storage<T>*)out + (v * VL + c) * outStride;
        if (c >= count) continue;
        if (rows - row >= VL) store<T>(line, row, floatOf(block[c]));
        else store<T>(line, row, floatOf(block[c]), Part{(int)(rows - row)});
      }
    }
}

SHUNYA_INLINE vi laneNumbers() {
  int32_t n[VL];
  for (int l = 0; l < VL; l++) n[l] = l;
  return loadLanes<vi>(n, Whole{});
}

// 2^x for what becomes a probability. Interpolation at the Chebyshev points of [-1/2, 1/2], exact at whole x: relative error
// 7e-8 where probabilities stay fp32, 7e-6 where they become bf16 (whose own rounding is 2e-3). NaN stays NaN.
template <DType T> SHUNYA_INLINE vf powerOfTwo(vf x) {
  x = max(broadcast(-150.0f), x);
#if defined(__AVX512F__)
  const vf whole = (vf)_mm512_roundscale_ps((__m512)x, 0);
#else
  const vf shifter = broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const vf whole = (x + shifter) - shifter;
#endif
  const vf f = x - whole;
  vf p;
  if constexpr (wordDepth<T> == 2) {
    p = fma(broadcast(0.00965671055f), f, broadcast(0.0558382832f));
    p = fma(p, f, broadcast(0.2402253f));
    p = fma(p, f, broadcast(0.693136752f));
  } else {
    p = fma(broadcast(1.54531634e-4f), f, broadcast(1.33908633e-3f));
    p = fma(p, f, broadcast(9.61808302e-3f));
    p = fma(p, f, broadcast(5.55035695e-2f));
    p = fma(p, f, broadcast(0.240226507f));
    p = fma(p, f, broadcast(0.693147182f));
  }
  return scaleByPower(fma(p, f, broadcast(1.0f)), whole);
}
constexpr float log2e = 1.44269504f, ln2 = 0.693147181f;

}  // namespace shunya::SHUNYA_ISA
