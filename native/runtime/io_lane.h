// Threads that wait for a drive: one lane reads and one writes, so that neither stands behind the other. They sleep in the
// system while a request is under way, so their number is the number of requests in flight, not of cores.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace shunya {

class IoLane {
 public:
  explicit IoLane(int threads);
  ~IoLane();
  IoLane(const IoLane&) = delete;
  IoLane& operator=(const IoLane&) = delete;

  // Runs body(0) ... body(count - 1) on the lane's threads and returns when all that were begun are over, with the first
  // exception if any threw. After an exception, or once `stopping` is set, none is begun any more. Any number of callers.
  void run(int64_t count, const std::atomic<bool>& stopping, const std::function<void(int64_t)>& body);

 private:
  struct Call {
    int64_t count, next = 0, underWay = 0;
    const std::atomic<bool>& stopping;
    const std::function<void(int64_t)>& body;
    std::exception_ptr thrown;
    bool isExhausted() const { return next >= count || thrown || stopping.load(); }
  };
  void work();
  Call* firstWithWork();  // with mutex_ held

  std::mutex mutex_;
  std::condition_variable arrived_, finished_;
  std::deque<Call*> calls_;  // guarded by mutex_, as is what they point to
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace shunya
