// The kernel interface: what every instruction set implements, and nothing about queues, ranks or ZeRO.
//
// One table of functions per instruction set. `kernels()` is the one chosen for this machine. All kernels
//   - take checked arguments (the boundary, runtime/ops_*.cc, has verified every range before a kernel sees a pointer);
//   - split work over `Pool` only in ways that leave the result independent of the number of workers (never over a
//     reduction dimension, or over fixed blocks added in a fixed order);
//   - compute in fp32 whatever the storage type (products accumulate in fp32) and round to the storage type once;
//   - use only the scratch they are given: `scratch` points at least at the bytes the matching ...Scratch() returned.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

namespace shunya {

enum class DType : int { F32 = 0, BF16 = 1, F16 = 2, I32 = 3, F64 = 4 };
// static: one copy per object file, as an object built for AVX-512 must not lend its copy to the others.
static inline size_t dtypeBytes(DType t) { return t == DType::F64 ? 8 : (t == DType::F32 || t == DType::I32) ? 4 : 2; }

// Runs task(0..tasks-1) on the pool's workers, the caller included, and returns when all are done. `worker` is in
// [0, workers()), so a kernel can give each worker its own slice of scratch. Which worker runs which task is not fixed.
class Pool {
 public:
  virtual ~Pool() = default;
  virtual int workers() const = 0;
  virtual void run(int64_t tasks, const std::function<void(int64_t task, int worker)>& body) = 0;
};

// An operand seen as (row, depth): element (r, k) is at data[r * rowStride + k * depthStride]; one stride must be 1.
struct MatrixView { const void* data; int64_t rowStride, depthStride; DType dtype; };

enum class Activation : int { None = 0, GeluTanh = 1 };

// C[m, n] = (accumulate ? C[m, n] : 0) + sum_k A(m, k) * B(n, k), then + bias[n], then activation.
// C is row-major with leading dimension ldc. `preActivation` (may be null; same layout and dtype as C) receives the value
// before the activation. bias may be null. A and B have one dtype; C is F32 or that dtype. With accumulate, no bias or activation.
struct MatmulArgs {
  int64_t m, n, k; MatrixView a, b; void* c; int64_t ldc; DType cType; bool accumulate;
  const void* bias; DType biasType; Activation activation; void* preActivation;
};

// Causal attention. Row (batch b, position t) of q is q + (b * seq + t) * qStride, head h at + h * headDim; likewise k, v
// (kvHeads heads; query head h reads kv head h / (heads / kvHeads)), out and the gradients. lse: fp32 [batch, heads, seq].
// There are `keys` >= seq positions of keys and values, in rows (b * keys + position), and the queries stand at the last seq of
// them: query t sees the last `window` of keys 0..keys - seq + t (a window of `keys` or more hides none). What no query sees is not
// computed, and the seq x keys matrix never stored. All of one dtype. Its bits do not depend on how many queries come together. The
// backward pass and dropout want keys == seq.
// Dropout acts on the attention probabilities when dropProbability > 0: element index of (b, h, i, j) is
// ((firstSample + b) * heads + h) * seq * seq + i * seq + j under `dropKey` (see dropoutKeep in philox.h).
struct AttentionArgs {
  int64_t batch, seq, keys, window, heads, kvHeads, headDim; float scale; DType dtype;
  const void *q, *k, *v; int64_t qStride, kvStride; void* out; int64_t outStride; float* lse;
  float dropProbability; uint64_t dropKey; int64_t firstSample;
};
struct AttentionBackwardArgs {
  AttentionArgs f;  // f.out and f.lse as forward left them
  const void* dOut; int64_t dOutStride; void *dq, *dk, *dv; int64_t dqStride, dkvStride;
};

// What an optimizer rule's update of a range of elements reads and writes beside its own states, which are fp32.
struct UpdateArgs {
  int64_t count; float* master;               // fp32; in fp32 training `master` is the parameter itself
  const void* gradient; DType gradientType;
  void* parameter; DType parameterType;       // 16-bit copy written with one rounding, or null
  // fp64, here and in the rules, as 1 - beta2 taken in fp32 would be off by 1e-5.
  double gradientScale, learningRate, weightDecay;
};
// decoupled: AdamW; else decay is added to the gradient (L2).
struct AdamArgs : UpdateArgs { float *m, *v; double beta1, beta2, epsilon, correction1, correction2; bool decoupled; };
// Decay is decoupled. beta1 makes the direction, beta2 the moment that is kept.
struct LionArgs : UpdateArgs { float* m; double beta1, beta2; };
// m null: no momentum. The moment becomes momentum * m + gradientShare * gradient. Decay is added to the gradient.
struct SgdArgs : UpdateArgs { float* m; double momentum, gradientShare; bool nesterov; };
// `sum` counts squares from zero; initialSum is added to it where it is used. Decay is added to the gradient.
struct AdagradArgs : UpdateArgs { float* sum; double epsilon, initialSum; };

// How a reduction meets what its destination holds: takes its place, is added before the one rounding, or is rounded to the
// destination's type and then added.
enum class Join { Overwrite, Add, AddRounded };

struct SquareSum { double sum; double nonFinite; };  // nonFinite: how many elements were inf or nan

struct Kernels {
  const char* name;  // "portable", "avx2", "avx512", "avx512bf16"

  size_t (*matmulScratch)(const MatmulArgs&, int workers);
  void (*matmul)(const MatmulArgs&, Pool&, void* scratch);

  size_t (*attentionScratch)(const AttentionArgs&, int workers);
  void (*attention)(const AttentionArgs&, Pool&, void* scratch);
  size_t (*attentionBackwardScratch)(const AttentionBackwardArgs&, int workers);
  void (*attentionBackward)(const AttentionBackwardArgs&, Pool&, void* scratch);

  // y = (x - mean) * rstd * gamma + beta over rows of `cols`; mean and rstd fp32 [rows] are outputs. x, y, gamma, beta: dtype.
  void (*layerNorm)(int64_t rows, int64_t cols, DType, float epsilon, const void* x, const void* gamma, const void* beta,
                    void* y, float* mean, float* rstd, Pool&);
  // dx = gradient (added to dx's present value first when accumulateInput, rounded once); dgamma/dbeta (dtype; may both be
  // null when frozen) are overwritten, or added to when accumulateParameters. Scratch: fp32 partials over fixed row blocks.
  size_t (*layerNormBackwardScratch)(int64_t rows, int64_t cols);
  void (*layerNormBackward)(int64_t rows, int64_t cols, DType, const void* dy, const void* x, const void* gamma,
                            const float* mean, const float* rstd, void* dx, bool accumulateInput, void* dgamma, void* dbeta,
                            bool accumulateParameters, Pool&, void* scratch);

  // y = x * rstd * gamma over rows of `cols`, rstd = 1 / sqrt(mean(x^2) + epsilon); fp32 rstd [rows] is an output.
  void (*rmsNorm)(int64_t rows, int64_t cols, DType, float epsilon, const void* x, const void* gamma, void* y, float* rstd,
                  Pool&);
  // As layerNormBackward, with one parameter (dgamma null: frozen).
  size_t (*rmsNormBackwardScratch)(int64_t rows, int64_t cols);
  void (*rmsNormBackward)(int64_t rows, int64_t cols, DType, const void* dy, const void* x, const void* gamma,
                          const float* rstd, void* dx, bool accumulateInput, void* dgamma, bool accumulateParameter, Pool&,
                          void* scratch);
  // Rotary positions on rows of heads x headDim. Row r stands at place r % places; `angles` is fp32 [places, headDim]: of each
  // pair the cosine, then of each pair the sine. Pair c of a head is elements c and headDim / 2 + c. `inverse` turns back, and is
  // the backward pass. y may be x.
  void (*rope)(int64_t rows, int64_t places, int64_t heads, int64_t headDim, DType, const void* x, const float* angles,
               bool inverse, void* y, Pool&);

  void (*gelu)(int64_t count, DType, const void* x, void* y, Pool&);  // tanh approximation ("gelu_new")
  void (*geluBackward)(int64_t count, DType, const void* dy, const void* x, void* dx, Pool&);  // dx may be dy
  // silu(gate) * up: the gated half of SwiGLU. Either gradient may be dy, gate or up.
  void (*siluMultiply)(int64_t count, DType, const void* gate, const void* up, void* y, Pool&);
  void (*siluMultiplyBackward)(int64_t count, DType, const void* dy, const void* gate, const void* up, void* dgate, void* dup,
                               Pool&);
  void (*add)(int64_t count, DType, const void* a, const void* b, void* out, Pool&);           // out may be a or b
  void (*scale)(int64_t count, DType, const void* x, float factor, void* out, Pool&);          // out may be x
  void (*multiply)(int64_t count, DType, const void* a, const void* b, void* out, Pool&);
  void (*cast)(int64_t count, const void* src, DType srcType, void* dst, DType dstType, Pool&);
  void (*fill)(int64_t count, DType, float value, void* dst, Pool&);
  void (*copy)(int64_t bytes, const void* src, void* dst, Pool&);  // plain stores below 8 MiB, non-temporal above

  // out[r, :] = (accumulate ? out[r, :] : 0) + table[ids[r], :]. ids were range-checked by the op (see embeddingCheck).
  void (*embedding)(int64_t rows, int64_t cols, int64_t vocabulary, DType, const int32_t* ids, const void* table, void* out,
                    bool accumulate, Pool&);
  // dtable[t, :] = (accumulate ? dtable[t, :] : 0) + sum over rows with ids[r] == t of dy[r, :], added in row order in fp32.
  // Without accumulate every row of dtable is written (zero where no id). Scratch: a counting sort of the ids.
  size_t (*embeddingBackwardScratch)(int64_t rows, int64_t vocabulary);
  void (*embeddingBackward)(int64_t rows, int64_t cols, int64_t vocabulary, DType, const int32_t* ids, const void* dy,
                            void* dtable, bool accumulate, Pool&, void* scratch);

  // Column sums: out[c] = (accumulate ? out[c] : 0) + sum_r x[r * ld + c], fp32 partials over fixed row blocks.
  size_t (*columnSumScratch)(int64_t rows, int64_t cols);
  void (*columnSum)(int64_t rows, int64_t cols, int64_t ld, DType, const void* x, void* out, bool accumulate, Pool&, void* scratch);

  // Softmax cross-entropy over rows of logits (leading dimension ld): rowLoss[r] = logsumexp - logit[target], 0 when
  // target < 0 (ignored). With `gradient`, logits are overwritten by (softmax - onehot) * gradientScale (0 for ignored rows);
  // columns cols..ld-1 are left alone.
  void (*crossEntropy)(int64_t rows, int64_t cols, int64_t ld, DType, void* logits, const int32_t* targets, float* rowLoss,
                       bool gradient, float gradientScale, Pool&);
  // dst[0] = (accumulate ? dst[0] : 0) + factor * (sum of x in fp64, fixed order).
  void (*sum)(int64_t count, const float* x, float factor, float* dst, bool accumulate);

  // out[i] = keep(i) ? x[i] / (1 - p) : 0, element index firstElement + i under `key`; the backward pass is the same call on dy.
  void (*dropout)(int64_t count, DType, const void* x, void* out, float probability, uint64_t key, int64_t firstElement, Pool&);
  // dst[i] = mean + std * normal(key, firstElement + i): the value depends on (key, index) alone.
  void (*initNormal)(int64_t count, DType, void* dst, uint64_t key, int64_t firstElement, float mean, float std, Pool&);
  // Evenly over [low, high); element i by its own word, as dropout.
  void (*initUniform)(int64_t count, DType, void* dst, uint64_t key, int64_t firstElement, float low, float high, Pool&);

  // Optimizer rules (optimizer.cc); PyTorch's order of operations where PyTorch has the rule.
  void (*adam)(const AdamArgs&, Pool&);
  void (*lion)(const LionArgs&, Pool&);
  void (*sgd)(const SgdArgs&, Pool&);
  void (*adagrad)(const AdagradArgs&, Pool&);
  // Sum of squares over blocks of `block` elements (fp64 partial per block, blocks added in order) and a non-finite count;
  // with `accumulate` they continue what `out` holds.
  // Scratch: one SquareSum per block.
  size_t (*squareSumScratch)(int64_t count, int64_t block);
  void (*squareSum)(int64_t count, DType, const void* x, int64_t block, SquareSum* out, bool accumulate, Pool&, void* scratch);

  // dst[i] = factor * (sources[0][i] + sources[1][i] + ...), added in that order in fp32, rounded once; or joined to dst[i].
  // dst may be one of the sources. dst dtype may differ from the sources' (fp32 accumulation of 16-bit gradients).
  void (*reduce)(int64_t count, const void* const* sources, int numSources, DType sourceType, void* dst, DType dstType,
                 float factor, Join, Pool&);

  // Operations per second (a multiply-add is two) of one thread working in registers alone: the yardstick of benchmarks.
  double (*measurePeak)(DType);
};

const Kernels& kernels();                       // the best this machine runs, or the one selectKernels chose
bool selectKernels(const char* name);           // false if this machine cannot run it
const Kernels* const* availableKernels(int* n); // best first

}  // namespace shunya
