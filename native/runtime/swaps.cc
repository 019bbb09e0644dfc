#include "swaps.h"
#include "regions.h"

namespace shunya {

static std::vector<std::shared_ptr<Swap>>& swaps = *new std::vector<std::shared_ptr<Swap>>;  // never destroyed: see regions.cc

constexpr int maxRequestsInFlight = 1024;  // each is a thread

int createSwap(const std::vector<std::string>& paths, const SwapOptions& options) {
  const auto refuse = [](const std::string& found) { throw RangeFailure{"createSwap: found " + found}; };
  if (paths.empty() || paths.size() != options.shares.size())
    refuse(std::to_string(paths.size()) + " paths and " + std::to_string(options.shares.size()) + " shares; wanted one share a path");
  for (const int share : options.shares)
    if (share < 1 || share > 1000) refuse("a share of " + std::to_string(share) + "; wanted 1 to 1000");
  if (options.blockBytes == 0 || options.blockBytes % diskAlignment != 0)
    refuse("blocks of " + std::to_string(options.blockBytes) + " bytes; wanted a multiple of " + std::to_string(diskAlignment));
  if (options.requestsInFlight < 1 || options.requestsInFlight > maxRequestsInFlight)
    refuse(std::to_string(options.requestsInFlight) + " requests in flight; wanted 1 to " + std::to_string(maxRequestsInFlight));
  swaps.push_back(std::make_shared<Swap>(paths, options));
  return (int)swaps.size() - 1;
}

std::shared_ptr<Swap> swapOf(int handle) {
  if (handle < 0 || handle >= (int)swaps.size() || !swaps[handle])
    throw RangeFailure{"found swap " + std::to_string(handle) + "; wanted the number of an open swap"};
  return swaps[handle];
}

void destroySwap(int handle) {
  swapOf(handle);
  swaps[handle] = nullptr;
}

void destroyAllSwaps() { swaps.clear(); }

}  // namespace shunya
