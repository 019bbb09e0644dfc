#include "group.h"
#include <chrono>
#include <climits>
#include <thread>
#include "spin.h"
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#endif

namespace shunya {

namespace {

// The first cache line of a control region.
struct alignas(64) ControlHead { std::atomic<uint32_t> aborted; std::atomic<int32_t> exitCode; };  // aborted: rank + 1
constexpr int channels = 2;

size_t slotsOffset() { return sizeof(ControlHead) + channels * sizeof(Channel); }
size_t payloadOffset(int world) {
  return (slotsOffset() + (size_t)channels * world * sizeof(Slot) + 4095) / 4096 * 4096;
}

// Sleeps until the word changes from `seen` or a few dozen milliseconds are over.
void sleepOn(std::atomic<uint32_t>& word, uint32_t seen) {
#if defined(__linux__)
  const timespec slice = {0, 50 * 1000 * 1000};
  syscall(SYS_futex, (uint32_t*)&word, FUTEX_WAIT, seen, &slice, nullptr, 0);
#else
  if (word.load() == seen) std::this_thread::sleep_for(std::chrono::microseconds(100));
#endif
}

void wake(std::atomic<uint32_t>& word) {
  word.fetch_add(1);
#if defined(__linux__)
  syscall(SYS_futex, (uint32_t*)&word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
#endif
}

std::mutex groupsMutex;
std::vector<std::shared_ptr<Group>> groups;

}  // namespace

const char* groupOpName(uint32_t op) {
  static const char* const names[] = {"reduce-scatter", "all-gather", "broadcast", "barrier", "exchange"};
  return op <= ExchangeOp ? names[op] : "unknown";
}

Group::Group(int rank, int world, int control, std::vector<int> arenas, int deadlineMs)
    : rank_(rank), world_(world), deadlineMs_(deadlineMs),
      control_((char*)regionRange(control, 0, controlBytes(world), "createGroup.control")), arenas_(std::move(arenas)) {
  if (world < 1 || rank < 0 || rank >= world || (int)arenas_.size() != world)
    throw RangeFailure{"createGroup: found rank " + std::to_string(rank) + " of " + std::to_string(world) + " with " +
                       std::to_string(arenas_.size()) + " arenas; wanted one arena a rank"};
  for (const int arena : arenas_) views_.push_back(regionView(arena));
}

size_t Group::controlBytes(int world) { return payloadOffset(world) + (size_t)world * maxExchangeBytes; }

void Group::abort(int control, int rank, int exitCode) {
  char* base = (char*)regionRange(control, 0, slotsOffset(), "abortGroup.control");
  auto* head = (ControlHead*)base;
  head->exitCode.store(exitCode);
  uint32_t none = 0;
  head->aborted.compare_exchange_strong(none, (uint32_t)rank + 1);
  for (int c = 0; c < channels; c++) wake(((Channel*)(base + sizeof(ControlHead)))[c].wake);
}

Slot& Group::slot(int channel, int rank) const { return ((Slot*)(control_ + slotsOffset()))[channel * world_ + rank]; }
Channel& Group::channel(int channel) const { return ((Channel*)(control_ + sizeof(ControlHead)))[channel]; }
char* Group::payload(int rank) const { return control_ + payloadOffset(world_) + (size_t)rank * maxExchangeBytes; }
void Group::wakeAll(int c) { wake(channel(c).wake); }

char* Group::peer(int q, uint64_t offset, size_t bytes) const {
  if (offset > views_[q].bytes || bytes > views_[q].bytes - offset) {
    const std::string message = "rank " + std::to_string(q) + " named memory outside its arena";
    failOp("DEVICE", message, "{\"message\":" + jsonText(message) + "}");
  }
  return views_[q].base + offset;
}

template <typename Arrived>
void Group::waitForAll(int c, const CallHeader& own, const Arrived& arrived) {
  auto* head = (ControlHead*)control_;
  const auto all = [&] {
    for (int q = 0; q < world_; q++)
      if (!arrived(slot(c, q))) return false;
    return true;
  };
  // More ranks than cores: whoever spins keeps the others from arriving.
  const bool mayspin = world_ <= (int)std::thread::hardware_concurrency();
  if (mayspin ? spin(100, all) : all()) return;
  const auto start = std::chrono::steady_clock::now();
  const std::string call = "\"op\":" + jsonText(groupOpName(own.op)) + ",\"tag\":" + std::to_string(own.tag);
  for (;;) {
    const uint32_t seen = channel(c).wake.load();
    if (all()) return;
    if (const uint32_t aborted = head->aborted.load())
      failOp("ABORTED", "rank " + std::to_string(aborted - 1) + " ended",
             "{\"rank\":" + std::to_string(aborted - 1) + ",\"exitCode\":" + std::to_string(head->exitCode.load()) + "," + call + "}");
    if (stopping_.load()) failOp("ABORTED", "the group was closed", "{\"rank\":" + std::to_string(rank_) + ",\"exitCode\":0," + call + "}");
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
    if (waited >= deadlineMs_) {
      std::string missing;
      for (int q = 0; q < world_; q++)
        if (!arrived(slot(c, q))) missing += (missing.empty() ? "" : ",") + std::to_string(q);
      failOp("TIMEOUT", std::string(groupOpName(own.op)) + " timed out",
             "{\"rank\":" + std::to_string(rank_) + "," + call + ",\"waitedMs\":" + std::to_string(waited) + ",\"missing\":[" + missing + "]}");
    }
    sleepOn(channel(c).wake, seen);
  }
}

void Group::checkAgreement(int c, const CallHeader& own) {
  bool agree = true;
  for (int q = 0; q < world_; q++) {
    const CallHeader& h = slot(c, q).header;
    agree = agree && h.op == own.op && h.tag == own.tag && h.count == own.count && h.dtype == own.dtype && h.segments == own.segments;
  }
  if (agree) return;
  std::string ranks;
  for (int q = 0; q < world_; q++) {
    const CallHeader& h = slot(c, q).header;
    ranks += std::string(q ? "," : "") + "{\"rank\":" + std::to_string(q) + ",\"op\":" + jsonText(groupOpName(h.op)) +
             ",\"tag\":" + std::to_string(h.tag) + ",\"count\":" + std::to_string(h.count) + "}";
  }
  failOp("DESYNC", "ranks made different calls", "{\"ranks\":[" + ranks + "]}");
}

void Group::call(int c, const CallHeader& own, const std::function<void()>& body) {
  std::lock_guard<std::mutex> lock(calling_[c]);
  const uint64_t number = ++calls_[c];
  Slot& mine = slot(c, rank_);
  mine.header = own;
  mine.posted.store(number, std::memory_order_release);
  if (world_ > 1) wakeAll(c);
  waitForAll(c, own, [number](const Slot& s) { return s.posted.load(std::memory_order_acquire) >= number; });
  checkAgreement(c, own);
  body();
  mine.done.store(number, std::memory_order_release);
  if (world_ > 1) wakeAll(c);
  waitForAll(c, own, [number](const Slot& s) { return s.done.load(std::memory_order_acquire) >= number; });
}

int keepGroup(std::shared_ptr<Group> group) {
  std::lock_guard<std::mutex> lock(groupsMutex);
  groups.push_back(std::move(group));
  return (int)groups.size() - 1;
}

std::shared_ptr<Group> groupOf(int handle) {
  std::lock_guard<std::mutex> lock(groupsMutex);
  if (handle < 0 || handle >= (int)groups.size() || !groups[handle])
    throw RangeFailure{"found group " + std::to_string(handle) + "; wanted the number of an open group"};
  return groups[handle];
}

void dropGroup(int handle) {
  groupOf(handle)->requestStop();
  std::lock_guard<std::mutex> lock(groupsMutex);
  groups[handle] = nullptr;
}

void stopAllGroups() {
  std::lock_guard<std::mutex> lock(groupsMutex);
  for (auto& group : groups)
    if (group) group->requestStop();
}

}  // namespace shunya
