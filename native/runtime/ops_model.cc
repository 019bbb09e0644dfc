// Ops of a model's layers.
#include "ops.h"

namespace shunya {

// Elements from the first to the last of a strided matrix.
static double extent(int64_t rows, int64_t rowStride, int64_t cols, int64_t colStride) {
  return rows == 0 || cols == 0 ? 0 : (double)(rows - 1) * rowStride + (double)(cols - 1) * colStride + 1;
}

PreparedOp prepareMatmul(ArgReader& r, int workers) {
  MatmulArgs k{};
  k.m = r.size("m"); k.n = r.size("n"); k.k = r.size("k");
  const DType t = r.dtype("dtype");
  const auto a = r.span("a"); k.a.rowStride = r.size("aRowStride"); k.a.depthStride = r.size("aDepthStride");
  const auto b = r.span("b"); k.b.rowStride = r.size("bRowStride"); k.b.depthStride = r.size("bDepthStride");
  const auto c = r.span("c"); k.ldc = r.size("ldc"); k.cType = r.dtype("cType"); k.accumulate = r.flag("accumulate");
  const auto bias = r.span("bias"); k.biasType = r.dtype("biasType");
  k.activation = r.flag("gelu") ? Activation::GeluTanh : Activation::None;
  const auto pre = r.span("preActivation");
  if (k.a.rowStride != 1 && k.a.depthStride != 1) r.fail("aRowStride", "no stride of 1", "one stride of 1");
  if (k.b.rowStride != 1 && k.b.depthStride != 1) r.fail("bRowStride", "no stride of 1", "one stride of 1");
  if (k.ldc < k.n) r.fail("ldc", std::to_string(k.ldc), "at least n");
  if (k.cType != DType::F32 && k.cType != t) r.fail("cType", "another 16-bit type", "f32 or the operands' type");
  const bool epilogue = !ArgReader::isNull(bias) || k.activation != Activation::None || !ArgReader::isNull(pre);
  if (k.accumulate && epilogue) r.fail("accumulate", "a bias or activation as well", "one or the other");
  k.a.dtype = k.b.dtype = t;
  k.a.data = r.at(a, extent(k.m, k.a.rowStride, k.k, k.a.depthStride), t);
  k.b.data = r.at(b, extent(k.n, k.b.rowStride, k.k, k.b.depthStride), t);
  k.c = r.at(c, extent(k.m, k.ldc, k.n, 1), k.cType);
  k.bias = r.atOrNull(bias, (double)k.n, k.biasType);
  k.preActivation = r.atOrNull(pre, extent(k.m, k.ldc, k.n, 1), k.cType);
  if (k.m == 0 || k.n == 0) return nothing();
  const Kernels* kernel = &kernels();
  return {[=](OpContext& on, void* scratch) { kernel->matmul(k, on.pool, scratch); }, kernel->matmulScratch(k, workers)};
}

struct AttentionSpans { ArgReader::Span q, k, v, out, lse; };

static AttentionSpans readAttention(ArgReader& r, AttentionArgs& f) {
  AttentionSpans s;
  // Bounds that keep every product of sizes below 2^63; the ranges decide what is really possible.
  f.batch = r.size("batch", 0, INT32_MAX); f.seq = r.size("seq", 0, 1 << 24);
  f.heads = r.size("heads", 1, 1 << 20); f.kvHeads = r.size("kvHeads", 1, 1 << 20); f.headDim = r.size("headDim", 1, 256); f.scale = (float)r.real("scale"); f.dtype = r.dtype("dtype");
  s.q = r.span("q"); s.k = r.span("k"); s.v = r.span("v");
  f.qStride = r.size("qStride"); f.kvStride = r.size("kvStride");
  s.out = r.span("out"); f.outStride = r.size("outStride"); s.lse = r.span("lse"); f.window = r.size("window", 1, 1 << 24);
  f.dropProbability = r.probability("dropProbability"); f.dropKey = (uint64_t)r.size("dropKey"); f.firstSample = r.size("firstSample");
  if (f.heads % f.kvHeads != 0) r.fail("kvHeads", std::to_string(f.kvHeads), "a divisor of heads");
  if (f.qStride < f.heads * f.headDim) r.fail("qStride", std::to_string(f.qStride), "at least heads x headDim");
  if (f.outStride < f.heads * f.headDim) r.fail("outStride", std::to_string(f.outStride), "at least heads x headDim");
  if (f.kvStride < f.kvHeads * f.headDim) r.fail("kvStride", std::to_string(f.kvStride), "at least kvHeads x headDim");
  return s;
}

static double rowsExtent(const AttentionArgs& f, int64_t stride, int64_t heads) {
  return extent(f.batch * f.seq, stride, heads * f.headDim, 1);
}
static double keysExtent(const AttentionArgs& f) { return extent(f.batch * f.keys, f.kvStride, f.kvHeads * f.headDim, 1); }

static void resolveAttention(ArgReader& r, AttentionArgs& f, const AttentionSpans& s) {
  f.q = r.at(s.q, rowsExtent(f, f.qStride, f.heads), f.dtype);
  f.k = r.at(s.k, keysExtent(f), f.dtype);
  f.v = r.at(s.v, keysExtent(f), f.dtype);
  f.out = r.at(s.out, rowsExtent(f, f.outStride, f.heads), f.dtype);
  f.lse = r.at<float>(s.lse, (double)f.batch * f.heads * f.seq, DType::F32);
}

PreparedOp prepareAttention(ArgReader& r, int workers) {
  AttentionArgs f{};
  const AttentionSpans s = readAttention(r, f);
  f.keys = r.size("keys", 0, 1 << 24);
  if (f.keys < f.seq) r.fail("keys", std::to_string(f.keys), "at least seq");
  if (f.keys > f.seq && f.dropProbability > 0) r.fail("dropProbability", "dropout with earlier keys", "0, or keys as many as seq");
  resolveAttention(r, f, s);
  if (f.batch == 0 || f.seq == 0) return nothing();
  const Kernels* kernel = &kernels();
  return {[=](OpContext& on, void* scratch) { kernel->attention(f, on.pool, scratch); }, kernel->attentionScratch(f, workers)};
}

PreparedOp prepareAttentionBackward(ArgReader& r, int workers) {
  AttentionBackwardArgs k{};
  const AttentionSpans s = readAttention(r, k.f);
  k.f.keys = k.f.seq;
  const auto dOut = r.span("dOut"); k.dOutStride = r.size("dOutStride");
  const auto dq = r.span("dq"), dk = r.span("dk"), dv = r.span("dv");
  k.dqStride = r.size("dqStride"); k.dkvStride = r.size("dkvStride");
  if (k.dOutStride < k.f.heads * k.f.headDim) r.fail("dOutStride", std::to_string(k.dOutStride), "at least heads x headDim");
  if (k.dqStride < k.f.heads * k.f.headDim) r.fail("dqStride", std::to_string(k.dqStride), "at least heads x headDim");
  if (k.dkvStride < k.f.kvHeads * k.f.headDim) r.fail("dkvStride", std::to_string(k.dkvStride), "at least kvHeads x headDim");
  resolveAttention(r, k.f, s);
  k.dOut = r.at(dOut, rowsExtent(k.f, k.dOutStride, k.f.heads), k.f.dtype);
  k.dq = r.at(dq, rowsExtent(k.f, k.dqStride, k.f.heads), k.f.dtype);
  k.dk = r.at(dk, rowsExtent(k.f, k.dkvStride, k.f.kvHeads), k.f.dtype);
  k.dv = r.at(dv, rowsExtent(k.f, k.dkvStride, k.f.kvHeads), k.f.dtype);
  if (k.f.batch == 0 || k.f.seq == 0) return nothing();
  const Kernels* kernel = &kernels();
  return {[=](OpContext& on, void* scratch) { kernel->attentionBackward(k, on.pool, scratch); },
          kernel->attentionBackwardScratch(k, workers)};
}

PreparedOp prepareLayerNorm(ArgReader& r, int) {
  const int64_t rows = r.size("rows"), cols = r.size("cols", 1); const DType t = r.dtype("dtype"); const float epsilon = (float)r.real("epsilon");
  const auto xs = r.span("x"), gs = r.span("gamma"), bs = r.span("beta"), ys = r.span("y"), ms = r.span("mean"), ss = r.span("rstd");
  const double n = (double)rows * cols;
  const void *x = r.at(xs, n, t), *gamma = r.at(gs, cols, t), *beta = r.at(bs, cols, t);
  void* y = r.at(ys, n, t);
  float *mean = r.at<float>(ms, rows, DType::F32), *rstd = r.at<float>(ss, rows, DType::F32);
  return {[=](OpContext& on, void*) { kernels().layerNorm(rows, cols, t, epsilon, x, gamma, beta, y, mean, rstd, on.pool); }};
}

PreparedOp prepareLayerNormBackward(ArgReader& r, int) {
  const int64_t rows = r.size("rows"), cols = r.size("cols", 1); const DType t = r.dtype("dtype");
  const auto dys = r.span("dy"), xs = r.span("x"), gs = r.span("gamma"), ms = r.span("mean"), ss = r.span("rstd"), dxs = r.span("dx");
  const bool accumulateInput = r.flag("accumulateInput");
  const auto dgs = r.span("dgamma"), dbs = r.span("dbeta");
  const bool accumulateParameters = r.flag("accumulateParameters");
  if (ArgReader::isNull(dgs) != ArgReader::isNull(dbs)) r.fail("dbeta", "one of dgamma and dbeta", "both or neither");
  const double n = (double)rows * cols;
  const void *dy = r.at(dys, n, t), *x = r.at(xs, n, t), *gamma = r.at(gs, cols, t);
  const float *mean = r.at<float>(ms, rows, DType::F32), *rstd = r.at<float>(ss, rows, DType::F32);
  void *dx = r.at(dxs, n, t), *dgamma = r.atOrNull(dgs, cols, t), *dbeta = r.atOrNull(dbs, cols, t);
  const Kernels* kernel = &kernels();
  return {[=](OpContext& on, void* scratch) {
            kernel->layerNormBackward(rows, cols, t, dy, x, gamma, mean, rstd, dx, accumulateInput, dgamma, dbeta,
                                      accumulateParameters, on.pool, scratch);
          },
          kernel->layerNormBackwardScratch(rows, cols)};
}

PreparedOp prepareRmsNorm(ArgReader& r, int) {
  const int64_t rows = r.size("rows"), cols = r.size("cols", 1); const DType t = r.dtype("dtype"); const float epsilon = (float)r.real("epsilon");
  const auto xs = r.span("x"), gs = r.span("gamma"), ys = r.span("y"), ss = r.span("rstd");
  const double n = (double)rows * cols;
  const void *x = r.at(xs, n, t), *gamma = r.at(gs, cols, t);
  void* y = r.at(ys, n, t); float* rstd = r.at<float>(ss, rows, DType::F32);
  return {[=](OpContext& on, void*) { kernels().rmsNorm(rows, cols, t, epsilon, x, gamma, y, rstd, on.pool); }};
}

PreparedOp prepareRmsNormBackward(ArgReader& r, int) {
  const int64_t rows = r.size("rows"), cols = r.size("cols", 1); const DType t = r.dtype("dtype");
  const auto dys = r.span("dy"), xs = r.span("x"), gs = r.span("gamma"), ss = r.span("rstd"), dxs = r.span("dx");
  const bool accumulateInput = r.flag("accumulateInput");
  const auto dgs = r.span("dgamma"); const bool accumulateParameter = r.flag("accumulateParameter");
  const double n = (double)rows * cols;
  const void *dy = r.at(dys, n, t), *x = r.at(xs, n, t), *gamma = r.at(gs, cols, t);
  const float* rstd = r.at<float>(ss, rows, DType::F32);
  void *dx = r.at(dxs, n, t), *dgamma = r.atOrNull(dgs, cols, t);
  const Kernels* kernel = &kernels();
  return {[=](OpContext& on, void* scratch) {
            kernel->rmsNormBackward(rows, cols, t, dy, x, gamma, rstd, dx, accumulateInput, dgamma, accumulateParameter, on.pool,
                                    scratch);
          },
          kernel->rmsNormBackwardScratch(rows, cols)};
}

PreparedOp prepareRope(ArgReader& r, int) {
  const int64_t rows = r.size("rows"), places = r.size("places", 1), heads = r.size("heads", 1, 1 << 20);
  const int64_t headDim = r.size("headDim", 2, 1 << 16); const DType t = r.dtype("dtype");
  if (headDim % 2 != 0) r.fail("headDim", std::to_string(headDim), "an even number");
  const auto xs = r.span("x"), as = r.span("angles"); const bool inverse = r.flag("inverse"); const auto ys = r.span("y");
  const double n = (double)rows * heads * headDim;
  const void* x = r.at(xs, n, t); const float* angles = r.at<float>(as, (double)places * headDim, DType::F32);
  void* y = r.at(ys, n, t);
  return {[=](OpContext& on, void*) { kernels().rope(rows, places, heads, headDim, t, x, angles, inverse, y, on.pool); }};
}

// Ids are checked when the op runs, as their values are only known then.
static void checkIndices(const char* op, const char* what, const int32_t* ids, int64_t rows, int64_t least, int64_t limit) {
  for (int64_t i = 0; i < rows; i++)
    if (ids[i] < least || ids[i] >= limit) {
      const std::string message = std::string(op) + ": found " + what + " " + std::to_string(ids[i]) + " in row " + std::to_string(i) +
                                  "; wanted one below " + std::to_string(limit);
      failOp("DEVICE", message, "{\"op\":" + jsonText(op) + ",\"message\":" + jsonText(message) + "}");
    }
}

PreparedOp prepareEmbedding(ArgReader& r, int) {
  const int64_t rows = r.size("rows"), cols = r.size("cols"), vocabulary = r.size("vocabulary"); const DType t = r.dtype("dtype");
  const auto is = r.span("ids"), ts = r.span("table"), os = r.span("out"); const bool accumulate = r.flag("accumulate");
  const int32_t* ids = r.at<int32_t>(is, rows, DType::I32);
  const void* table = r.at(ts, (double)vocabulary * cols, t); void* out = r.at(os, (double)rows * cols, t);
  r.checkApart("ids", {"out"});
  return {[=](OpContext& on, void*) {
    checkIndices("embedding", "id", ids, rows, 0, vocabulary);
    kernels().embedding(rows, cols, vocabulary, t, ids, table, out, accumulate, on.pool);
  }};
}

PreparedOp prepareEmbeddingBackward(ArgReader& r, int) {
  // The kernel sorts row numbers as 32-bit integers.
  const int64_t rows = r.size("rows", 0, INT32_MAX), cols = r.size("cols"), vocabulary = r.size("vocabulary"); const DType t = r.dtype("dtype");
  const auto is = r.span("ids"), ds = r.span("dy"), ts = r.span("dtable"); const bool accumulate = r.flag("accumulate");
  const int32_t* ids = r.at<int32_t>(is, rows, DType::I32);
  const void* dy = r.at(ds, (double)rows * cols, t); void* dtable = r.at(ts, (double)vocabulary * cols, t);
  r.checkApart("ids", {"dtable"});
  const Kernels* kernel = &kernels();
  return {[=](OpContext& on, void* scratch) {
            checkIndices("embeddingBackward", "id", ids, rows, 0, vocabulary);
            kernel->embeddingBackward(rows, cols, vocabulary, t, ids, dy, dtable, accumulate, on.pool, scratch);
          },
          kernel->embeddingBackwardScratch(rows, vocabulary)};
}

PreparedOp prepareCrossEntropy(ArgReader& r, int) {
  const int64_t rows = r.size("rows"), cols = r.size("cols", 1), ld = r.size("ld"); const DType t = r.dtype("dtype");
  if (ld < cols) r.fail("ld", std::to_string(ld), "at least cols");
  const auto ls = r.span("logits"), ts = r.span("targets"), rs = r.span("rowLoss");
  const bool gradient = r.flag("gradient"); const float gradientScale = (float)r.real("gradientScale");
  void* logits = r.at(ls, extent(rows, ld, cols, 1), t);
  const int32_t* targets = r.at<int32_t>(ts, rows, DType::I32); float* rowLoss = r.at<float>(rs, rows, DType::F32);
  r.checkApart("targets", {"logits", "rowLoss"});
  return {[=](OpContext& on, void*) {
    checkIndices("crossEntropy", "target", targets, rows, INT32_MIN, cols);
    kernels().crossEntropy(rows, cols, ld, t, logits, targets, rowLoss, gradient, gradientScale, on.pool);
  }};
}

}  // namespace shunya
