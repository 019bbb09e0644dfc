#include "regions.h"
#include <sys/mman.h>
#include <unistd.h>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

namespace shunya {

namespace {

std::mutex mutex;
std::vector<RegionView> regions;

int keep(void* base, size_t bytes) {
  if (base == MAP_FAILED) throw RangeFailure{"a region of " + std::to_string(bytes) + " bytes cannot be mapped: " + strerror(errno)};
#if defined(MADV_HUGEPAGE)
  madvise(base, bytes, MADV_HUGEPAGE);  // advice: where it is refused, pages stay small
#endif
  std::lock_guard<std::mutex> lock(mutex);
  regions.push_back({(char*)base, bytes});
  return (int)regions.size() - 1;
}

#if defined(MAP_NORESERVE)
constexpr int sparse = MAP_NORESERVE;
#else
constexpr int sparse = 0;
#endif

}  // namespace

int createRegion(size_t bytes) {
  return keep(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | sparse, -1, 0), bytes);
}

int createSharedMemory(size_t bytes) {
#if defined(__linux__)
  const int descriptor = memfd_create("shunya", 0);
#else
  char path[] = "/tmp/shunya-XXXXXX";  // unlinked at once: nothing is left behind however a process ends
  const int descriptor = mkstemp(path);
  if (descriptor >= 0) unlink(path);
#endif
  if (descriptor < 0 || ftruncate(descriptor, (off_t)bytes) != 0)
    throw RangeFailure{"shared memory of " + std::to_string(bytes) + " bytes cannot be made: " + strerror(errno)};
  return descriptor;
}

int openRegion(int descriptor, size_t bytes) {
  return keep(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | sparse, descriptor, 0), bytes);
}

void closeRegion(int region) {
  const RegionView view = regionView(region);
  munmap(view.base, view.bytes);
  std::lock_guard<std::mutex> lock(mutex);
  regions[region] = {nullptr, 0};
}

bool lockRegion(int region, size_t offset, size_t bytes) {
  return mlock(regionRange(region, (double)offset, bytes, "lockRegion"), bytes) == 0;
}

RegionView regionView(int region) {
  std::lock_guard<std::mutex> lock(mutex);
  if (region < 0 || region >= (int)regions.size() || !regions[region].base)
    throw RangeFailure{"found region " + std::to_string(region) + "; wanted the number of an open region"};
  return regions[region];
}

void* regionRange(int region, double offset, size_t bytes, const std::string& what) {
  const RegionView view = regionView(region);
  if (!(offset >= 0) || offset != std::floor(offset) || offset > (double)view.bytes || bytes > view.bytes - (size_t)offset)
    throw RangeFailure{what + ": found bytes [" + std::to_string(offset) + ", +" + std::to_string(bytes) +
                       "); wanted a range within the region's " + std::to_string(view.bytes)};
  return view.base + (size_t)offset;
}

}  // namespace shunya
