#include "regions.h"
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace shunya {

namespace {

// Numbers are not used again, so a stale one is an error and never another's memory. Never destroyed, nor are the other tables of
// handles: where Node ends without its clean-up (an error while the script loads), queues still run while statics go.
std::vector<RegionPtr>& regions = *new std::vector<RegionPtr>;

int keep(void* base, size_t bytes) {
  if (base == MAP_FAILED) throw RangeFailure{"a region of " + std::to_string(bytes) + " bytes cannot be mapped: " + strerror(errno)};
#if defined(MADV_HUGEPAGE)
  madvise(base, bytes, MADV_HUGEPAGE);  // advice: where it is refused, pages stay small
#endif
  regions.push_back(std::make_shared<Region>(base, bytes));
  return (int)regions.size() - 1;
}

#if defined(MAP_NORESERVE)
constexpr int sparse = MAP_NORESERVE;
#else
constexpr int sparse = 0;
#endif

int anonymousDescriptor() {
#if defined(__linux__)
  return memfd_create("shunya", 0);  // not closed on exec: children inherit it
#else
  const char* folder = getenv("TMPDIR");
  std::string path = std::string(folder ? folder : P_tmpdir) + "/shunya-XXXXXX";
  const int descriptor = mkstemp(path.data());
  if (descriptor >= 0) unlink(path.c_str());  // at once: nothing is left behind however a process ends
  return descriptor;
#endif
}

std::string nameOf(const char* caller, const char* field) {
  return *field ? std::string(caller) + "." + field : std::string(caller);
}

}  // namespace

Region::~Region() { munmap(base, bytes); }

int createRegion(size_t bytes) {
  return keep(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | sparse, -1, 0), bytes);
}

int createSharedMemory(size_t bytes) {
  const int descriptor = anonymousDescriptor();
  if (descriptor >= 0 && ftruncate(descriptor, (off_t)bytes) == 0) return descriptor;
  const std::string reason = strerror(errno);
  if (descriptor >= 0) close(descriptor);
  throw RangeFailure{"shared memory of " + std::to_string(bytes) + " bytes cannot be made: " + reason};
}

int openRegion(int descriptor, size_t bytes) {
  struct stat found;
  if (fstat(descriptor, &found) != 0)
    throw RangeFailure{"openRegion: found descriptor " + std::to_string(descriptor) + " (" + strerror(errno) + "); wanted shared memory"};
  // Touching a mapping beyond its file's end kills the process.
  if (found.st_size < 0 || (uint64_t)found.st_size < bytes)
    throw RangeFailure{"openRegion: found " + std::to_string(found.st_size) + " bytes behind descriptor " + std::to_string(descriptor) +
                       "; wanted " + std::to_string(bytes)};
  return keep(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | sparse, descriptor, 0), bytes);
}

RegionPtr closeRegion(int region) {
  regionOf(region, "closeRegion");
  return std::move(regions[region]);
}

bool lockRegion(int region, size_t offset, size_t bytes) {
  return mlock(regionRange(region, (double)offset, bytes, "lockRegion"), bytes) == 0;
}

static const RegionPtr& regionOf(int region, const char* caller, const char* field) {
  if (region < 0 || region >= (int)regions.size() || !regions[region])
    throw RangeFailure{nameOf(caller, field) + ": found region " + std::to_string(region) + "; wanted the number of an open region"};
  return regions[region];
}

const RegionPtr& regionOf(int region, const char* caller) { return regionOf(region, caller, ""); }

void* regionRange(int region, double offset, size_t bytes, const char* caller, const char* field) {
  const Region& r = *regionOf(region, caller, field);
  if (!(offset >= 0 && offset <= (double)r.bytes && offset == std::floor(offset)) || bytes > r.bytes - (size_t)offset) {
    char found[96];
    snprintf(found, sizeof found, "%zu bytes at offset %.17g of region %d", bytes, offset, region);
    throw RangeFailure{nameOf(caller, field) + ": found " + found + "; wanted a range within its " + std::to_string(r.bytes) + " bytes"};
  }
  return r.base + (size_t)offset;
}

}  // namespace shunya
