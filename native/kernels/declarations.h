// Every kernel of one instruction set, by name. Each .cc beside this file is compiled once per instruction set with
// SHUNYA_ISA naming it, so the same source yields shunya::portable::matmul, shunya::avx512::matmul and so on; table.cc
// gathers them. What each function promises is said once, in kernels.h.
#pragma once
#include "kernels.h"

#ifndef SHUNYA_ISA
#error "compile kernels with -DSHUNYA_ISA=portable|avx2|avx512|avx512bf16"
#endif

namespace shunya::SHUNYA_ISA {

size_t matmulScratch(const MatmulArgs&, int workers);
void matmul(const MatmulArgs&, Pool&, void* scratch);

size_t attentionScratch(const AttentionArgs&, int workers);
void attention(const AttentionArgs&, Pool&, void* scratch);
size_t attentionBackwardScratch(const AttentionBackwardArgs&, int workers);
void attentionBackward(const AttentionBackwardArgs&, Pool&, void* scratch);

void layerNorm(int64_t rows, int64_t cols, DType, float epsilon, const void* x, const void* gamma, const void* beta, void* y,
               float* mean, float* rstd, Pool&);
size_t layerNormBackwardScratch(int64_t rows, int64_t cols);
void layerNormBackward(int64_t rows, int64_t cols, DType, const void* dy, const void* x, const void* gamma, const float* mean,
                       const float* rstd, void* dx, bool accumulateInput, void* dgamma, void* dbeta,
                       bool accumulateParameters, Pool&, void* scratch);

void rmsNorm(int64_t rows, int64_t cols, DType, float epsilon, const void* x, const void* gamma, void* y, float* rstd, Pool&);
size_t rmsNormBackwardScratch(int64_t rows, int64_t cols);
void rmsNormBackward(int64_t rows, int64_t cols, DType, const void* dy, const void* x, const void* gamma, const float* rstd,
                     void* dx, bool accumulateInput, void* dgamma, bool accumulateParameter, Pool&, void* scratch);
void rope(int64_t rows, int64_t places, int64_t heads, int64_t headDim, DType, const void* x, const float* angles,
          bool inverse, void* y, Pool&);

void gelu(int64_t count, DType, const void* x, void* y, Pool&);
void geluBackward(int64_t count, DType, const void* dy, const void* x, void* dx, Pool&);
void siluMultiply(int64_t count, DType, const void* gate, const void* up, void* y, Pool&);
void siluMultiplyBackward(int64_t count, DType, const void* dy, const void* gate, const void* up, void* dgate, void* dup,
                          Pool&);
void add(int64_t count, DType, const void* a, const void* b, void* out, Pool&);
void scale(int64_t count, DType, const void* x, float factor, void* out, Pool&);
void multiply(int64_t count, DType, const void* a, const void* b, void* out, Pool&);
void cast(int64_t count, const void* src, DType srcType, void* dst, DType dstType, Pool&);
void fill(int64_t count, DType, float value, void* dst, Pool&);
void copy(int64_t bytes, const void* src, void* dst, Pool&);

void embedding(int64_t rows, int64_t cols, int64_t vocabulary, DType, const int32_t* ids, const void* table, void* out,
               bool accumulate, Pool&);
size_t embeddingBackwardScratch(int64_t rows, int64_t vocabulary);
void embeddingBackward(int64_t rows, int64_t cols, int64_t vocabulary, DType, const int32_t* ids, const void* dy, void* dtable,
                       bool accumulate, Pool&, void* scratch);

size_t columnSumScratch(int64_t rows, int64_t cols);
void columnSum(int64_t rows, int64_t cols, int64_t ld, DType, const void* x, void* out, bool accumulate, Pool&, void* scratch);

void crossEntropy(int64_t rows, int64_t cols, int64_t ld, DType, void* logits, const int32_t* targets, float* rowLoss,
                  bool gradient, float gradientScale, Pool&);
void sum(int64_t count, const float* x, float factor, float* dst, bool accumulate);

void dropout(int64_t count, DType, const void* x, void* out, float probability, uint64_t key, int64_t firstElement, Pool&);
void initNormal(int64_t count, DType, void* dst, uint64_t key, int64_t firstElement, float mean, float std, Pool&);
void initUniform(int64_t count, DType, void* dst, uint64_t key, int64_t firstElement, float low, float high, Pool&);

void adam(const AdamArgs&, Pool&);
void lion(const LionArgs&, Pool&);
void sgd(const SgdArgs&, Pool&);
void adagrad(const AdagradArgs&, Pool&);
size_t squareSumScratch(int64_t count, int64_t block);
void squareSum(int64_t count, DType, const void* x, int64_t block, SquareSum* out, bool accumulate, Pool&, void* scratch);

void reduce(int64_t count, const void* const* sources, int numSources, DType sourceType, void* dst, DType dstType, float factor,
            Join, Pool&);

double measurePeak(DType);

}  // namespace shunya::SHUNYA_ISA
