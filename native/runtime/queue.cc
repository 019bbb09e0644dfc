#include "queue.h"
#include <chrono>
#include "spin.h"

namespace shunya {

void failOp(const std::string& code, const std::string& message, const std::string& details) {
  throw OpFailure{std::make_shared<const Failure>(Failure{code, message, details})};
}

std::string jsonText(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += (unsigned char)c < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

Queue::Queue(int threads) : workers_(threads), pool_(threads), thread_([this] { loop(); }) {}

Queue::~Queue() {
  requestStop();
  if (thread_.joinable()) thread_.join();
}

void Queue::requestStop() {
  std::lock_guard<std::mutex> lock(mutex_);
  stopping_.store(true);
  arrived_.notify_all();
  progressed_.notify_all();
}

uint64_t Queue::push(Task task) {
  std::lock_guard<std::mutex> lock(mutex_);
  tasks_.push_back(std::move(task));
  const uint64_t sequence = issued_.fetch_add(1) + 1;
  arrived_.notify_one();
  return sequence;
}

uint64_t Queue::pushWait(std::shared_ptr<Queue> other, uint64_t sequence) {
  return push([this, other, sequence](Pool&) {
    if (FailurePtr failure = other->waitFor(sequence, stopping_)) throw OpFailure{failure};
  });
}

FailurePtr Queue::waitFor(uint64_t sequence, const std::atomic<bool>& callerStopping) {
  const auto done = [&] { return completed() >= sequence || stopping_.load() || callerStopping.load(); };
  if (!spin(shortSpinMicroseconds, done)) {
    sleepers_.fetch_add(1);
    std::unique_lock<std::mutex> lock(mutex_);
    // The caller's own stop does not notify this queue, hence the time slices.
    while (!done()) progressed_.wait_for(lock, std::chrono::milliseconds(50));
    sleepers_.fetch_sub(1);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void Queue::listen(uint64_t sequence, Listener listener) {
  FailurePtr failure;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);  // before looking: finish() looks the other way round
    if (completed() < sequence && !stopping_.load()) {
      waiting_.push_back({sequence, std::move(listener)});
      return;
    }
    sleepers_.fetch_sub(1);
    failure = failure_;
  }
  listener(failure);
}

bool Queue::next(Task& task) {
  const auto ready = [this] { return issued_.load(std::memory_order_acquire) > completed() || stopping_.load(); };
  spin(shortSpinMicroseconds, ready);
  std::unique_lock<std::mutex> lock(mutex_);
  arrived_.wait(lock, [this] { return !tasks_.empty() || stopping_.load(); });
  if (stopping_.load()) return false;
  task = std::move(tasks_.front());
  tasks_.pop_front();
  return true;
}

static double nowMicroseconds() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Queue::loop() {
  Task task;
  bool poisoned = false;
  for (uint64_t sequence = 1; next(task); sequence++) {
    const bool tracing = tracing_.load(std::memory_order_relaxed);
    const double start = tracing ? nowMicroseconds() : 0;
    FailurePtr failure;
    if (!poisoned) {
      try {
        task(pool_);
      } catch (const OpFailure& thrown) {
        failure = thrown.failure;
      } catch (const std::exception& thrown) {
        const std::string details = "{\"message\":" + jsonText(thrown.what()) + "}";
        failure = std::make_shared<const Failure>(Failure{"DEVICE", thrown.what(), details});
      }
      poisoned = failure != nullptr;
    }
    task = nullptr;  // frees what it holds before anybody hears that it is over
    if (tracing) {
      std::lock_guard<std::mutex> lock(mutex_);
      trace_.insert(trace_.end(), {(double)sequence, start, nowMicroseconds()});
    }
    finish(sequence, failure);
  }
}

void Queue::finish(uint64_t sequence, FailurePtr failure) {
  if (failure) {
    std::lock_guard<std::mutex> lock(mutex_);
    failure_ = failure;
  }
  completed_.store(sequence);
  if (sleepers_.load() == 0) return;
  std::vector<Waiting> ready;
  FailurePtr known;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    known = failure_;
    for (size_t i = 0; i < waiting_.size();) {
      if (waiting_[i].sequence > sequence) { i++; continue; }
      ready.push_back(std::move(waiting_[i]));
      waiting_[i] = std::move(waiting_.back());
      waiting_.pop_back();
    }
    progressed_.notify_all();
  }
  sleepers_.fetch_sub((int)ready.size());
  for (auto& waiting : ready) waiting.listener(known);
}

std::vector<double> Queue::takeTrace(bool enabled) {
  std::lock_guard<std::mutex> lock(mutex_);
  tracing_.store(enabled);
  return std::move(trace_);
}

}  // namespace shunya
