// The table of one instruction set: kernels.h's struct filled with the functions of this compilation, in its order.
#include "declarations.h"

#define SHUNYA_TEXT(x) #x
#define SHUNYA_NAME(x) SHUNYA_TEXT(x)

namespace shunya::SHUNYA_ISA {

extern const Kernels table;
const Kernels table = {
    SHUNYA_NAME(SHUNYA_ISA),
    matmulScratch,
    matmul,
    attentionScratch,
    attention,
    attentionBackwardScratch,
    attentionBackward,
    layerNorm,
    layerNormBackwardScratch,
    layerNormBackward,
    rmsNorm,
    rmsNormBackwardScratch,
    rmsNormBackward,
    rope,
    gelu,
    geluBackward,
    siluMultiply,
    siluMultiplyBackward,
    add,
    scale,
    multiply,
    cast,
    fill,
    copy,
    embedding,
    embeddingBackwardScratch,
    embeddingBackward,
    columnSumScratch,
    columnSum,
    crossEntropy,
    sum,
    dropout,
    initNormal,
    initUniform,
    adam,
    lion,
    sgd,
    adagrad,
    squareSumScratch,
    squareSum,
    reduce,
    measurePeak,
};

}  // namespace shunya::SHUNYA_ISA
