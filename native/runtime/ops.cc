#include "ops.h"

namespace shunya {

const OpRow opRows[] = {
    {"fill", false, prepareFill},
    {"copy", false, prepareCopy},
    {"cast", false, prepareCast},
    {"initNormal", false, prepareInitNormal},
    {"matmul", true, prepareMatmul},
    {"attention", true, prepareAttention},
    {"attentionBackward", true, prepareAttentionBackward},
    {"layerNorm", false, prepareLayerNorm},
    {"layerNormBackward", true, prepareLayerNormBackward},
    {"gelu", false, prepareGelu},
    {"geluBackward", false, prepareGeluBackward},
    {"add", false, prepareAdd},
    {"scale", false, prepareScale},
    {"multiply", false, prepareMultiply},
    {"embedding", false, prepareEmbedding},
    {"embeddingBackward", true, prepareEmbeddingBackward},
    {"columnSum", true, prepareColumnSum},
    {"crossEntropy", false, prepareCrossEntropy},
    {"sum", false, prepareSum},
    {"dropout", false, prepareDropout},
    {"adam", false, prepareAdam},
    {"squareSum", true, prepareSquareSum},
    {"accumulate", false, prepareAccumulate},
    {"reduceScatter", false, prepareReduceScatter},
    {"allGather", false, prepareAllGather},
    {"broadcast", false, prepareBroadcast},
    {"barrier", false, prepareBarrier},
};
const int opRowCount = sizeof(opRows) / sizeof(opRows[0]);

static const OpRow& rowOf(int code) {
  if (code < 0 || code >= opRowCount)
    throw RangeFailure{"found op code " + std::to_string(code) + "; wanted 0 to " + std::to_string(opRowCount - 1)};
  return opRows[code];
}

Task prepareTask(int code, const double* values, size_t count, int workers) {
  const OpRow& row = rowOf(code);
  ArgReader args(row.name, values, count, true);
  PreparedOp op = row.prepare(args, workers);
  void* scratch = nullptr;
  if (row.hasScratch) {
    const ArgReader::Span span = args.span("scratch");
    if (op.scratchBytes > 0) {
      if (ArgReader::isNull(span)) args.fail("scratch", "none", std::to_string(op.scratchBytes) + " bytes");
      scratch = args.at(span, (double)((op.scratchBytes + 3) / 4), DType::F32);
    }
  }
  args.end();
  return [run = std::move(op.run), scratch](Pool& pool) { run(pool, scratch); };
}

size_t opScratchBytes(int code, const double* values, size_t count, int workers) {
  const OpRow& row = rowOf(code);
  ArgReader args(row.name, values, count, false);
  const size_t bytes = row.prepare(args, workers).scratchBytes;
  if (row.hasScratch) args.span("scratch");
  args.end();
  return bytes;
}

}  // namespace shunya
