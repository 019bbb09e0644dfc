#include "pool.h"
#include <utility>
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
  try {
    for (int64_t task; (task = next_.fetch_add(1, std::memory_order_relaxed)) < tasks_;) (*body_)(task, worker);
  } catch (...) {
    next_.store(tasks_);
    std::lock_guard<std::mutex> lock(mutex_);
    thrown_ = std::current_exception();
  }
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
    isOpen_ = true;
    next_.store(0);
    round_.fetch_add(1);
  }
  started_.notify_all();
  take(0);
  const auto done = [this] { return helping_.load(std::memory_order_acquire) == 0; };
  std::unique_lock<std::mutex> lock(mutex_);
  isOpen_ = false;
  if (!done()) {
    lock.unlock();
    const bool isDone = spin(shortSpinMicroseconds, done);
    lock.lock();
    if (!isDone) finished_.wait(lock, done);
  }
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void ThreadPool::work(int worker) {
  uint64_t seen = 0;
  for (;;) {
    const auto called = [&] { return round_.load(std::memory_order_acquire) != seen; };
    spin(shortSpinMicroseconds, called);
    {
      std::unique_lock<std::mutex> lock(mutex_);
      started_.wait(lock, called);
      seen = round_.load();
      if (stopping_) return;
      if (!isOpen_) continue;
      helping_.fetch_add(1);
    }
    take(worker);
    std::lock_guard<std::mutex> lock(mutex_);
    if (helping_.fetch_sub(1) == 1) finished_.notify_all();
  }
}

}  // namespace shunya
