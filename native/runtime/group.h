// Ranks of one machine: a control region orders their calls, and every rank reads the others' memory directly.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>
#include "queue.h"
#include "regions.h"

namespace shunya {

constexpr int maxSegments = 512;
constexpr size_t maxExchangeBytes = 256 << 10;

enum GroupOp : uint32_t { ReduceScatterOp = 0, AllGatherOp, BroadcastOp, BarrierOp, ExchangeOp };

// What a rank says when it arrives at a call. Calls must agree in all of it.
struct CallHeader {
  uint32_t op = 0, dtype = 0;
  uint64_t tag = 0, count = 0;  // an exchange's counts are its payloads' bytes and may differ
  uint64_t shape = 0;           // of the segments: their number and sizes, hashed
};

// One rank's place in a channel. Its first lines are written at every call, the offsets only as far as they are used.
struct alignas(64) Slot {
  std::atomic<uint64_t> posted, done;  // the last call this rank arrived at, and finished
  std::atomic<uint32_t> left;          // its process ended without an error: it will arrive nowhere any more (channel 0 only)
  CallHeader header;
  uint64_t offsets[maxSegments];       // of each segment, in the rank's own arena
};

// Collectives, exchanges, and exchanges of work that runs aside of a program's own calls (saving a checkpoint): each is ordered by
// itself, and none waits for another.
enum GroupChannel { collectives = 0, exchanges = 1, asides = 2 };
constexpr int groupChannels = 3;
struct alignas(64) Channel { std::atomic<uint32_t> bell, sleepers; };

class Group {
 public:
  Group(int rank, int world, RegionPtr control, int ownArena, std::vector<RegionPtr> arenas, int deadlineMs);
  static size_t controlBytes(int world);
  static void abort(const Region& control, int rank, int exitCode);

  int rank() const { return rank_; }
  int world() const { return world_; }
  int ownArena() const { return ownArena_; }
  // Ends every wait of this process in the group, now and later.
  void requestStop();

  // One call: posts `own`, waits for everybody's header, checks that they agree, runs `body`, waits until everybody is done.
  // A channel that failed once fails for good: its ranks may no longer be at the same call.
  void call(GroupChannel channel, const CallHeader& own, const std::vector<uint64_t>& offsets, const std::atomic<bool>& stopping,
            const std::function<void()>& body);
  uint64_t offsetOf(int q, size_t segment) const { return slot(collectives, q).offsets[segment]; }
  // The address of bytes in rank q's arena, checked.
  char* peer(int q, uint64_t offset, size_t bytes) const;

  // Every rank's payload, in rank order. The channel is that of exchanges or of asides.
  std::vector<std::string> exchange(GroupChannel channel, uint64_t tag, const std::string& own, const std::atomic<bool>& stopping);
  // The thread that exchanges of a channel run on.
  Queue& exchangeQueue(GroupChannel channel) { return channel == asides ? asideQueue_ : exchangeQueue_; }
  // Ends those threads.
  void stopExchanges();

 private:
  Slot& slot(int channel, int rank) const;
  Channel& channel(int channel) const;
  char* payload(GroupChannel channel, int rank) const;
  void run(GroupChannel channel, const CallHeader& own, const std::vector<uint64_t>& offsets, const std::atomic<bool>& stopping,
           const std::function<void()>& body);
  // Says that this rank has come to call `number` (or is done with it), and waits until every rank has.
  using Counter = std::atomic<uint64_t> Slot::*;
  void arrive(int channel, Counter counter, uint64_t number, const CallHeader& own, const std::atomic<bool>& stopping);
  void checkEnded(const CallHeader& own, const std::atomic<bool>& stopping) const;
  [[noreturn]] void failEnded(const CallHeader& own, int rank, int exitCode) const;
  [[noreturn]] void failTimeout(const CallHeader& own, int64_t waitedMs, const std::string& missing) const;
  void checkAgreement(int channel, const CallHeader& own) const;

  const int rank_, world_, ownArena_, deadlineMs_;
  const RegionPtr control_;
  const std::vector<RegionPtr> arenas_;
  std::mutex calling_[groupChannels];
  uint64_t calls_[groupChannels];
  FailurePtr failed_[groupChannels];
  std::atomic<bool> stopping_{false};
  Queue exchangeQueue_{1}, asideQueue_{1};  // last: their threads use all of the above
};

}  // namespace shunya
