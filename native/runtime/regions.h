// Memory regions: big sparse mappings known by small numbers, and the range checks that every access goes through.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace shunya {

// A mistake of the caller: becomes a JavaScript RangeError.
struct RangeFailure { std::string message; };

struct RegionView { char* base; size_t bytes; };

int createRegion(size_t bytes);           // memory of this process alone; pages appear when touched
int createSharedMemory(size_t bytes);     // a descriptor that children inherit
int openRegion(int descriptor, size_t bytes);
void closeRegion(int region);
bool lockRegion(int region, size_t offset, size_t bytes);
RegionView regionView(int region);        // throws RangeFailure for a number that is no region
void* regionRange(int region, double offset, size_t bytes, const std::string& what);

}  // namespace shunya
