// Ranks of one machine: a control region orders their calls, and every rank reads the others' memory directly.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>
#include "queue.h"
#include "regions.h"

namespace shunya {

constexpr int maxSegments = 64;
constexpr size_t maxExchangeBytes = 256 << 10;

// What a rank says when it arrives at a call. Calls must agree in everything but the offsets.
struct CallHeader {
  uint32_t op, dtype, segments;
  uint32_t tag;
  uint64_t count;
  uint64_t offsets[maxSegments];  // of each segment, in the rank's own arena
};

struct alignas(64) Slot {
  std::atomic<uint64_t> posted, done;  // the last call this rank arrived at, and finished
  CallHeader header;
};

// Channel 0 orders collectives, channel 1 exchanges: neither waits for the other.
struct alignas(64) Channel { std::atomic<uint32_t> wake; };

class Group {
 public:
  Group(int rank, int world, int control, std::vector<int> arenas, int deadlineMs);
  static size_t controlBytes(int world);
  static void abort(int control, int rank, int exitCode);

  int rank() const { return rank_; }
  int world() const { return world_; }
  int ownArena() const { return arenas_[rank_]; }
  void requestStop() { stopping_.store(true); }

  // One call: posts `own`, waits for everybody's header, checks that they agree, runs `body`, waits until everybody is done.
  void call(int channel, const CallHeader& own, const std::function<void()>& body);
  const CallHeader& headerOf(int channel, int rank) const { return slot(channel, rank).header; }
  // The address of bytes in rank q's arena, checked.
  char* peer(int q, uint64_t offset, size_t bytes) const;
  char* payload(int rank) const;

 private:
  Slot& slot(int channel, int rank) const;
  Channel& channel(int channel) const;
  template <typename Arrived> void waitForAll(int channel, const CallHeader& own, const Arrived& arrived);
  void checkAgreement(int channel, const CallHeader& own);
  void wakeAll(int channel);

  const int rank_, world_, deadlineMs_;
  char* const control_;
  const std::vector<int> arenas_;
  std::vector<RegionView> views_;
  std::mutex calling_[2];
  uint64_t calls_[2] = {0, 0};
  std::atomic<bool> stopping_{false};
};

int keepGroup(std::shared_ptr<Group> group);
std::shared_ptr<Group> groupOf(int handle);  // throws RangeFailure
void dropGroup(int handle);
void stopAllGroups();
const char* groupOpName(uint32_t op);

enum GroupOp : uint32_t { ReduceScatterOp = 0, AllGatherOp, BroadcastOp, BarrierOp, ExchangeOp };

}  // namespace shunya
