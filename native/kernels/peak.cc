// The fastest this processor can multiply and add, measured in registers alone: what the speed of a product is held against.
#include <algorithm>
#include <chrono>

#include "declarations.h"
#include "matmul.h"

// A vector register, to the compiler: keeps it from folding the loop below into one multiplication.
#if defined(__x86_64__)
#define SHUNYA_REGISTER "+v"
#else
#define SHUNYA_REGISTER "+w"
#endif

namespace shunya::SHUNYA_ISA {
namespace {

// Sixteen independent sums hide the latency of a multiply-add without spilling.
constexpr int chains = VL == 16 ? 16 : 10;
constexpr int64_t rounds = 400000;

template <bool pairs> double operationsPerSecond() {
  vf sums[chains];
  SHUNYA_UNROLL
  for (int c = 0; c < chains; c++) sums[c] = zero();
  const vu line = broadcastBits(0x3c003c00u);
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t r = 0; r < rounds; r++) {
    SHUNYA_UNROLL
    for (int c = 0; c < chains; c++) sums[c] = multiplyAdd<pairs>(0x3c003c00u, line, sums[c]);
    SHUNYA_UNROLL
    for (int c = 0; c < chains; c++) __asm__ volatile("" : SHUNYA_REGISTER(sums[c]));
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return (double)rounds * chains * VL * 2 * (pairs ? 2 : 1) / elapsed.count();
}

}  // namespace

double measurePeak(DType type) {
  double best = 0;
  for (int attempt = 0; attempt < 5; attempt++)
    best = std::max(best, hasPairs && type == DType::BF16 ? operationsPerSecond<hasPairs>() : operationsPerSecond<false>());
  return best;
}

}  // namespace shunya::SHUNYA_ISA
