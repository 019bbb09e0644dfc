// Sleeping on a word that other threads, also of other processes, change.
#pragma once
#include <atomic>
#include <cstdint>

namespace shunya {

// Sleeps until the word is no longer `seen` and somebody has woken it, or about `milliseconds` are over; may return early.
void sleepOn(std::atomic<uint32_t>& word, uint32_t seen, int milliseconds);
void wakeAll(std::atomic<uint32_t>& word);

}  // namespace shunya
