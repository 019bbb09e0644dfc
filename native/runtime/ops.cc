#include "ops.h"

namespace shunya {

static const OpRow opRows[] = {
    {"fill", 5, false, prepareFill},
    {"copy", 5, false, prepareCopy},
    {"copyRows", 8, false, prepareCopyRows},
    {"cast", 7, false, prepareCast},
    {"initNormal", 8, false, prepareInitNormal},
    {"initUniform", 8, false, prepareInitUniform},
    {"matmul", 25, true, prepareMatmul},
    {"attention", 27, true, prepareAttention},
    {"attentionBackward", 37, true, prepareAttentionBackward},
    {"layerNorm", 16, false, prepareLayerNorm},
    {"layerNormBackward", 23, true, prepareLayerNormBackward},
    {"gelu", 6, false, prepareGelu},
    {"geluBackward", 8, false, prepareGeluBackward},
    {"add", 8, false, prepareAdd},
    {"scale", 7, false, prepareScale},
    {"multiply", 8, false, prepareMultiply},
    {"embedding", 11, false, prepareEmbedding},
    {"embeddingBackward", 13, true, prepareEmbeddingBackward},
    {"columnSum", 11, true, prepareColumnSum},
    {"crossEntropy", 12, false, prepareCrossEntropy},
    {"sum", 7, false, prepareSum},
    {"dropout", 9, false, prepareDropout},
    {"rmsNorm", 12, false, prepareRmsNorm},
    {"rmsNormBackward", 19, true, prepareRmsNormBackward},
    {"rope", 12, false, prepareRope},
    {"siluMultiply", 8, false, prepareSiluMultiply},
    {"siluMultiplyBackward", 12, false, prepareSiluMultiplyBackward},
    {"adam", 22, false, prepareAdam},
    {"lion", 16, false, prepareLion},
    {"sgd", 17, false, prepareSgd},
    {"adagrad", 16, false, prepareAdagrad},
    {"squareSum", 10, true, prepareSquareSum},
    {"accumulate", 9, false, prepareAccumulate},
    {"reduceScatter", 7, false, prepareReduceScatter},
    {"allGather", 4, false, prepareAllGather},
    {"broadcast", 6, false, prepareBroadcast},
    {"barrier", 2, false, prepareBarrier},
    {"diskRead", 5, false, prepareDiskRead},
    {"diskWrite", 5, false, prepareDiskWrite},
};
const int opRowCount = sizeof(opRows) / sizeof(opRows[0]);

const OpRow& opRow(int code) {
  if (code < 0 || code >= opRowCount)
    throw RangeFailure{"found op code " + std::to_string(code) + "; wanted 0 to " + std::to_string(opRowCount - 1)};
  return opRows[code];
}

// How many numbers this call must have: segments, where an op has them, come last with their count before them.
static void checkCount(const OpRow& row, bool hasSegments, const double* values, size_t count) {
  double wanted = row.arity;
  if (hasSegments && count >= (size_t)row.arity) wanted += values[row.arity - 1] * numbersPerSegment;
  if ((double)count != wanted)
    throw RangeFailure{std::string(row.name) + ": found " + std::to_string(count) + " numbers; wanted " + std::to_string((int64_t)wanted)};
}

static PreparedOp prepare(const OpRow& row, ArgReader& args, const double* values, size_t count, int workers) {
  checkCount(row, row.prepare == prepareReduceScatter || row.prepare == prepareAllGather, values, count);
  return row.prepare(args, workers);
}

Task prepareTask(int code, const double* values, size_t count, int workers) {
  const OpRow& row = opRow(code);
  ArgReader args(row.name, values, count, true);
  PreparedOp op = prepare(row, args, values, count, workers);
  void* scratch = nullptr;
  if (row.hasScratch && op.scratchBytes > 0) {
    const ArgReader::Span span = {values[count - 2], values[count - 1], "scratch"};
    if (ArgReader::isNull(span)) args.fail("scratch", "none", std::to_string(op.scratchBytes) + " bytes");
    scratch = args.at(span, (double)op.scratchBytes, 1, scratchAlignment);
    args.checkApart("scratch");
  }
  return {std::move(op.run), scratch};
}

size_t opScratchBytes(int code, const double* values, size_t count, int workers) {
  const OpRow& row = opRow(code);
  ArgReader args(row.name, values, count, false);
  return prepare(row, args, values, count, workers).scratchBytes;
}

}  // namespace shunya
