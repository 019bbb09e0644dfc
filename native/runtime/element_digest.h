// The digest of a tensor's values that may be made in parts: the sum, modulo 2^64, of a hash of each element's number and bits. So parts
// add up however elements are divided and in whatever order they come. Checkpoints hold it: docs/checkpoints.md says what it is.
#pragma once
#include <cstddef>
#include <cstdint>

namespace shunya {

// Of fp32 values as bits; `first` is the number of the first one. Each step of the hash can be undone, so a change of one element always
// changes the sum; any other change does but for one in 2^64.
inline uint64_t elementDigest(const uint32_t* bits, size_t count, uint64_t first) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t x = ((first + i) << 32 | bits[i]) + 0x9e3779b97f4a7c15;  // from here on splitmix64's
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    sum += x ^ x >> 31;
  }
  return sum;
}

}  // namespace shunya
