#include "io_lane.h"
#include <algorithm>
#include <chrono>

namespace shunya {

IoLane::IoLane(int threads) {
  for (int i = 0; i < threads; i++) threads_.emplace_back([this] { work(); });
}

IoLane::~IoLane() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  arrived_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void IoLane::run(int64_t count, const std::atomic<bool>& stopping, const std::function<void(int64_t)>& body) {
  Call call{count, 0, 0, stopping, body, nullptr};
  std::unique_lock<std::mutex> lock(mutex_);
  calls_.push_back(&call);
  for (int64_t i = std::min<int64_t>(count, (int64_t)threads_.size()); i > 0; i--) arrived_.notify_one();
  // A stop notifies nobody here, hence the time slices.
  while (call.underWay > 0 || !call.isExhausted()) finished_.wait_for(lock, std::chrono::milliseconds(50));
  calls_.erase(std::find(calls_.begin(), calls_.end(), &call));
  if (call.thrown) std::rethrow_exception(call.thrown);
}

IoLane::Call* IoLane::firstWithWork() {
  for (Call* call : calls_)
    if (!call->isExhausted()) return call;
  return nullptr;
}

void IoLane::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    Call* call = nullptr;
    arrived_.wait(lock, [&] { return closing_ || (call = firstWithWork()) != nullptr; });
    if (!call) return;
    const int64_t piece = call->next++;
    call->underWay++;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      call->body(piece);
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    if (thrown && !call->thrown) call->thrown = thrown;
    if (--call->underWay == 0 && call->isExhausted()) finished_.notify_all();
  }
}

}  // namespace shunya
