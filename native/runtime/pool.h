// The threads that kernels of one queue share.
#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>
#include "../kernels/kernels.h"

namespace shunya {

class ThreadPool final : public Pool {
 public:
  explicit ThreadPool(int workers);  // the calling thread is one of them
  ~ThreadPool() override;
  int workers() const override { return (int)threads_.size() + 1; }
  void run(int64_t tasks, const std::function<void(int64_t task, int worker)>& body) override;

 private:
  void work(int worker);
  void take(int worker);

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable started_, finished_;
  std::atomic<int64_t> next_{0};
  std::atomic<uint64_t> round_{0};
  std::atomic<int> helping_{0};  // workers that joined this round: one that wakes too late is not waited for
  bool isOpen_ = false;          // these four are guarded by mutex_ while nobody works
  bool stopping_ = false;
  int64_t tasks_ = 0;
  const std::function<void(int64_t, int)>* body_ = nullptr;
  std::exception_ptr thrown_;
};

}  // namespace shunya
