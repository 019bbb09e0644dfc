// This process's swaps by handle. JavaScript thread only; ops hold the swap they use.
#pragma once
#include <memory>
#include "swap.h"

namespace shunya {

int createSwap(const std::vector<std::string>& paths, const SwapOptions& options);  // throws RangeFailure, OpFailure
std::shared_ptr<Swap> swapOf(int handle);                                           // throws RangeFailure
void destroySwap(int handle);  // its files are closed when the last op that uses them is over
void destroyAllSwaps();

}  // namespace shunya
