// The disk tier's memory: logical bytes [0, capacity) laid out block by block over one or several files.
//
// The rule of records: a write is cut at block borders into pieces, each with a checksum; a read is cut the same way, and each
// of its pieces must be one that was written: same offset, same length. So whatever was written is read back as it was
// written, or in whole blocks of it. Anything else is a mistake of the caller, and a failure with code INTERNAL.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>
#include "io_lane.h"
#include "swap_file.h"

namespace shunya {

struct SwapOptions {
  uint64_t capacityBytes;
  size_t blockBytes;       // a multiple of diskAlignment
  int requestsInFlight;    // in each direction
  std::vector<int> shares; // of each file in the blocks, in whole numbers
  bool verify, direct;
  int rank;                // for messages
};

class Swap {
 public:
  // New files at `paths`. @throws OpFailure (DISK), after which none of them is left
  Swap(const std::vector<std::string>& paths, const SwapOptions& options);

  uint64_t capacity() const { return options_.capacityBytes; }
  std::vector<bool> direct() const;  // of each file
  // These two return when the bytes have moved. Offset, length and address are multiples of diskAlignment.
  void read(uint64_t offset, size_t bytes, char* to, const std::atomic<bool>& stopping);
  void write(uint64_t offset, size_t bytes, const char* from, const std::atomic<bool>& stopping);
  // For tests: the op after the next `afterOps` of that direction suffers `fault`; a delay, so do all after it.
  void inject(DiskDirection direction, DiskFault fault, int afterOps, int delayMs);

 private:
  struct Piece { uint64_t offset; size_t bytes; int file; uint64_t fileOffset; };
  struct Written { size_t bytes; uint64_t hash; };
  struct Injected { DiskFault fault = DiskFault::None; int afterOps = 0, delayMs = 0; };
  struct Place { int file; uint64_t index; };  // of a block: in its file

  std::vector<Piece> piecesOf(uint64_t offset, size_t bytes) const;
  Place placeOf(uint64_t block) const;
  void forget(uint64_t offset, size_t bytes);
  Written writtenAt(const Piece& piece);
  void checkFiles(const std::vector<Piece>& pieces, DiskDirection direction) const;
  DiskFault nextFault(DiskDirection direction, const std::atomic<bool>& stopping);

  const SwapOptions options_;
  std::vector<Place> pattern_;         // of the blocks of one round over all files
  std::vector<std::unique_ptr<SwapFile>> files_;
  std::mutex mutex_;                   // guards the two below
  std::map<uint64_t, Written> written_;  // pieces by offset; they never overlap
  Injected injected_[2];               // by direction
  IoLane readLane_, writeLane_;        // last: they use all of the above
};

}  // namespace shunya
