// Causal attention of a few queries over many keys, as when a text is continued token by token: keys and values are read once,
// where they lie. What is added in which order is as for a strip of queries in attention.cc, so the bits are the same.
#pragma once
#include <cmath>

#include "attention.h"

namespace shunya::SHUNYA_ISA {

constexpr int64_t keyChunk = 512;    // keys between two looks at the largest score
constexpr int64_t mostHeadDim = 256;  // as ops_model.cc has it
constexpr int64_t keysAhead = 16;     // that are fetched before they are needed
constexpr int64_t fewQueries = 4;    // of so many one at a time is faster than a strip of mostly nothing

template <DType T> struct RowForward {
  const AttentionArgs& a;
  static constexpr int64_t storedPerWordBytes = wordDepth<T> * (int64_t)sizeof(Storage<T>);
  const vf scale = broadcast(a.scale * log2e);
  const int64_t headWords = ceilDiv(a.headDim, wordDepth<T>), rowBytes = a.kvStride * (int64_t)sizeof(Storage<T>);
  const int64_t headBytes = a.headDim * (int64_t)sizeof(Storage<T>);

  struct State {
    alignas(64) uint32_t query[mostHeadDim];
    alignas(64) float scores[keyChunk];           // and then probabilities
    alignas(64) uint32_t probabilities[keyChunk];  // as words of the product with the values
    alignas(64) float sums[mostHeadDim];
    float largest = -INFINITY, sum = 0;
  };

  void run(Pool& pool) const {
    pool.run(a.batch * a.heads * a.seq, [&](int64_t row, int) {
      one(row / a.seq / a.heads, row / a.seq % a.heads, row % a.seq);
    });
  }

  void one(int64_t sample, int64_t head, int64_t query) const {
    const int64_t kvHead = head / (a.heads / a.kvHeads), position = a.keys - a.seq + query, end = position + 1;
    // Words hold whole keys from an even one on, so that the first of them may be one that is not seen.
    const int64_t seen = firstSeen(a, position), first = roundDown(seen, wordDepth<T>);
    const char* keys = keyView(a.k, a, sample, kvHead).data;
    const char* values = keyView(a.v, a, sample, kvHead).data;
    State s;
    const char* q = headAddress(a.q, a, a.qStride, sample, head) + query * a.qStride * (int64_t)sizeof(Storage<T>);
    for (int64_t w = 0; w < headWords; w += VL)
      storeLanes(s.query + w, wordsAlongDepth<T>(q + w * storedPerWordBytes, a.headDim - w * wordDepth<T>), Whole{});
    for (int64_t key = first, next; key < end; key = next) {
      next = std::min(roundDown(key, keyChunk) + keyChunk, end);
      const int64_t count = next - key, hidden = std::max<int64_t>(0, seen - key);
      const float before = s.largest;
      scoreChunk(s, keys + key * rowBytes, count, hidden);
      const vf shrink = powerOfTwo<T>(broadcast(before) - broadcast(s.largest));
      if (key > first) s.sum *= shrink[0];
      exponentiate(s, count, hidden);
      mix(s, values + key * rowBytes, count, key > first ? &shrink : nullptr);
    }
    finish(s, sample, head, query);
  }

  // Of `hidden` keys (one at most) at the beginning nothing counts.
  void scoreChunk(State& s, const char* keys, int64_t count, int64_t hidden) const {
    vf largest = broadcast(s.largest);
    for (int64_t key = 0; key < count; key += VL) {
      const int filled = (int)std::min<int64_t>(VL, count - key);
      const vf score = scoresOf(s.query, keys + key * rowBytes, filled);
      storeLanes(s.scores + key, score, Whole{});
      vf scaled = score * scale;
      if (key < hidden) scaled[0] = -INFINITY;
      largest = max(largest, filled == VL ? scaled : keepLanes(scaled, -INFINITY, Part{filled}));
    }
    s.largest = maxLanes(largest);
  }

  // A head's part of a row is short, and the next row is far: more than the processor foresees by itself.
  void prefetchRow(const char* row) const {
    for (int64_t byte = 0; byte < headBytes; byte += 64) __builtin_prefetch(row + byte);
  }

  // Of VL keys, one in each lane.
  vf scoresOf(const uint32_t* query, const char* keys, int filled) const {
    for (int i = 0; i < VL; i++) prefetchRow(keys + (keysAhead + i) * rowBytes);
    vf sum = zero();
    for (int64_t w = 0; w < headWords; w += VL) {
      vu r[VL];
      SHUNYA_UNROLL
      for (int i = 0; i < VL; i++)
        r[i] = i < filled ? wordsAlongDepth<T>(keys + i * rowBytes + w * storedPerWordBytes, a.headDim - w * wordDepth<T>) : vu{};
      transpose(r);
      const int64_t words = std::min<int64_t>(VL, headWords - w);
      SHUNYA_UNROLL
      for (int i = 0; i < VL; i++)
        if (i < words) sum = multiplyAdd<wordDepth<T> == 2>(query[w + i], r[i], sum);
    }
    return sum;
  }

  void exponentiate(State& s, int64_t count, int64_t hidden) const {
    for (int64_t key = 0; key < count; key += VL) {
      const vf p = powerOfTwo<T>(fma(loadLanes<vf>(s.scores + key, Whole{}), scale, -broadcast(s.largest)));
      storeLanes(s.scores + key, p, Whole{});
    }
    for (int64_t key = 0; key < hidden; key++) s.scores[key] = 0;
    for (int64_t key = count; key < roundUp(count, wordDepth<T>); key++) s.scores[key] = 0;
    for (int64_t key = 0; key < count; key++) s.sum += s.scores[key];
    for (int64_t w = 0; w < ceilDiv(count, wordDepth<T>); w++) {
      uint32_t bits[2];
      memcpy(bits, s.scores + w * wordDepth<T>, 4 * wordDepth<T>);
      s.probabilities[w] = wordDepth<T> == 2 ? ((bits[0] + 0x8000u) >> 16) | ((bits[1] + 0x8000u) & 0xffff0000u) : bits[0];
    }
  }

  // Adds probabilities times values to sums, which are made smaller first where they were taken relative to a smaller maximum.
  void mix(State& s, const char* values, int64_t count, const vf* shrink) const {
    constexpr int group = 4;
    int64_t col = 0;
    for (; col + group * VL <= a.headDim; col += group * VL) mixColumns<group>(s, values, count, shrink, col, Whole{});
    eachVector(col, a.headDim, [&](int64_t c, auto extent) { mixColumns<1>(s, values, count, shrink, c, extent); });
  }

  template <int vectors, class Extent>
  void mixColumns(State& s, const char* values, int64_t count, const vf* shrink, int64_t col, Extent extent) const {
    vf sum[vectors];
    for (int v = 0; v < vectors; v++) sum[v] = zero();
    const char* p = values + col * (int64_t)sizeof(Storage<T>);
    for (int64_t key = 0, w = 0; key < count; key += wordDepth<T>, w++, p += wordDepth<T> * rowBytes) {
      const char* next = key + 1 < count ? p + rowBytes : nullptr;
      for (int i = 0; i < wordDepth<T>; i++) prefetchRow(p + (keysAhead + i) * rowBytes);
      SHUNYA_UNROLL
      for (int v = 0; v < vectors; v++) {
        const int64_t skip = v * VL * (int64_t)sizeof(Storage<T>);
        const vu line = wordsAlongRows<T>(p + skip, next ? next + skip : nullptr, extent);
        sum[v] = multiplyAdd<wordDepth<T> == 2>(s.probabilities[w], line, sum[v]);
      }
    }
    for (int v = 0; v < vectors; v++) {
      float* at = s.sums + col + v * VL;
      storeLanes(at, shrink ? sum[v] + loadLanes<vf>(at, Whole{}) * *shrink : sum[v], Whole{});
    }
  }

  void finish(const State& s, int64_t sample, int64_t head, int64_t query) const {
    a.lse[(sample * a.heads + head) * a.seq + query] = ln2 * s.largest + std::log(s.sum);
    const vf inverse = broadcast(1.0f) / broadcast(s.sum);
    char* out = headAddress(a.out, a, a.outStride, sample, head) + query * a.outStride * (int64_t)sizeof(Storage<T>);
    eachVector(0, a.headDim, [&](int64_t c, auto extent) {
      store<T>(out, c, loadLanes<vf>(s.sums + c, Whole{}) * inverse, extent);
    });
  }
};

}  // namespace shunya::SHUNYA_ISA
