// Ops over flat ranges of elements.
#include "ops.h"

namespace shunya {

PreparedOp prepareFill(ArgReader& a, int) {
  const int64_t n = a.size("count"); const DType t = a.dtype("dtype"); const float value = (float)a.real("value");
  void* dst = a.at(a.span("dst"), n, t);
  return {[=](OpContext& on, void*) { kernels().fill(n, t, value, dst, on.pool); }};
}

PreparedOp prepareCopy(ArgReader& a, int) {
  const int64_t bytes = a.size("bytes");
  const auto srcSpan = a.span("src"), dstSpan = a.span("dst");
  const void* src = a.at(srcSpan, (double)bytes, 1, 1);
  void* dst = a.at(dstSpan, (double)bytes, 1, 1);
  return {[=](OpContext& on, void*) { kernels().copy(bytes, src, dst, on.pool); }};
}

PreparedOp prepareCopyRows(ArgReader& a, int) {
  const int64_t rows = a.size("rows"), bytes = a.size("bytes"), srcStride = a.size("srcStride"), dstStride = a.size("dstStride");
  const auto srcSpan = a.span("src"), dstSpan = a.span("dst");
  if (dstStride < bytes) a.fail("dstStride", std::to_string(dstStride), "at least bytes: rows must not overlap");
  const auto extent = [=](int64_t stride) { return rows == 0 ? 0 : (double)(rows - 1) * stride + bytes; };
  const char* src = (const char*)a.at(srcSpan, extent(srcStride), 1, 1);
  char* dst = (char*)a.at(dstSpan, extent(dstStride), 1, 1);
  return {[=](OpContext&, void*) {
    for (int64_t row = 0; row < rows; row++) memcpy(dst + row * dstStride, src + row * srcStride, bytes);
  }};
}

PreparedOp prepareCast(ArgReader& a, int) {
  const int64_t n = a.size("count"); const DType from = a.dtype("srcType"), to = a.dtype("dstType");
  const auto srcSpan = a.span("src"), dstSpan = a.span("dst");
  const void* src = a.at(srcSpan, n, from); void* dst = a.at(dstSpan, n, to);
  return {[=](OpContext& on, void*) { kernels().cast(n, src, from, dst, to, on.pool); }};
}

PreparedOp prepareInitNormal(ArgReader& a, int) {
  const int64_t n = a.size("count"); const DType t = a.dtype("dtype");
  const uint64_t key = (uint64_t)a.size("key"); const int64_t first = a.size("firstElement");
  const float mean = (float)a.real("mean"), std = (float)a.real("std");
  void* dst = a.at(a.span("dst"), n, t);
  return {[=](OpContext& on, void*) { kernels().initNormal(n, t, dst, key, first, mean, std, on.pool); }};
}

PreparedOp prepareInitUniform(ArgReader& a, int) {
  const int64_t n = a.size("count"); const DType t = a.dtype("dtype");
  const uint64_t key = (uint64_t)a.size("key"); const int64_t first = a.size("firstElement");
  const float low = (float)a.real("low"), high = (float)a.real("high");
  void* dst = a.at(a.span("dst"), n, t);
  return {[=](OpContext& on, void*) { kernels().initUniform(n, t, dst, key, first, low, high, on.pool); }};
}

PreparedOp prepareGelu(ArgReader& a, int) {
  const int64_t n = a.size("count"); const DType t = a.dtype("dtype");
  const auto xs = a.span("x"), ys = a.span("y");
  const void* x = a.at(xs, n, t); void* y = a.at(ys, n, t);
  return {[=](OpContext& on, void*) { kernels().gelu(n, t, x, y, on.pool); }};
}

// Two inputs, one output.
template <typename Kernel>
static PreparedOp binary(ArgReader& a, const char* first, const char* second, const char* result, Kernel kernel) {
  const int64_t n = a.size("count"); const DType t = a.dtype("dtype");
  const auto s1 = a.span(first), s2 = a.span(second), s3 = a.span(result);
  const void* x = a.at(s1, n, t); const void* y = a.at(s2, n, t); void* out = a.at(s3, n, t);
  return {[=](OpContext& on, void*) { kernel(n, t, x, y, out, on.pool); }};
}

PreparedOp prepareGeluBackward(ArgReader& a, int) {
  return binary(a, "dy", "x", "dx", [](int64_t n, DType t, const void* dy, const void* x, void* dx, Pool& p) { kernels().geluBackward(n, t, dy, x, dx, p); });
}
PreparedOp prepareAdd(ArgReader& a, int) {
  return binary(a, "a", "b", "out", [](int64_t n, DType t, const void* x, const void* y, void* o, Pool& p) { kernels().add(n, t, x, y, o, p); });
}
PreparedOp prepareMultiply(ArgReader& a, int) {
  return binary(a, "a", "b", "out", [](int64_t n, DType t, const void* x, const void* y, void* o, Pool& p) { kernels().multiply(n, t, x, y, o, p); });
}

PreparedOp prepareSiluMultiply(ArgReader& a, int) {
  return binary(a, "gate", "up", "y", [](int64_t n, DType t, const void* g, const void* u, void* y, Pool& p) { kernels().siluMultiply(n, t, g, u, y, p); });
}

PreparedOp prepareSiluMultiplyBackward(ArgReader& a, int) {
  const int64_t n = a.size("count"); const DType t = a.dtype("dtype");
  const auto dys = a.span("dy"), gs = a.span("gate"), us = a.span("up"), dgs = a.span("dgate"), dus = a.span("dup");
  const void *dy = a.at(dys, n, t), *gate = a.at(gs, n, t), *up = a.at(us, n, t);
  void *dgate = a.at(dgs, n, t), *dup = a.at(dus, n, t);
  return {[=](OpContext& on, void*) { kernels().siluMultiplyBackward(n, t, dy, gate, up, dgate, dup, on.pool); }};
}

PreparedOp prepareScale(ArgReader& a, int) {
  const int64_t n = a.size("count"); const DType t = a.dtype("dtype");
  const auto xs = a.span("x"); const float factor = (float)a.real("factor"); const auto os = a.span("out");
  const void* x = a.at(xs, n, t); void* out = a.at(os, n, t);
  return {[=](OpContext& on, void*) { kernels().scale(n, t, x, factor, out, on.pool); }};
}

PreparedOp prepareColumnSum(ArgReader& a, int) {
  const int64_t rows = a.size("rows"), cols = a.size("cols"), ld = a.size("ld"); const DType t = a.dtype("dtype");
  if (ld < cols) a.fail("ld", std::to_string(ld), "at least cols");
  const auto xs = a.span("x"), os = a.span("out");
  const void* x = a.at(xs, rows > 0 ? (double)(rows - 1) * ld + cols : 0, t); void* out = a.at(os, cols, t);
  const bool accumulate = a.flag("accumulate");
  if (cols == 0) return nothing();
  const Kernels* kernel = &kernels();
  return {[=](OpContext& on, void* scratch) { kernel->columnSum(rows, cols, ld, t, x, out, accumulate, on.pool, scratch); },
          kernel->columnSumScratch(rows, cols)};
}

PreparedOp prepareSum(ArgReader& a, int) {
  const int64_t n = a.size("count");
  const auto xs = a.span("x"); const float factor = (float)a.real("factor"); const auto ds = a.span("dst");
  const float* x = a.at<float>(xs, n, DType::F32); float* dst = a.at<float>(ds, 1, DType::F32);
  const bool accumulate = a.flag("accumulate");
  return {[=](OpContext&, void*) { kernels().sum(n, x, factor, dst, accumulate); }};
}

PreparedOp prepareDropout(ArgReader& a, int) {
  const int64_t n = a.size("count"); const DType t = a.dtype("dtype");
  const auto xs = a.span("x"), os = a.span("out"); const float p = a.probability("probability");
  const uint64_t key = (uint64_t)a.size("key"); const int64_t first = a.size("firstElement");
  const void* x = a.at(xs, n, t); void* out = a.at(os, n, t);
  return {[=](OpContext& on, void*) { kernels().dropout(n, t, x, out, p, key, first, on.pool); }};
}

PreparedOp prepareSquareSum(ArgReader& a, int) {
  const int64_t n = a.size("count"); const DType t = a.dtype("dtype");
  const auto xs = a.span("x"); const int64_t block = a.size("block", 1); const auto os = a.span("out");
  const bool accumulate = a.flag("accumulate");
  const void* x = a.at(xs, n, t); auto* out = a.at<SquareSum>(os, 2, DType::F64);
  const Kernels* kernel = &kernels();
  return {[=](OpContext& on, void* scratch) { kernel->squareSum(n, t, x, block, out, accumulate, on.pool, scratch); },
          kernel->squareSumScratch(n, block)};
}

PreparedOp prepareAccumulate(ArgReader& a, int) {
  const int64_t n = a.size("count"); const DType from = a.dtype("srcType"), to = a.dtype("dstType");
  const auto ss = a.span("src"), ds = a.span("dst"); const float factor = (float)a.real("factor"); const bool accumulate = a.flag("accumulate");
  const void* src = a.at(ss, n, from); void* dst = a.at(ds, n, to);
  return {[=](OpContext& on, void*) { kernels().reduce(n, &src, 1, from, dst, to, factor, accumulate ? Join::Add : Join::Overwrite, on.pool); }};
}

}  // namespace shunya
