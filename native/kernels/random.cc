// Dropout and initial values, normally or evenly distributed. Both depend on (key, element index) alone: see philox.h.
#include "declarations.h"
#include "random_words.h"
#include "split.h"

namespace shunya::SHUNYA_ISA {

namespace {

// Natural logarithm of a normal number, relative error about 1e-7 (polynomial of Moshier's Cephes library).
SHUNYA_INLINE vf logNormal(vf x) {
  const vi exponent = (vi)(bitsOf(x) - 0x3f3504f3u) >> 23;  // so that the mantissa lies in [sqrt(1/2), sqrt(2))
  const vf f = floatOf(bitsOf(x) - ((vu)exponent << 23)) - broadcast(1.0f), e = __builtin_convertvector(exponent, vf);
  vf p = broadcast(7.0376836292e-2f);
  p = fma(p, f, broadcast(-1.1514610310e-1f));
  p = fma(p, f, broadcast(1.1676998740e-1f));
  p = fma(p, f, broadcast(-1.2420140846e-1f));
  p = fma(p, f, broadcast(1.4249322787e-1f));
  p = fma(p, f, broadcast(-1.6668057665e-1f));
  p = fma(p, f, broadcast(2.0000714765e-1f));
  p = fma(p, f, broadcast(-2.4999993993e-1f));
  p = fma(p, f, broadcast(3.3333331174e-1f));
  const vf square = f * f;
  const vf tail = fma(e, broadcast(-2.12194440e-4f), fma(square, broadcast(-0.5f), square * f * p));
  return fma(e, broadcast(0.693359375f), f + tail);
}

struct Direction { vf cosine, sine; };

// Cosine and sine of a whole turn split into 2^32 steps (polynomials of Moshier's Cephes library within a quarter turn).
SHUNYA_INLINE Direction directionOf(vu turn) {
  const vf quarters = __builtin_convertvector((vi)turn, vf) * broadcast(0x1p-30f);
  const vf shifter = broadcast(12582912.0f);
  const vf nearest = (quarters + shifter) - shifter;
  const vf angle = (quarters - nearest) * broadcast(1.57079633f), square = angle * angle;
  vf s = fma(square, broadcast(-1.9515295891e-4f), broadcast(8.3321608736e-3f));
  s = fma(fma(s, square, broadcast(-1.6666654611e-1f)), square * angle, angle);
  vf c = fma(square, broadcast(2.443315711809948e-5f), broadcast(-1.388731625493765e-3f));
  c = fma(fma(c, square, broadcast(4.166664568298827e-2f)), square * square, fma(square, broadcast(-0.5f), broadcast(1.0f)));
  const vu quadrant = (vu)__builtin_convertvector(nearest, vi);
  const auto odd = (quadrant & 1u) != 0u;
  const vf x = odd ? s : c, y = odd ? c : s;
  return {floatOf(bitsOf(x) ^ (((quadrant + 1u) & 2u) << 30)), floatOf(bitsOf(y) ^ ((quadrant & 2u) << 30))};
}

// Box-Muller: words (2j, 2j + 1) become two independent normal values. The half keeps the logarithm's argument above zero.
SHUNYA_INLINE void normalsOf(const uint32_t* words, float* normals) {
  for (int block = 0; block < wordsPerBlock; block += 2 * VL) {
    uint32_t lanes[2][VL];
    for (int l = 0; l < VL; l++) {
      lanes[0][l] = words[block + 2 * l] >> 1;
      lanes[1][l] = words[block + 2 * l + 1];
    }
    const vf whole = __builtin_convertvector(loadLanes<vi>(lanes[0], Whole{}), vf);
    const vf uniform = fma(whole, broadcast(0x1p-31f), broadcast(0x1p-32f));
    const vf radius = sqrt(max(zero(), broadcast(-2.0f) * logNormal(uniform)));
    const Direction direction = directionOf(loadLanes<vu>(lanes[1], Whole{}));
    const vf x = radius * direction.cosine, y = radius * direction.sine;
    for (int l = 0; l < VL; l++) {
      normals[block + 2 * l] = x[l];
      normals[block + 2 * l + 1] = y[l];
    }
  }
}

}  // namespace

void dropout(int64_t count, DType type, const void* x, void* out, float probability, uint64_t key, int64_t firstElement,
             Pool& pool) {
  const uint32_t threshold = dropoutThreshold(probability);
  const vf factor = broadcast(probability < 1.0f ? 1.0f / (1.0f - probability) : 0.0f);
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overPieces(pool, count, elementsPerTask, [=](int64_t begin, int64_t end) {
      eachWordBlock(key, firstElement, begin, end, [=](int64_t i, const uint32_t* words, int offset, int n) {
        eachVector(0, n, [=](int64_t j, auto extent) {
          const vu word = loadLanes<vu>(words + offset + j, extent);
          const vf kept = load<T>(x, i + j, extent) * factor;
          store<T>(out, i + j, word >= threshold ? kept : zero(), extent);
        });
      });
    });
  });
}

void initNormal(int64_t count, DType type, void* dst, uint64_t key, int64_t firstElement, float mean, float std, Pool& pool) {
  const vf center = broadcast(mean), spread = broadcast(std);
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overPieces(pool, count, elementsPerTask, [=](int64_t begin, int64_t end) {
      eachWordBlock(key, firstElement, begin, end, [=](int64_t i, const uint32_t* words, int offset, int n) {
        alignas(64) float normals[wordsPerBlock];
        normalsOf(words, normals);
        eachVector(0, n, [=, &normals](int64_t j, auto extent) {
          const vf value = load<DType::F32>(normals, offset + j, extent);
          store<T>(dst, i + j, fma(value, spread, center), extent);
        });
      });
    });
  });
}

void initUniform(int64_t count, DType type, void* dst, uint64_t key, int64_t firstElement, float low, float high, Pool& pool) {
  const vf least = broadcast(low), width = broadcast(high - low);
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overPieces(pool, count, elementsPerTask, [=](int64_t begin, int64_t end) {
      eachWordBlock(key, firstElement, begin, end, [=](int64_t i, const uint32_t* words, int offset, int n) {
        eachVector(0, n, [=](int64_t j, auto extent) {
          // The upper 24 bits, which fp32 holds exactly.
          const vu word = loadLanes<vu>(words + offset + j, extent) >> 8;
          const vf share = __builtin_convertvector((vi)word, vf) * broadcast(0x1p-24f);
          store<T>(dst, i + j, fma(share, width, least), extent);
        });
      });
    });
  });
}

}  // namespace shunya::SHUNYA_ISA
