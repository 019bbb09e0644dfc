// Causal attention, backward: probabilities are computed again from the log-sum-exp that forward left (Dao et al.,
// "FlashAttention", 2022). Keys lie across the lanes. For a block of keys the queries after it pass by in chunks:
//   P = exp(scale Q K' - lse),  dV += P' dO,  dS = P (dO V' - rowsum(out dO)),  dK += scale dS' Q,  dQ += scale dS K.
// In a window only those up to the last that sees a key of the block pass by. P and dS of one panel of keys are summed over all queries of the chunk with the sums in registers; only dS is turned, for dQ.
#include "attention.h"
#include "declarations.h"

namespace shunya::SHUNYA_ISA {
namespace {

constexpr int64_t keyBlock = 192, queryChunk = 240;
static_assert(keyBlock % wideCols == 0 && queryChunk % wideCols == 0 && queryChunk % wideRows == 0, "blocks hold whole tiles");
constexpr int64_t panelsPerBlock = keyBlock / wideCols;

// dS in the type that the next product reads: what packPanel<words> gets to see.
template <DType T> constexpr DType wordType = wordDepth<T> == 2 ? DType::BF16 : DType::F32;

// One worker's scratch. Right operands of products lie as panels of `wideCols`, left operands as panels of `wideRows`.
template <DType T> struct Scratch {
  uint32_t *queries, *outGradients;                      // [position][head], left
  uint32_t *queriesTurned, *outGradientsTurned;          // [head][position], left
  uint32_t *keys, *values, *keysTurned;                  // of one block: [position][head] right, right, [head][position] left
  uint32_t *probabilities, *scoreGradients;              // of one panel and chunk: depth is the query, right
  Storage<wordType<T>>* scoreRows;                       // dS as [query of the chunk][key of the block]
  uint32_t* scoresTurned;                                // a panel of it, right: depth is the key
  float *lse, *delta;                                    // of each query; lse in units of ln 2
  float *tile, *gradientTile, *factors;                  // of wideRows queries and a panel of keys
  float *dq, *dk, *dv;                                   // sums as [panel][head][wideCols]
  int64_t bytes;

  Scratch(const AttentionArgs& a, void* base) {
    constexpr int64_t depth = wordDepth<T>;
    Carver carve(base);
    const int64_t seqRows = roundUp(a.seq, wideRows), headRows = roundUp(a.headDim, wideRows);
    const int64_t headWords = ceilDiv(a.headDim, depth), seqWords = ceilDiv(a.seq, depth);
    queries = carve.take<uint32_t>(seqRows * headWords);
    outGradients = carve.take<uint32_t>(seqRows * headWords);
    queriesTurned = carve.take<uint32_t>(headRows * seqWords);
    outGradientsTurned = carve.take<uint32_t>(headRows * seqWords);
    keys = carve.take<uint32_t>(keyBlock * headWords);
    values = carve.take<uint32_t>(keyBlock * headWords);
    keysTurned = carve.take<uint32_t>(headRows * keyBlock / depth);
    probabilities = carve.take<uint32_t>(queryChunk / depth * wideCols);
    scoreGradients = carve.take<uint32_t>(queryChunk / depth * wideCols);
    scoreRows = carve.take<Storage<wordType<T>>>(queryChunk * keyBlock);
    scoresTurned = carve.take<uint32_t>(wideCols * keyBlock / depth);
    lse = carve.take<float>(seqRows);
    delta = carve.take<float>(seqRows);
    tile = carve.take<float>(wideRows * wideCols);
    gradientTile = carve.take<float>(wideRows * wideCols);
    factors = carve.take<float>(wideRows * wideCols);
    // Heads that share a key head add to one sum, so that one stays for the whole sequence; else only its block.
    const int64_t blocks = a.heads > a.kvHeads ? ceilDiv(a.seq, keyBlock) : 1;
    dq = carve.take<float>(ceilDiv(a.seq, wideCols) * headRows * wideCols);
    dk = carve.take<float>(blocks * headRows * keyBlock);
    dv = carve.take<float>(blocks * headRows * keyBlock);
    bytes = carve.bytes();
  }
};

template <DType T> struct Backward {
  const AttentionBackwardArgs& g;
  const AttentionArgs& a = g.f;
  const int64_t group = a.heads / a.kvHeads, headRows = roundUp(a.headDim, wideRows);
  const int64_t headWords = ceilDiv(a.headDim, wordDepth<T>), seqWords = ceilDiv(a.seq, wordDepth<T>);
  const int64_t blocks = ceilDiv(a.seq, keyBlock), blockSums = headRows * keyBlock;

  void run(Pool& pool, char* scratch, int64_t scratchStride) const {
    pool.run(a.batch * a.kvHeads, [&](int64_t task, int worker) {
      keyHead(Scratch<T>(a, scratch + worker * scratchStride), task / a.kvHeads, task % a.kvHeads);
    });
  }

  void keyHead(const Scratch<T>& s, int64_t sample, int64_t kvHead) const {
    for (int64_t member = 0; member < group; member++) {
      const int64_t head = kvHead * group + member;
      packHead(s, sample, head);
      for (int64_t block = 0; block < blocks; block++) {
        const int64_t sums = group > 1 ? block * blockSums : 0;
        if (member == 0) {
          memset(s.dk + sums, 0, blockSums * sizeof(float));
          memset(s.dv + sums, 0, blockSums * sizeof(float));
        }
        oneBlock(s, sample, head, kvHead, block * keyBlock, s.dk + sums, s.dv + sums);
        if (member == group - 1) storeKeyGradients(s.dk + sums, s.dv + sums, sample, kvHead, block * keyBlock);
      }
      storeQueryGradient(s, sample, head);
    }
  }

  // All of one query head's operands, and per query its log-sum-exp and the product of output and output gradient.
  void packHead(const Scratch<T>& s, int64_t sample, int64_t head) const {
    const HeadView q = headView(a.q, a, a.qStride, sample, head), dOut = headView(g.dOut, a, g.dOutStride, sample, head);
    packPanels<wideRows, T>(q.byPosition(), 0, a.seq, 0, a.headDim, s.queries);
    packPanels<wideRows, T>(dOut.byPosition(), 0, a.seq, 0, a.headDim, s.outGradients);
    packPanels<wideRows, T>(q.transposed(), 0, a.headDim, 0, a.seq, s.queriesTurned);
    packPanels<wideRows, T>(dOut.transposed(), 0, a.headDim, 0, a.seq, s.outGradientsTurned);
    const Storage<T>* out = (const Storage<T>*)headAddress(a.out, a, a.outStride, sample, head);
    for (int64_t t = 0; t < roundUp(a.seq, wideRows); t++) {
      vf sum = zero();
      if (t < a.seq)
        eachVector(0, a.headDim, [&](int64_t d, auto extent) {
          sum = fma(load<T>(out + t * a.outStride, d, extent), load<T>((const Storage<T>*)dOut.data + t * dOut.stride, d, extent), sum);
        });
      s.delta[t] = sumLanes(sum);
      s.lse[t] = t < a.seq ? a.lse[(sample * a.heads + head) * a.seq + t] * log2e : 0;
    }
  }

  // Adds one query head's part to the gradients of keys [key, key + keyBlock), and these keys' part to dQ.
  void oneBlock(const Scratch<T>& s, int64_t sample, int64_t head, int64_t kvHead, int64_t key, float* dk, float* dv) const {
    const HeadView k = headView(a.k, a, a.kvStride, sample, kvHead), v = headView(a.v, a, a.kvStride, sample, kvHead);
    const int64_t keyEnd = std::min(a.seq, key + keyBlock);
    packPanels<wideCols, T>(k.byPosition(), key, keyEnd, 0, a.headDim, s.keys);
    packPanels<wideCols, T>(v.byPosition(), key, keyEnd, 0, a.headDim, s.values);
    packPanels<wideRows, T>(k.transposed(), 0, a.headDim, key, keyEnd - key, s.keysTurned);
    const int64_t queryEnd = std::min(a.seq, keyEnd - 1 + a.window);
    for (int64_t chunk = roundDown(key, queryChunk); chunk < queryEnd; chunk += queryChunk) {
      const int64_t chunkEnd = std::min(a.seq, chunk + queryChunk);
      for (int64_t panel = 0; key + panel * wideCols < keyEnd; panel++) {
        const int64_t first = key + panel * wideCols, begin = std::max(chunk, roundDown(first, wideRows));
        const int64_t end = std::min(chunkEnd, roundUp(first + wideCols - 1 + a.window, wideRows));
        if (begin >= end) {
          clearRows(s, panel, 0, chunkEnd - chunk);
          continue;
        }
        clearRows(s, panel, 0, begin - chunk);
        clearRows(s, panel, end - chunk, chunkEnd - chunk);
        for (int64_t query = begin; query < end; query += wideRows) {
          if (a.dropProbability > 0) scoreTile<true>(s, sample, head, query, begin, chunk, first, panel);
          else scoreTile<false>(s, sample, head, query, begin, chunk, first, panel);
        }
        addKeyGradients(s, begin, end, dk + panel * headRows * wideCols, dv + panel * headRows * wideCols);
      }
      addQueryGradients(s, chunk, key, keyEnd);
    }
  }

  // dS is zero for queries that see no key of the panel; dQ reads it.
  void clearRows(const Scratch<T>& s, int64_t panel, int64_t rowBegin, int64_t rowEnd) const {
    for (int64_t row = rowBegin; row < rowEnd; row++)
      memset(s.scoreRows + row * keyBlock + panel * wideCols, 0, wideCols * sizeof(*s.scoreRows));
  }

  // P and dS of queries [query, query + wideRows) and one panel of keys from `first` on.
  template <bool drop>
  void scoreTile(const Scratch<T>& s, int64_t sample, int64_t head, int64_t query, int64_t begin, int64_t chunk, int64_t first,
                 int64_t panel) const {
    constexpr int depth = wordDepth<T>;
    multiplyWide<T>(headWords, s.queries + query * headWords, s.keys + panel * wideCols * headWords, s.tile, false);
    multiplyWide<T>(headWords, s.outGradients + query * headWords, s.values + panel * wideCols * headWords, s.gradientTile, false);
    if (drop)
      for (int y = 0; y < wideRows; y++) dropFactors(a, sample, head, query + y, first, wideCols, s.factors + y * wideCols);
    const bool edge = first + wideCols - 1 > query || first + a.window < query + wideRows;
    for (int y = 0; y < wideRows; y += depth) {
      const int64_t word = (query + y - begin) / depth * wideCols;
      for (int v = 0; v < wideVectors; v++) {
        vf probability[depth], gradient[depth];
        for (int r = 0; r < depth; r++) {
          scoreVector<drop>(s, query + y + r, (y + r) * wideCols + v * VL, edge, (int32_t)(query + y + r - first) - v * VL,
                            probability[r], gradient[r]);
          Storage<wordType<T>>* row = s.scoreRows + (query + y + r - chunk) * keyBlock + panel * wideCols;
          store<wordType<T>>(row, v * VL, gradient[r]);
        }
        storeLanes(s.probabilities + word + v * VL, wordsOf(probability), Whole{});
        storeLanes(s.scoreGradients + word + v * VL, wordsOf(gradient), Whole{});
      }
    }
  }

  // One query, VL keys of which it sees the last `window` up to lane `lastLane`, and all where there is no edge; `at` is their place
  // in the tiles.
  template <bool drop>
  inline __attribute__((always_inline)) void scoreVector(const Scratch<T>& s, int64_t query, int64_t at, bool edge, int32_t lastLane, vf& probability,
                                        vf& gradient) const {
    vf p = powerOfTwo<T>(fma(loadLanes<vf>(s.tile + at, Whole{}), broadcast(a.scale * log2e), broadcast(-s.lse[query])));
    if (edge) p = seen(p, lastLane);
    vf dp = loadLanes<vf>(s.gradientTile + at, Whole{});
    probability = p;
    if (drop) {
      const vf factor = loadLanes<vf>(s.factors + at, Whole{});
      probability = p * factor;
      dp *= factor;
    }
    gradient = p * (dp - broadcast(s.delta[query]));
    if (edge) gradient = seen(gradient, lastLane);
  }

  inline __attribute__((always_inline)) vf seen(vf x, int32_t lastLane) const {
    return (laneNumbers() <= lastLane) & (laneNumbers() > lastLane - (int32_t)a.window) ? x : zero();
  }

  void addKeyGradients(const Scratch<T>& s, int64_t begin, int64_t end, float* dk, float* dv) const {
    const int64_t words = ceilDiv(end - begin, wordDepth<T>);
    for (int64_t row = 0; row < a.headDim; row += wideRows) {
      const int64_t left = row * seqWords + begin / wordDepth<T> * wideRows;
      multiplyWide<T>(words, s.outGradientsTurned + left, s.probabilities, dv + row * wideCols, true);
      multiplyWide<T>(words, s.queriesTurned + left, s.scoreGradients, dk + row * wideCols, true);
    }
  }

  // dQ of the chunk's queries, a panel of them at a time, over the keys of the block that one of the panel sees.
  void addQueryGradients(const Scratch<T>& s, int64_t chunk, int64_t key, int64_t keyEnd) const {
    const int64_t end = std::min(a.seq, chunk + queryChunk), blockWords = ceilDiv(keyEnd - key, wordDepth<T>);
    const MatrixView rows = {s.scoreRows, keyBlock, 1, wordType<T>};
    for (int64_t query = chunk; query < end; query += wideCols) {
      const int64_t firstKey = firstSeen(a, query), first = std::max<int64_t>(0, roundDown(firstKey - key, wideRows));
      const int64_t depth = std::min(keyEnd, query + wideCols) - key - first;
      if (depth <= 0) continue;
      packPanel<wideCols, wordType<T>>(rows, query - chunk, end - chunk, first, depth, s.scoresTurned);
      float* dq = s.dq + query / wideCols * headRows * wideCols;
      for (int64_t row = 0; row < a.headDim; row += wideRows)
        multiplyWide<T>(ceilDiv(depth, wordDepth<T>), s.keysTurned + row * blockWords + first / wordDepth<T> * wideRows,
                        s.scoresTurned, dq + row * wideCols, key > roundDown(firstKey, keyBlock));
    }
  }

  void storePanel(const float* sums, float factor, void* base, int64_t stride, int64_t sample, int64_t head, int64_t position) const {
    vf factors[wideVectors];
    for (vf& lane : factors) lane = broadcast(factor);
    char* out = headAddress(base, a, stride, sample, head) + position * stride * (int64_t)sizeof(Storage<T>);
    storeTransposed<T>(sums, std::min<int64_t>(wideCols, a.seq - position), a.headDim, factors, out, stride);
  }

  void storeKeyGradients(const float* dk, const float* dv, int64_t sample, int64_t kvHead, int64_t key) const {
    for (int64_t panel = 0; panel < panelsPerBlock && key + panel * wideCols < a.seq; panel++) {
      storePanel(dk + panel * headRows * wideCols, a.scale, g.dk, g.dkvStride, sample, kvHead, key + panel * wideCols);
      storePanel(dv + panel * headRows * wideCols, 1, g.dv, g.dkvStride, sample, kvHead, key + panel * wideCols);
    }
  }

  void storeQueryGradient(const Scratch<T>& s, int64_t sample, int64_t head) const {
    for (int64_t query = 0; query < a.seq; query += wideCols)
      storePanel(s.dq + query / wideCols * headRows * wideCols, a.scale, g.dq, g.dqStride, sample, head, query);
  }
};

}  // namespace

size_t attentionBackwardScratch(const AttentionBackwardArgs& g, int workers) {
  int64_t bytes = 0;
  withDType(g.f.dtype, [&](auto tag) { bytes = Scratch<decltype(tag)::value>(g.f, nullptr).bytes; });
  return bytes * workers;
}

void attentionBackward(const AttentionBackwardArgs& g, Pool& pool, void* scratch) {
  if (g.f.batch == 0 || g.f.seq == 0) return;
  withDType(g.f.dtype, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    Backward<T>{g}.run(pool, (char*)scratch, Scratch<T>(g.f, nullptr).bytes);
  });
}

}  // namespace shunya::SHUNYA_ISA
