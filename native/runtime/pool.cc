#include "pool.h"
#include "spin.h"

namespace shunya {

ThreadPool::ThreadPool(int workers) {
  for (int i = 1; i < workers; i++) threads_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    round_.fetch_add(1);
  }
  started_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::take(int worker) {
  for (int64_t task; (task = next_.fetch_add(1, std::memory_order_relaxed)) < tasks_;) (*body_)(task, worker);
}

void ThreadPool::run(int64_t tasks, const std::function<void(int64_t, int)>& body) {
  if (threads_.empty() || tasks <= 1) {
    for (int64_t task = 0; task < tasks; task++) body(task, 0);
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    tasks_ = tasks;
    body_ = &body;
    next_.store(0);
    busy_.store((int)threads_.size());
    round_.fetch_add(1);
  }
  started_.notify_all();
  take(0);
  const auto done = [this] { return busy_.load(std::memory_order_acquire) == 0; };
  if (spin(shortSpinMicroseconds, done)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  finished_.wait(lock, done);
}

void ThreadPool::work(int worker) {
  uint64_t seen = 0;
  for (;;) {
    const auto called = [&] { return round_.load(std::memory_order_acquire) != seen; };
    if (!spin(shortSpinMicroseconds, called)) {
      std::unique_lock<std::mutex> lock(mutex_);
      started_.wait(lock, called);
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      seen = round_.load();
      if (stopping_) return;
    }
    take(worker);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::lock_guard<std::mutex> lock(mutex_);
      finished_.notify_all();
    }
  }
}

}  // namespace shunya
