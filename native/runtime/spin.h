// A short wait before sleeping: waking a thread takes longer than most kernels of a small model.
#pragma once
#include <chrono>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace shunya {

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether `ready` became true within about `microseconds`.
template <typename Ready>
bool spin(int microseconds, const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  do {
    for (int i = 0; i < 32; i++) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

constexpr int shortSpinMicroseconds = 20;
constexpr int collectiveSpinMicroseconds = 100;

}  // namespace shunya
