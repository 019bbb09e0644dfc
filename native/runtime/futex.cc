#include "futex.h"
#include <climits>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#else
#include <chrono>
#include <thread>
#endif

namespace shunya {

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free, "words are shared between processes");

#if defined(__linux__)
void sleepOn(std::atomic<uint32_t>& word, uint32_t seen, int milliseconds) {
  const timespec limit = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  syscall(SYS_futex, (uint32_t*)&word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}
void wakeAll(std::atomic<uint32_t>& word) { syscall(SYS_futex, (uint32_t*)&word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }
#else
// Without a futex that processes share: short naps.
void sleepOn(std::atomic<uint32_t>& word, uint32_t seen, int) {
  if (word.load() == seen) std::this_thread::sleep_for(std::chrono::microseconds(100));
}
void wakeAll(std::atomic<uint32_t>&) {}
#endif

}  // namespace shunya
