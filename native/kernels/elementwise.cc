// One value in, one value out: activations, sums, products, conversions, fills and copies. Limited by memory, or by exp.
#include "declarations.h"
#include "gelu.h"
#include "silu.h"
#include "split.h"

namespace shunya::SHUNYA_ISA {

namespace {

constexpr int64_t copyPieceBytes = 1 << 20;

void copyStreamed(char* dst, const char* src, int64_t bytes) {
  const int64_t toBoundary = (int64_t)(-(uintptr_t)dst & (sizeof(vf) - 1)), head = toBoundary < bytes ? toBoundary : bytes;
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
      store<T>(y, i, geluOf(load<T>(x, i, extent)), extent);
    });
  });
}

void geluBackward(int64_t count, DType type, const void* dy, const void* x, void* dx, Pool& pool) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overVectors(pool, count, [=](int64_t i, auto extent) {
      store<T>(dx, i, load<T>(dy, i, extent) * geluSlope(load<T>(x, i, extent)), extent);
    });
  });
}

void siluMultiply(int64_t count, DType type, const void* gate, const void* up, void* y, Pool& pool) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overVectors(pool, count, [=](int64_t i, auto extent) {
      store<T>(y, i, siluOf(load<T>(gate, i, extent)) * load<T>(up, i, extent), extent);
    });
  });
}

void siluMultiplyBackward(int64_t count, DType type, const void* dy, const void* gate, const void* up, void* dgate, void* dup,
                          Pool& pool) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overVectors(pool, count, [=](int64_t i, auto extent) {
      const vf slope = load<T>(dy, i, extent), g = load<T>(gate, i, extent), u = load<T>(up, i, extent);
      store<T>(dgate, i, slope * u * siluSlope(g), extent);
      store<T>(dup, i, slope * siluOf(g), extent);
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
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    const bool streamed = count * (int64_t)sizeof(Storage<T>) >= streamedBytes;
    overPieces(pool, count, elementsPerTask, [=](int64_t begin, int64_t end) {
      storeVectors<T>(begin, end, dst, streamed, [=](int64_t, auto) { return broadcast(value); });
    });
  });
}

}  // namespace shunya::SHUNYA_ISA
