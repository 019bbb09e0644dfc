// A queue runs its ops in order on a thread of its own. An op that fails poisons the queue: later ops are skipped (their
// numbers still advance), and whoever waits for one of them gets the failure.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include "pool.h"

namespace shunya {

// What `reached` and `exchange` reject with. `details` is JSON.
struct Failure { std::string code, message, details; };
using FailurePtr = std::shared_ptr<const Failure>;

// Thrown by an op while it runs.
struct OpFailure { FailurePtr failure; };
[[noreturn]] void failOp(const std::string& code, const std::string& message, const std::string& details);
FailurePtr deviceFailure(const std::string& message);
std::string jsonText(const std::string& text);  // quoted and escaped

// What an op has while it runs: its queue's workers, and whether that queue is being taken down (long waits look at it).
struct OpContext { Pool& pool; const std::atomic<bool>& stopping; };
struct Task {
  std::function<void(OpContext&, void* scratch)> run;
  void* scratch = nullptr;
};
// Called once with null or the failure, from any thread.
using Listener = std::function<void(FailurePtr)>;

// Tasks in order, from one thread that pushes to one that takes, without locks: whoever counts them says what is there.
class TaskList {
 public:
  TaskList() : first_(new Block), last_(first_) {}
  ~TaskList();
  TaskList(const TaskList&) = delete;
  TaskList& operator=(const TaskList&) = delete;
  void push(Task task);
  Task take();

 private:
  static constexpr int blockTasks = 64;
  struct Block { Task tasks[blockTasks]; Block* next = nullptr; };
  Block* first_;  // the taker's
  int taken_ = 0;
  Block* last_;   // the pusher's
  int pushed_ = 0;
};

class Queue {
 public:
  explicit Queue(int threads);
  ~Queue();
  int workers() const { return workers_; }
  // These two on the JavaScript thread only.
  uint64_t push(Task task);
  uint64_t pushWait(std::shared_ptr<Queue> other, uint64_t sequence);
  uint64_t issued() const { return issued_.load(std::memory_order_relaxed); }
  uint64_t completed() const { return completed_.load(); }
  // True where `sequence` is completed and no op up to it failed; takes no lock.
  bool succeeded(uint64_t sequence) const { return completed() >= sequence && sequence < failedAt_.load(); }
  // False where it is decided already: then `failure` holds the answer and the listener will not be called.
  bool listen(uint64_t sequence, Listener listener, FailurePtr* failure);
  // Keeps something alive until every op issued so far is over.
  void hold(std::shared_ptr<void> kept);
  void requestStop();
  // Finishes the running op, drops the others and tells everybody who waits for them.
  void stop();
  std::vector<double> takeTrace(bool enabled);

 private:
  struct Waiting { uint64_t sequence; Listener listener; };
  struct Held { uint64_t sequence; std::shared_ptr<void> kept; };

  void loop();
  bool next(Task& task);
  FailurePtr execute(Task& task);
  void finish(uint64_t sequence, FailurePtr failure);
  FailurePtr waitFor(uint64_t sequence, const std::atomic<bool>& callerStopping);
  FailurePtr failureAt(uint64_t sequence) const;  // with mutex_ held

  const int workers_;
  ThreadPool pool_;
  std::mutex mutex_;
  std::condition_variable arrived_, progressed_;
  TaskList tasks_;
  uint64_t taken_ = 0;              // the queue's own thread's
  std::atomic<bool> sleeping_{false};
  std::vector<Waiting> waiting_;
  std::vector<Held> held_;
  std::atomic<uint64_t> issued_{0}, completed_{0};
  std::atomic<int> interested_{0};  // threads, listeners and held things that want to be told of progress
  std::atomic<bool> stopping_{false};
  FailurePtr failure_;              // guarded by mutex_
  std::atomic<uint64_t> failedAt_{UINT64_MAX};
  std::atomic<bool> tracing_{false};
  std::vector<double> trace_;       // guarded by mutex_
  std::thread thread_;              // last: it uses all of the above
};

}  // namespace shunya
