// Memory regions: big sparse mappings known by small numbers, and the range checks that every access goes through.
// The table belongs to the JavaScript thread; native threads hold the RegionPtr of what they use.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace shunya {

// A mistake of the caller: becomes a JavaScript RangeError.
struct RangeFailure { std::string message; };

// One mapping; unmapped when its last holder lets go.
class Region {
 public:
  Region(void* base, size_t bytes) : base((char*)base), bytes(bytes) {}
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  char* const base;
  const size_t bytes;
};
using RegionPtr = std::shared_ptr<Region>;

int createRegion(size_t bytes);      // memory of this process alone; pages appear when touched
int createSharedMemory(size_t bytes);  // a descriptor that children inherit
int openRegion(int descriptor, size_t bytes);
RegionPtr closeRegion(int region);   // from now on no region; mapped until the caller lets go of it
bool lockRegion(int region, size_t offset, size_t bytes);
const RegionPtr& regionOf(int region, const char* caller);  // throws RangeFailure for a number that is no region
// The address of [offset, offset + bytes). `field` (may be empty) completes the caller's name in messages.
void* regionRange(int region, double offset, size_t bytes, const char* caller, const char* field = "");

}  // namespace shunya
