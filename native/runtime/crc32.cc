// A CRC-32 is the remainder of the bytes, as a polynomial over two elements whose lowest bit of each byte comes first, divided by P.
// Where the processor multiplies such polynomials, 64 bytes at a time are folded onto the 64 after them (Gopal et al., Fast CRC
// Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel, 2009); the last 16 and what is left go through tables.
#include "crc32.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace shunya {
namespace {

constexpr uint32_t divisor = 0xedb88320;  // P without x^32; bit 31 is the coefficient of x^0

// What was a remainder, after one more bit.
constexpr uint32_t timesX(uint32_t a) { return a & 1 ? a >> 1 ^ divisor : a >> 1; }

constexpr int slices = 8;
using Tables = std::array<std::array<uint32_t, 256>, slices>;

// tables[k][b]: the remainder of byte b with k bytes of zeros after it.
constexpr Tables makeTables() {
  Tables tables{};
  for (int byte = 0; byte < 256; byte++) {
    uint32_t value = (uint32_t)byte;
    for (int k = 0; k < slices; k++) {
      for (int bit = 0; bit < 8; bit++) value = timesX(value);
      tables[k][byte] = value;
    }
  }
  return tables;
}
constexpr Tables tables = makeTables();

uint32_t byTables(const uint8_t* data, size_t bytes, uint32_t value) {
  for (; bytes >= slices; data += slices, bytes -= slices) {
    uint8_t mixed[slices];
    memcpy(mixed, data, slices);
    for (int k = 0; k < 4; k++) mixed[k] ^= (uint8_t)(value >> 8 * k);
    value = 0;
    for (int k = 0; k < slices; k++) value ^= tables[slices - 1 - k][mixed[k]];
  }
  for (; bytes > 0; data++, bytes--) value = value >> 8 ^ tables[0][(value ^ *data) & 255];
  return value;
}

#if defined(__x86_64__)

// x^n mod P, shifted by the one bit that a product of reflected polynomials lacks.
constexpr long long power(int n) {
  uint32_t value = 0x80000000;
  for (int i = 0; i < n; i++) value = timesX(value);
  return (long long)value << 1;
}

// `from`, `distance` bits further on, added to `to`. The halves of `from` are 64 bits apart, and factors have 32 bits.
#define SHUNYA_CLMUL __attribute__((target("pclmul,sse4.1")))
SHUNYA_CLMUL inline __m128i folded(__m128i from, __m128i to, __m128i by) {
  const __m128i low = _mm_clmulepi64_si128(from, by, 0x00), high = _mm_clmulepi64_si128(from, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), to);
}
template <int distanceBits> __m128i factors() {
  constexpr long long high = power(distanceBits - 32), low = power(distanceBits + 32);
  return _mm_set_epi64x(high, low);
}

constexpr size_t laneBytes = 16, lanes = 4, strideBytes = lanes * laneBytes;

SHUNYA_CLMUL inline __m128i load(const uint8_t* data) { return _mm_loadu_si128((const __m128i*)data); }

// @param bytes at least strideBytes
SHUNYA_CLMUL uint32_t byProducts(const uint8_t* data, size_t bytes, uint32_t value) {
  const __m128i stride = factors<8 * strideBytes>(), lane = factors<8 * laneBytes>();
  __m128i sums[lanes];
  for (size_t i = 0; i < lanes; i++) sums[i] = load(data + i * laneBytes);
  sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128((int)value));
  for (data += strideBytes, bytes -= strideBytes; bytes >= strideBytes; data += strideBytes, bytes -= strideBytes)
    for (size_t i = 0; i < lanes; i++) sums[i] = folded(sums[i], load(data + i * laneBytes), stride);
  __m128i sum = sums[0];
  for (size_t i = 1; i < lanes; i++) sum = folded(sum, sums[i], lane);
  for (; bytes >= laneBytes; data += laneBytes, bytes -= laneBytes) sum = folded(sum, load(data), lane);
  uint8_t last[laneBytes];
  memcpy(last, &sum, laneBytes);
  return byTables(data, bytes, byTables(last, laneBytes, 0));
}

bool hasProducts() {
  static const bool found = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return found;
}

#endif

}  // namespace

uint32_t crc32(const uint8_t* data, size_t bytes, uint32_t value) {
#if defined(__x86_64__)
  if (bytes >= strideBytes && hasProducts()) return ~byProducts(data, bytes, ~value);
#endif
  return ~byTables(data, bytes, ~value);
}

}  // namespace shunya
