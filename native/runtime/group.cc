#include "group.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include "futex.h"
#include "spin.h"

namespace shunya {

namespace {

// The first cache line of a control region. `aborted` is the rank + 1.
struct alignas(64) ControlHead { std::atomic<uint32_t> aborted; std::atomic<int32_t> exitCode; };

constexpr size_t slotsOffset = sizeof(ControlHead) + groupChannels * sizeof(Channel);
size_t payloadOffset(int world) { return (slotsOffset + (size_t)groupChannels * world * sizeof(Slot) + 4095) / 4096 * 4096; }

const ControlHead& headOf(const Region& control) { return *(const ControlHead*)control.base; }

const char* nameOf(uint32_t op) {
  static const char* const names[] = {"reduceScatter", "allGather", "broadcast", "barrier", "exchange"};
  return op <= ExchangeOp ? names[op] : "unknown";
}

std::string callText(const CallHeader& h) { return "\"op\":" + jsonText(nameOf(h.op)) + ",\"tag\":" + std::to_string(h.tag); }

void ring(Channel& channel) {
  channel.bell.fetch_add(1);
  if (channel.sleepers.load() > 0) wakeAll(channel.bell);
}

bool agree(const CallHeader& a, const CallHeader& b) {
  const bool sameCount = a.count == b.count || a.op == ExchangeOp;
  return a.op == b.op && a.dtype == b.dtype && a.tag == b.tag && a.shape == b.shape && sameCount;
}

}  // namespace

Group::Group(int rank, int world, RegionPtr control, int ownArena, std::vector<RegionPtr> arenas, int deadlineMs)
    : rank_(rank), world_(world), ownArena_(ownArena), deadlineMs_(deadlineMs), control_(std::move(control)), arenas_(std::move(arenas)) {
  // A group that joins memory which an earlier one of the same ranks used goes on where that one ended.
  for (int c = 0; c < groupChannels; c++) calls_[c] = slot(c, rank_).posted.load();
  slot(0, rank_).left.store(0);
}

size_t Group::controlBytes(int world) { return payloadOffset(world) + (size_t)(groupChannels - 1) * world * maxExchangeBytes; }

void Group::abort(const Region& control, int rank, int exitCode) {
  auto& head = *(ControlHead*)control.base;
  // A rank that ended well fails only those who still wait for it.
  if (exitCode == 0) ((Slot*)(control.base + slotsOffset))[rank].left.store(1);
  else {
    if (head.aborted.load() == 0) head.exitCode.store(exitCode);
    uint32_t none = 0;
    head.aborted.compare_exchange_strong(none, (uint32_t)rank + 1);
  }
  for (int c = 0; c < groupChannels; c++) ring(((Channel*)(control.base + sizeof(ControlHead)))[c]);
}

void Group::requestStop() {
  stopping_.store(true);
  exchangeQueue_.requestStop();
  asideQueue_.requestStop();
}

void Group::stopExchanges() {
  exchangeQueue_.stop();
  asideQueue_.stop();
}

Slot& Group::slot(int c, int rank) const { return ((Slot*)(control_->base + slotsOffset))[c * world_ + rank]; }
Channel& Group::channel(int c) const { return ((Channel*)(control_->base + sizeof(ControlHead)))[c]; }
char* Group::payload(GroupChannel c, int rank) const {
  return control_->base + payloadOffset(world_) + ((size_t)(c - exchanges) * world_ + rank) * maxExchangeBytes;
}

char* Group::peer(int q, uint64_t offset, size_t bytes) const {
  const Region& arena = *arenas_[q];
  if (offset > arena.bytes || bytes > arena.bytes - offset)
    throw OpFailure{deviceFailure("rank " + std::to_string(q) + " named memory outside its arena: " + std::to_string(bytes) +
                                  " bytes at offset " + std::to_string(offset) + " of " + std::to_string(arena.bytes))};
  return arena.base + offset;
}

void Group::checkEnded(const CallHeader& own, const std::atomic<bool>& stopping) const {
  const ControlHead& head = headOf(*control_);
  if (const uint32_t aborted = head.aborted.load()) failEnded(own, (int)aborted - 1, head.exitCode.load());
  if (stopping_.load() || stopping.load())
    throw OpFailure{deviceFailure(std::string(nameOf(own.op)) + ": the group or its queue was closed during the call")};
}

void Group::failEnded(const CallHeader& own, int rank, int exitCode) const {
  failOp("ABORTED", "rank " + std::to_string(rank) + " ended",
         "{\"rank\":" + std::to_string(rank) + ",\"exitCode\":" + std::to_string(exitCode) + "," + callText(own) + "}");
}

void Group::failTimeout(const CallHeader& own, int64_t waitedMs, const std::string& missing) const {
  failOp("TIMEOUT", std::string(nameOf(own.op)) + ": rank " + missing + " did not arrive within " + std::to_string(waitedMs) + " ms",
         "{\"rank\":" + std::to_string(rank_) + "," + callText(own) + ",\"waitedMs\":" + std::to_string(waitedMs) + ",\"missing\":[" + missing + "]}");
}

void Group::arrive(int c, Counter counter, uint64_t number, const CallHeader& own, const std::atomic<bool>& stopping) {
  (slot(c, rank_).*counter).store(number);
  const auto isMissing = [&](int q) { return (slot(c, q).*counter).load() < number; };
  int first = 0;  // every rank before it has arrived
  const auto all = [&] {
    while (first < world_ && !isMissing(first)) first++;
    return first == world_;
  };
  // Whoever comes last wakes the others: before that there is nothing to wake for.
  if (all()) return ring(channel(c));
  // More ranks than cores: whoever spins keeps the others from arriving.
  const bool maySpin = world_ <= (int)std::thread::hardware_concurrency();
  if (maySpin && spin(collectiveSpinMicroseconds, all)) return;
  const auto start = std::chrono::steady_clock::now();
  Channel& waiting = channel(c);
  struct Sleeper {
    std::atomic<uint32_t>& count;
    explicit Sleeper(std::atomic<uint32_t>& count) : count(count) { count.fetch_add(1); }
    ~Sleeper() { count.fetch_sub(1); }
  } sleeper(waiting.sleepers);
  for (;;) {
    const uint32_t seen = waiting.bell.load();
    if (all()) return;
    checkEnded(own, stopping);
    // What a rank posted it posted before it left: so look again after seeing that it has.
    for (int q = first; q < world_; q++)
      if (slot(0, q).left.load() && isMissing(q)) failEnded(own, q, 0);
    const auto waitedMs = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
    if (waitedMs >= deadlineMs_) {
      std::string missing;
      for (int q = first; q < world_; q++)
        if (isMissing(q)) missing += (missing.empty() ? "" : ",") + std::to_string(q);
      if (!missing.empty()) failTimeout(own, waitedMs, missing);
    }
    // In slices, so that an abort by a process that died before it could ring, or a stop, is noticed.
    sleepOn(waiting.bell, seen, (int)std::clamp<int64_t>(deadlineMs_ - waitedMs, 1, 50));
  }
}

void Group::checkAgreement(int c, const CallHeader& own) const {
  bool same = true;
  for (int q = 0; q < world_; q++) same = same && agree(own, slot(c, q).header);
  if (same) return;
  std::string ranks;
  for (int q = 0; q < world_; q++) {
    const CallHeader& h = slot(c, q).header;
    ranks += std::string(q ? "," : "") + "{\"rank\":" + std::to_string(q) + "," + callText(h) + ",\"count\":" + std::to_string(h.count) + "}";
  }
  failOp("DESYNC", "ranks made different calls", "{\"ranks\":[" + ranks + "]}");
}

void Group::call(GroupChannel c, const CallHeader& own, const std::vector<uint64_t>& offsets, const std::atomic<bool>& stopping,
                 const std::function<void()>& body) {
  if (world_ == 1) return body();
  std::lock_guard<std::mutex> lock(calling_[c]);
  if (failed_[c]) throw OpFailure{failed_[c]};
  try {
    run(c, own, offsets, stopping, body);
  } catch (const OpFailure& thrown) {
    failed_[c] = thrown.failure;
    throw;
  }
}

void Group::run(GroupChannel c, const CallHeader& own, const std::vector<uint64_t>& offsets, const std::atomic<bool>& stopping,
                const std::function<void()>& body) {
  checkEnded(own, stopping);
  const uint64_t number = ++calls_[c];
  Slot& mine = slot(c, rank_);
  mine.header = own;
  if (!offsets.empty()) memcpy(mine.offsets, offsets.data(), offsets.size() * sizeof offsets[0]);
  arrive(c, &Slot::posted, number, own, stopping);
  checkAgreement(c, own);
  body();
  arrive(c, &Slot::done, number, own, stopping);
}

std::vector<std::string> Group::exchange(GroupChannel c, uint64_t tag, const std::string& own, const std::atomic<bool>& stopping) {
  if (world_ == 1) return {own};
  CallHeader header;
  header.op = ExchangeOp;
  header.tag = tag;
  header.count = own.size();
  // Between calls nobody reads this: a call ends when all ranks are done with it.
  memcpy(payload(c, rank_), own.data(), own.size());
  std::vector<std::string> all;
  call(c, header, {}, stopping, [&] {
    for (int q = 0; q < world_; q++) all.emplace_back(payload(c, q), std::min<uint64_t>(slot(c, q).header.count, maxExchangeBytes));
  });
  return all;
}

}  // namespace shunya
