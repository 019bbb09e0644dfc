// One value in, one value out: activations, sums, products, conversions, fills and copies. Limited by memory, or by exp.
#include "declarations.h"
#include "split.h"

namespace shunya::SHUNYA_ISA {

namespace {

constexpr float sqrtTwoOverPi = 0.797884561f, geluCubic = 0.044715f;

// The tanh form written with the logistic function, 0.5 * (1 + tanh(u)) = 1 / (1 + exp(-2u)): exact for large |x|, and
// no cancellation where the gate is small.
struct Gate { vf value, twoSlope; };  // sigmoid(2u) and 2 du/dx
SHUNYA_INLINE Gate geluGate(vf x) {
  // Beyond |x| = 100 the gate is 0 or 1; the limit keeps x^2 finite, so that 0 * inf does not make NaN out of a finite x.
  const vf square = min(broadcast(1e4f), x * x);
  const vf u2 = x * fma(square, broadcast(2 * sqrtTwoOverPi * geluCubic), broadcast(2 * sqrtTwoOverPi));
  return {broadcast(1.0f) / (broadcast(1.0f) + vexp(-u2)),
          fma(square, broadcast(6 * sqrtTwoOverPi * geluCubic), broadcast(2 * sqrtTwoOverPi))};
}

// A vector of `bytes`-byte copies of one element, as the fill pattern.
template <class Element> void fillElements(Pool& pool, int64_t count, Element value, void* dst) {
  overPieces(pool, count, elementsPerTask, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) ((Element*)dst)[i] = value;
  });
}

// Above this the target would push everything else out of the caches, and reading it first would be a third of the traffic.
constexpr int64_t streamedBytes = 8 << 20, copyPieceBytes = 1 << 20;

void copyStreamed(char* dst, const char* src, int64_t bytes) {
  const int64_t head = (int64_t)(-(uintptr_t)dst & (sizeof(vf) - 1));
  memcpy(dst, src, head);
  int64_t i = head;
  for (; i + 4 * (int64_t)sizeof(vf) <= bytes; i += 4 * sizeof(vf))
    for (int j = 0; j < 4; j++) streamLanes(dst + i + j * sizeof(vf), loadLanes<vf>(src + i + j * sizeof(vf), Whole{}));
  memcpy(dst + i, src + i, bytes - i);
  streamFence();
}

}  // namespace

void gelu(int64_t count, DType type, const void* x, void* y, Pool& pool) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overVectors(pool, count, [=](int64_t i, auto extent) {
      const vf value = load<T>(x, i, extent);
      store<T>(y, i, value * geluGate(value).value, extent);
    });
  });
}

void geluBackward(int64_t count, DType type, const void* dy, const void* x, void* dx, Pool& pool) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overVectors(pool, count, [=](int64_t i, auto extent) {
      const vf value = load<T>(x, i, extent);
      const Gate gate = geluGate(value);
      // The product with the gate first: it is zero long before x times the slope overflows.
      const vf curvature = (gate.value * (broadcast(1.0f) - gate.value)) * value;
      const vf slope = fma(curvature, gate.twoSlope, gate.value);
      store<T>(dx, i, load<T>(dy, i, extent) * slope, extent);
    });
  });
}

void add(int64_t count, DType type, const void* a, const void* b, void* out, Pool& pool) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overVectors(pool, count, [=](int64_t i, auto extent) {
      store<T>(out, i, load<T>(a, i, extent) + load<T>(b, i, extent), extent);
    });
  });
}

void scale(int64_t count, DType type, const void* x, float factor, void* out, Pool& pool) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overVectors(pool, count, [=](int64_t i, auto extent) {
      store<T>(out, i, load<T>(x, i, extent) * broadcast(factor), extent);
    });
  });
}

void multiply(int64_t count, DType type, const void* a, const void* b, void* out, Pool& pool) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overVectors(pool, count, [=](int64_t i, auto extent) {
      store<T>(out, i, load<T>(a, i, extent) * load<T>(b, i, extent), extent);
    });
  });
}

void copy(int64_t bytes, const void* src, void* dst, Pool& pool) {
  const bool streamed = bytes >= streamedBytes;
  overPieces(pool, bytes, copyPieceBytes, [=](int64_t begin, int64_t end) {
    if (streamed) copyStreamed((char*)dst + begin, (const char*)src + begin, end - begin);
    else memcpy((char*)dst + begin, (const char*)src + begin, end - begin);
  });
}

void cast(int64_t count, const void* src, DType srcType, void* dst, DType dstType, Pool& pool) {
  if (srcType == dstType) return copy(count * (int64_t)dtypeBytes(srcType), src, dst, pool);
  withDType(srcType, [&](auto from) {
    withDType(dstType, [&](auto to) {
      overVectors(pool, count, [=](int64_t i, auto extent) {
        store<decltype(to)::value>(dst, i, load<decltype(from)::value>(src, i, extent), extent);
      });
    });
  });
}

void fill(int64_t count, DType type, float value, void* dst, Pool& pool) {
  switch (type) {
    case DType::F32: return fillElements(pool, count, value, dst);
    case DType::I32: return fillElements(pool, count, (int32_t)value, dst);
    case DType::F64: return fillElements(pool, count, (double)value, dst);
    case DType::BF16: return fillElements(pool, count, (uint16_t)narrowBf16(broadcast(value))[0], dst);
    case DType::F16: return fillElements(pool, count, (uint16_t)narrowF16(broadcast(value))[0], dst);
  }
}

}  // namespace shunya::SHUNYA_ISA
