// A short wait before sleeping: waking a thread takes longer than most kernels of a small model.
#pragma once
#include <chrono>
#include <thread>
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

// Whether `ready` became true within about `microseconds`. Where threads outnumber cores, the one that it waits for may need
// this very core, so it is offered again and again.
template <typename Ready>
bool spin(int microseconds, const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  for (int round = 0;; round++) {
    for (int i = 0; i < 32; i++) {
      if (ready()) return true;
      relax();
    }
    if (std::chrono::steady_clock::now() >= end) return false;
    if (round >= 4) std::this_thread::yield();
  }
}

constexpr int shortSpinMicroseconds = 20;
constexpr int collectiveSpinMicroseconds = 100;

}  // namespace shunya
