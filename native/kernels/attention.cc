// Causal attention, forward. A strip of `wideCols` queries lies across the lanes; the keys before it are taken in chunks of 512 (the
// scores of a strip are 96 KiB), which fit the second-level cache, with the running maximum and sum of Milakov and Gimelshein
// ("Online normalizer calculation for softmax", 2018), so that memory grows with seq and not with its square. In a window a strip
// begins at the first key that one of its queries sees; chunks end where they do without, so that a query's bits are the same in
// any strip: a key that it does not see adds zero.
#include <cmath>

#include "attention_row.h"
#include "declarations.h"

namespace shunya::SHUNYA_ISA {
namespace {

// Keys before it are seen by no query.
int64_t firstPacked(const AttentionArgs& a) { return roundDown(firstSeen(a, a.keys - a.seq), wideRows); }

// One worker's scratch. Keys and values are those from the first packed one on, of which there is room for as many as can be: so the
// last of several passes over a text takes the most.
template <DType T> struct Scratch {
  uint32_t *keys, *values, *queries, *probabilities;
  float *scores, *sums, *factors, *factorRows;
  int64_t bytes;

  Scratch(const AttentionArgs& a, void* base) {
    Carver carve(base);
    const int64_t headWords = ceilDiv(a.headDim, wordDepth<T>);
    const int64_t most = std::min(a.keys, a.seq + a.window - 1 + wideRows - 1);
    keys = carve.take<uint32_t>(roundUp(most, wideRows) * headWords);
    values = carve.take<uint32_t>(roundUp(a.headDim, wideRows) * ceilDiv(most, wordDepth<T>));
    queries = carve.take<uint32_t>(headWords * wideCols);
    scores = carve.take<float>(keyChunk * wideCols);
    probabilities = (uint32_t*)scores;  // written over scores that have been read
    sums = carve.take<float>(roundUp(a.headDim, wideRows) * wideCols);
    factors = carve.take<float>(a.dropProbability > 0 ? keyChunk * wideCols : 0);
    factorRows = carve.take<float>(a.dropProbability > 0 ? keyChunk * VL : 0);
    bytes = carve.bytes();
  }
};

// Per query: the largest scaled score so far, in units of ln 2, and the sum of probabilities relative to it.
struct RunningSoftmax { vf largest[wideVectors], sum[wideVectors]; };

template <DType T> struct Forward {
  const AttentionArgs& a;
  const int64_t packed = firstPacked(a);
  const int64_t headWords = ceilDiv(a.headDim, wordDepth<T>), keyWords = ceilDiv(a.keys - packed, wordDepth<T>);
  const vf scale = broadcast(a.scale * log2e);
  const int64_t strips = ceilDiv(a.seq, wideCols), group = a.heads / a.kvHeads;
  const int64_t earlier = a.keys - a.seq;  // keys before the first query's own

  // Strips of one key head are dealt to `parts` tasks in turn; each packs keys and values anew, which costs little.
  int64_t partsFor(int workers) const {
    const int64_t units = a.batch * a.kvHeads, wanted = 4 * (int64_t)workers;
    if (workers == 1 || units >= wanted) return 1;
    return std::min(strips * group, ceilDiv(wanted, units));
  }

  void run(Pool& pool, char* scratch, int64_t scratchStride) const {
    const int64_t parts = partsFor(pool.workers());
    pool.run(a.batch * a.kvHeads * parts, [&](int64_t task, int worker) {
      const Scratch<T> s(a, scratch + worker * scratchStride);
      const int64_t unit = task / parts, sample = unit / a.kvHeads, kvHead = unit % a.kvHeads;
      packPanels<wideRows, T>(keyView(a.k, a, sample, kvHead).byPosition(), packed, a.keys, 0, a.headDim, s.keys);
      packPanels<wideRows, T>(keyView(a.v, a, sample, kvHead).transposed(), 0, a.headDim, packed, a.keys - packed, s.values);
      for (int64_t item = task % parts; item < strips * group; item += parts)
        strip(s, sample, kvHead * group + item / strips, item % strips * wideCols);
    });
  }

  void strip(const Scratch<T>& s, int64_t sample, int64_t head, int64_t query) const {
    const int64_t queries = std::min<int64_t>(a.seq - query, wideCols), position = earlier + query, keyEnd = position + queries;
    packPanel<wideCols, T>(headView(a.q, a, a.qStride, sample, head).byPosition(), query, a.seq, 0, a.headDim, s.queries);
    RunningSoftmax run;
    for (int v = 0; v < wideVectors; v++) { run.largest[v] = broadcast(-INFINITY); run.sum[v] = zero(); }
    const int64_t first = roundDown(firstSeen(a, position), wideRows);
    for (int64_t key = first, next; key < keyEnd; key = next) {
      next = std::min(roundDown(key, keyChunk) + keyChunk, keyEnd);
      const int64_t keys = next - key, words = ceilDiv(keys, wordDepth<T>);
      const RunningSoftmax before = run;
      scoreChunk(s, position, key, keys, run);
      if (key > first) rescale(s, before, run);
      if (a.dropProbability > 0) drawFactors(s, sample, head, query, key, keys);
      if (a.dropProbability > 0) exponentiate<true>(s, position, key, words, run);
      else exponentiate<false>(s, position, key, words, run);
      for (int64_t row = 0; row < a.headDim; row += wideRows)
        multiplyWide<T>(words, s.values + row * keyWords + (key - packed) / wordDepth<T> * wideRows, s.probabilities,
                        s.sums + row * wideCols, key > first);
    }
    finish(s, sample, head, query, queries, run);
  }

  // The last `window` keys up to a lane's own position are seen; `behind` is how far a key lies behind the strip's first query.
  vf seen(vf x, int64_t behind, int v, vf otherwise) const {
    const vi lanes = laneNumbers() + v * VL;
    return (lanes >= (int32_t)behind) & (lanes < (int32_t)(behind + a.window)) ? x : otherwise;
  }
  // Whether there is a lane that does not see one of `keys` keys, of which the first lies so far behind.
  bool isEdge(int64_t behind, int64_t keys) const { return behind + keys > 1 || behind + a.window < wideCols; }

  // Scores of keys [key, key + keys) and their maximum, in units of ln 2 after scaling.
  void scoreChunk(const Scratch<T>& s, int64_t position, int64_t key, int64_t keys, RunningSoftmax& run) const {
    for (int64_t row = 0; row < keys; row += wideRows) {
      float* tile = s.scores + row * wideCols;
      multiplyWide<T>(headWords, s.keys + (key - packed + row) * headWords, s.queries, tile, false);
      const int64_t behind = key + row - position;
      const bool edge = isEdge(behind, wideRows);
      SHUNYA_UNROLL
      for (int y = 0; y < wideRows; y++) {
        SHUNYA_UNROLL
        for (int v = 0; v < wideVectors; v++) {
          vf score = loadLanes<vf>(tile + y * wideCols + v * VL, Whole{}) * scale;
          if (edge) score = seen(score, behind + y, v, run.largest[v]);
          run.largest[v] = max(run.largest[v], score);
        }
      }
    }
  }

  // Earlier sums were taken relative to a smaller maximum.
  void rescale(const Scratch<T>& s, const RunningSoftmax& before, RunningSoftmax& run) const {
    for (int v = 0; v < wideVectors; v++) {
      const vf shrink = powerOfTwo<T>(before.largest[v] - run.largest[v]);
      run.sum[v] *= shrink;
      for (int64_t row = 0; row < a.headDim; row++) {
        float* p = s.sums + row * wideCols + v * VL;
        storeLanes(p, loadLanes<vf>(p, Whole{}) * shrink, Whole{});
      }
    }
  }

  // Scores become probabilities (not yet divided by their sum), in place, as words of the product with the values. The
  // sum is that of all of them: dropout acts on probabilities that are already normalised.
  template <bool drop>
  void exponentiate(const Scratch<T>& s, int64_t position, int64_t key, int64_t words, RunningSoftmax& run) const {
    constexpr int depth = wordDepth<T>;
    for (int64_t w = 0; w < words; w++) {
      const int64_t behind = key + w * depth - position;
      const bool edge = isEdge(behind, depth);
      SHUNYA_UNROLL
      for (int v = 0; v < wideVectors; v++) {
        vf probability[depth];
        for (int r = 0; r < depth; r++) {
          const int64_t at = (w * depth + r) * wideCols + v * VL;
          vf p = powerOfTwo<T>(fma(loadLanes<vf>(s.scores + at, Whole{}), scale, -run.largest[v]));
          if (edge) p = seen(p, behind + r, v, zero());
          run.sum[v] += p;
          probability[r] = drop ? p * loadLanes<vf>(s.factors + at, Whole{}) : p;
        }
        storeLanes(s.probabilities + w * wideCols + v * VL, wordsOf(probability), Whole{});
      }
    }
  }

  // Factors of the chunk as [key][query]: drawn along the keys, where random words are consecutive, then turned.
  void drawFactors(const Scratch<T>& s, int64_t sample, int64_t head, int64_t query, int64_t key, int64_t keys) const {
    for (int v = 0; v < wideVectors; v++) {
      for (int l = 0; l < VL; l++)
        dropFactors(a, sample, head, query + v * VL + l, key, keys, s.factorRows + l * keyChunk);
      for (int64_t row = 0; row < keys; row += VL) {
        vu block[VL];
        for (int l = 0; l < VL; l++) block[l] = loadLanes<vu>(s.factorRows + l * keyChunk + row, Whole{});
        transpose(block);
        for (int y = 0; y < VL; y++) storeLanes(s.factors + (row + y) * wideCols + v * VL, block[y], Whole{});
      }
    }
  }

  void finish(const Scratch<T>& s, int64_t sample, int64_t head, int64_t query, int64_t queries, const RunningSoftmax& run) const {
    float* lse = a.lse + (sample * a.heads + head) * a.seq + query;
    vf inverse[wideVectors];
    for (int v = 0; v < wideVectors; v++) {
      inverse[v] = broadcast(1.0f) / run.sum[v];
      for (int l = 0; l < VL && v * VL + l < queries; l++) lse[v * VL + l] = ln2 * run.largest[v][l] + std::log(run.sum[v][l]);
    }
    char* out = headAddress(a.out, a, a.outStride, sample, head) + query * a.outStride * (int64_t)sizeof(Storage<T>);
    storeTransposed<T>(s.sums, queries, a.headDim, inverse, out, a.outStride);
  }
};

}  // namespace

static bool isByRow(const AttentionArgs& a) { return a.seq <= fewQueries && a.dropProbability == 0; }

size_t attentionScratch(const AttentionArgs& a, int workers) {
  if (isByRow(a)) return 0;
  int64_t bytes = 0;
  withDType(a.dtype, [&](auto tag) { bytes = Scratch<decltype(tag)::value>(a, nullptr).bytes; });
  return bytes * workers;
}

void attention(const AttentionArgs& a, Pool& pool, void* scratch) {
  if (a.batch == 0 || a.seq == 0) return;
  withDType(a.dtype, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    if (isByRow(a)) return RowForward<T>{a}.run(pool);
    Forward<T>{a}.run(pool, (char*)scratch, Scratch<T>(a, nullptr).bytes);
  });
}

}  // namespace shunya::SHUNYA_ISA
