// Ops of the disk tier: a queue's thread waits while the swap's own threads read or write.
#include "ops.h"
#include "swaps.h"

namespace shunya {

namespace {

struct DiskCall {
  std::shared_ptr<Swap> swap;
  uint64_t offset;
  size_t bytes;
  char* memory;
};

int64_t wholeSectors(ArgReader& a, const char* field) {
  const int64_t value = a.size(field);
  if (value % (int64_t)diskAlignment != 0) a.fail(field, std::to_string(value), "a multiple of " + std::to_string(diskAlignment));
  return value;
}

DiskCall readCall(ArgReader& a, const char* memoryField) {
  DiskCall call{};
  const int64_t handle = a.size("swap", 0, INT32_MAX);
  if (a.checksSpans()) call.swap = swapOf((int)handle);
  call.offset = (uint64_t)wholeSectors(a, "offset");
  call.bytes = (size_t)wholeSectors(a, "bytes");
  call.memory = (char*)a.at(a.span(memoryField), (double)call.bytes, 1, diskAlignment);
  const uint64_t capacity = call.swap ? call.swap->capacity() : UINT64_MAX;
  if (call.offset + call.bytes > capacity)
    a.fail("offset", std::to_string(call.bytes) + " bytes at " + std::to_string(call.offset), "a range within the swap's " + std::to_string(capacity) + " bytes");
  return call;
}

}  // namespace

PreparedOp prepareDiskRead(ArgReader& a, int) {
  const DiskCall call = readCall(a, "dst");
  return {[=](OpContext& on, void*) { call.swap->read(call.offset, call.bytes, call.memory, on.stopping); }};
}

PreparedOp prepareDiskWrite(ArgReader& a, int) {
  const DiskCall call = readCall(a, "src");
  return {[=](OpContext& on, void*) { call.swap->write(call.offset, call.bytes, call.memory, on.stopping); }};
}

}  // namespace shunya
