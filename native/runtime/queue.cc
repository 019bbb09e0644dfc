#include "queue.h"
#include <algorithm>
#include <chrono>
#include "spin.h"

namespace shunya {

void failOp(const std::string& code, const std::string& message, const std::string& details) {
  throw OpFailure{std::make_shared<const Failure>(Failure{code, message, details})};
}

FailurePtr deviceFailure(const std::string& message) {
  return std::make_shared<const Failure>(Failure{"DEVICE", message, "{\"message\":" + jsonText(message) + "}"});
}

std::string jsonText(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += (unsigned char)c < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

TaskList::~TaskList() {
  while (Block* block = first_) {
    first_ = block->next;
    delete block;
  }
}

void TaskList::push(Task task) {
  if (pushed_ == blockTasks) {
    last_->next = new Block;
    last_ = last_->next;
    pushed_ = 0;
  }
  last_->tasks[pushed_++] = std::move(task);
}

Task TaskList::take() {
  if (taken_ == blockTasks) {
    Block* done = first_;
    first_ = done->next;
    delete done;
    taken_ = 0;
  }
  return std::move(first_->tasks[taken_++]);
}

Queue::Queue(int threads) : workers_(threads), pool_(threads), thread_([this] { loop(); }) {}

Queue::~Queue() { stop(); }

void Queue::requestStop() {
  std::lock_guard<std::mutex> lock(mutex_);
  stopping_.store(true);
  arrived_.notify_all();
  progressed_.notify_all();
}

void Queue::stop() {
  requestStop();
  if (thread_.joinable()) thread_.join();
  std::vector<Waiting> dropped;
  std::vector<Held> held;
  FailurePtr failure;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    dropped.swap(waiting_);
    held.swap(held_);
    failure = failureAt(UINT64_MAX);
  }
  for (auto& waiting : dropped) waiting.listener(failure);
}

FailurePtr Queue::failureAt(uint64_t sequence) const {
  if (failure_ && sequence >= failedAt_.load()) return failure_;
  if (sequence <= completed()) return nullptr;
  return deviceFailure("the queue was closed after op " + std::to_string(completed()) + ", before this one was done");
}

uint64_t Queue::push(Task task) {
  tasks_.push(std::move(task));
  const uint64_t sequence = issued_.fetch_add(1) + 1;
  if (sleeping_.load()) {
    std::lock_guard<std::mutex> lock(mutex_);
    arrived_.notify_one();
  }
  return sequence;
}

uint64_t Queue::pushWait(std::shared_ptr<Queue> other, uint64_t sequence) {
  // Ops of one queue follow each other anyway, and a task that held its own queue would keep it alive.
  if (other.get() == this) return push({[](OpContext&, void*) {}});
  return push({[other, sequence](OpContext& on, void*) {
    if (FailurePtr failure = other->waitFor(sequence, on.stopping)) throw OpFailure{failure};
  }});
}

FailurePtr Queue::waitFor(uint64_t sequence, const std::atomic<bool>& callerStopping) {
  const auto done = [&] { return completed() >= sequence || stopping_.load() || callerStopping.load(); };
  if (!spin(shortSpinMicroseconds, done)) {
    interested_.fetch_add(1);
    std::unique_lock<std::mutex> lock(mutex_);
    // The caller's own stop does not notify this queue, hence the time slices.
    while (!done()) progressed_.wait_for(lock, std::chrono::milliseconds(50));
    interested_.fetch_sub(1);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  return failureAt(sequence);
}

bool Queue::listen(uint64_t sequence, Listener listener, FailurePtr* failure) {
  std::lock_guard<std::mutex> lock(mutex_);
  interested_.fetch_add(1);  // before looking: finish() looks the other way round
  if (completed() < sequence && !stopping_.load()) {
    waiting_.push_back({sequence, std::move(listener)});
    return true;
  }
  interested_.fetch_sub(1);
  *failure = failureAt(sequence);
  return false;
}

void Queue::hold(std::shared_ptr<void> kept) {
  std::lock_guard<std::mutex> lock(mutex_);
  interested_.fetch_add(1);
  if (completed() < issued()) held_.push_back({issued(), std::move(kept)});
  else interested_.fetch_sub(1);
}

bool Queue::next(Task& task) {
  const auto ready = [this] { return issued_.load() > taken_ || stopping_.load(); };
  if (!spin(shortSpinMicroseconds, ready)) {
    std::unique_lock<std::mutex> lock(mutex_);
    sleeping_.store(true);  // before looking again: push() looks the other way round
    arrived_.wait(lock, ready);
    sleeping_.store(false);
  }
  if (stopping_.load()) return false;
  task = tasks_.take();
  taken_++;
  return true;
}

FailurePtr Queue::execute(Task& task) {
  OpContext context{pool_, stopping_};
  try {
    task.run(context, task.scratch);
  } catch (const OpFailure& thrown) {
    return thrown.failure;
  } catch (const std::exception& thrown) {
    return deviceFailure(thrown.what());
  }
  return nullptr;
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
    FailurePtr failure = poisoned ? nullptr : execute(task);
    poisoned = poisoned || failure;
    task.run = nullptr;  // frees what it holds before anybody hears that it is over
    if (tracing) {
      std::lock_guard<std::mutex> lock(mutex_);
      trace_.insert(trace_.end(), {(double)sequence, start, nowMicroseconds()});
    }
    finish(sequence, std::move(failure));
  }
}

void Queue::finish(uint64_t sequence, FailurePtr failure) {
  if (failure) {
    std::lock_guard<std::mutex> lock(mutex_);
    failure_ = std::move(failure);
    failedAt_.store(sequence);
  }
  completed_.store(sequence);
  if (interested_.load() == 0) return;
  std::vector<Waiting> ready;
  std::vector<Held> released;
  FailurePtr known;
  const auto isOver = [sequence](const auto& entry) { return entry.sequence <= sequence; };
  const auto take = [&](auto& from, auto& to) {
    const auto over = std::stable_partition(from.begin(), from.end(), [&](const auto& entry) { return !isOver(entry); });
    to.assign(std::make_move_iterator(over), std::make_move_iterator(from.end()));
    from.erase(over, from.end());
  };
  {
    std::lock_guard<std::mutex> lock(mutex_);
    take(waiting_, ready);
    take(held_, released);
    known = failure_;
    progressed_.notify_all();
  }
  interested_.fetch_sub((int)(ready.size() + released.size()));
  for (auto& waiting : ready) waiting.listener(known);
}

std::vector<double> Queue::takeTrace(bool enabled) {
  std::lock_guard<std::mutex> lock(mutex_);
  tracing_.store(enabled);
  std::vector<double> taken;
  taken.swap(trace_);
  return taken;
}

}  // namespace shunya
