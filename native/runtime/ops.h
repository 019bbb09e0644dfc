// The op boundary: from numbers to a checked task. Rows in the order of src/device/ops.ts.
#pragma once
#include "args.h"
#include "queue.h"

namespace shunya {

// What an op will do. `scratch` is what it needs; the boundary gives `run` an address of at least that many bytes.
struct PreparedOp {
  std::function<void(OpContext&, void* scratch)> run;
  size_t scratchBytes = 0;
};
// An op without output elements: its other sizes, which no range bounds, must not reach a kernel.
inline PreparedOp nothing() { return {[](OpContext&, void*) {}}; }

struct OpRow {
  const char* name;
  int arity;  // numbers on the wire, a collective's segments not counted but their count
  bool hasScratch;
  PreparedOp (*prepare)(ArgReader&, int workers);
};

extern const int opRowCount;
const OpRow& opRow(int code);  // throws RangeFailure

constexpr int numbersPerSegment = 7;
constexpr size_t scratchAlignment = 64;  // kernels keep whole vectors there

// Reads and checks everything, the scratch span last. @throws RangeFailure
Task prepareTask(int code, const double* values, size_t count, int workers);
size_t opScratchBytes(int code, const double* values, size_t count, int workers);

// ops_collective.cc
PreparedOp prepareReduceScatter(ArgReader&, int);
PreparedOp prepareAllGather(ArgReader&, int);
PreparedOp prepareBroadcast(ArgReader&, int);
PreparedOp prepareBarrier(ArgReader&, int);
// ops_model.cc
PreparedOp prepareMatmul(ArgReader&, int);
PreparedOp prepareAttention(ArgReader&, int);
PreparedOp prepareAttentionBackward(ArgReader&, int);
PreparedOp prepareLayerNorm(ArgReader&, int);
PreparedOp prepareLayerNormBackward(ArgReader&, int);
PreparedOp prepareRmsNorm(ArgReader&, int);
PreparedOp prepareRmsNormBackward(ArgReader&, int);
PreparedOp prepareRope(ArgReader&, int);
PreparedOp prepareEmbedding(ArgReader&, int);
PreparedOp prepareEmbeddingBackward(ArgReader&, int);
PreparedOp prepareCrossEntropy(ArgReader&, int);
// ops_flat.cc
PreparedOp prepareFill(ArgReader&, int);
PreparedOp prepareCopy(ArgReader&, int);
PreparedOp prepareCopyRows(ArgReader&, int);
PreparedOp prepareCast(ArgReader&, int);
PreparedOp prepareInitNormal(ArgReader&, int);
PreparedOp prepareInitUniform(ArgReader&, int);
PreparedOp prepareGelu(ArgReader&, int);
PreparedOp prepareGeluBackward(ArgReader&, int);
PreparedOp prepareSiluMultiply(ArgReader&, int);
PreparedOp prepareSiluMultiplyBackward(ArgReader&, int);
PreparedOp prepareAdd(ArgReader&, int);
PreparedOp prepareScale(ArgReader&, int);
PreparedOp prepareMultiply(ArgReader&, int);
PreparedOp prepareColumnSum(ArgReader&, int);
PreparedOp prepareSum(ArgReader&, int);
PreparedOp prepareDropout(ArgReader&, int);
PreparedOp prepareSquareSum(ArgReader&, int);
PreparedOp prepareAccumulate(ArgReader&, int);
// ops_optimizer.cc
PreparedOp prepareAdam(ArgReader&, int);
PreparedOp prepareLion(ArgReader&, int);
PreparedOp prepareSgd(ArgReader&, int);
PreparedOp prepareAdagrad(ArgReader&, int);
// ops_disk.cc
PreparedOp prepareDiskRead(ArgReader&, int);
PreparedOp prepareDiskWrite(ArgReader&, int);

}  // namespace shunya
