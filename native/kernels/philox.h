// Counter-based random numbers (Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11).
// A value depends on (key, element index) alone, so it is the same for every rank, shard, thread count and recomputation.
// static: one copy per object file, as an object built for AVX-512 must not lend its copy to the others.
#pragma once
#include <cstdint>

namespace shunya {

struct Philox4 { uint32_t x[4]; };

static inline Philox4 philox(uint64_t key, uint64_t counter) {
  uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
    const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[1] = (uint32_t)p1; c[3] = (uint32_t)p0; c[0] = n0; c[2] = n2;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

// Element i uses word (i & 3) of the draw at counter i >> 2.
static inline uint32_t philoxWord(uint64_t key, uint64_t index) { return philox(key, index >> 2).x[index & 3]; }

// An element is dropped when its word is below probability * 2^32.
static inline uint32_t dropoutThreshold(float probability) {
  const double t = (double)probability * 4294967296.0;
  return t >= 4294967295.0 ? 4294967295u : (uint32_t)t;
}

}  // namespace shunya
