#include "swap.h"
#include <algorithm>
#include <chrono>
#include <thread>
#include <unistd.h>
#include "queue.h"
#include "swap_hash.h"

namespace shunya {

static void throwStopped(const std::atomic<bool>& stopping) {
  if (stopping.load()) throw OpFailure{deviceFailure("the queue was closed while it waited for the disk")};
}

// One round over all files, each as often as its share says, spread out evenly: every block goes to the file that is
// furthest behind its share.
static std::vector<int> spread(const std::vector<int>& shares) {
  int total = 0;
  for (const int share : shares) total += share;
  std::vector<int> order, behind(shares.size(), 0);
  for (int block = 0; block < total; block++) {
    for (size_t i = 0; i < shares.size(); i++) behind[i] += shares[i];
    const auto chosen = std::max_element(behind.begin(), behind.end());
    *chosen -= total;
    order.push_back((int)(chosen - behind.begin()));
  }
  return order;
}

Swap::Swap(const std::vector<std::string>& paths, const SwapOptions& options)
    : options_(options), readLane_(options.requestsInFlight), writeLane_(options.requestsInFlight) {
  std::vector<uint64_t> used(paths.size(), 0);
  for (const int file : spread(options.shares)) pattern_.push_back({file, used[file]++});
  const uint64_t blocks = (options.capacityBytes + options.blockBytes - 1) / options.blockBytes;
  const uint64_t rounds = (blocks + pattern_.size() - 1) / pattern_.size();
  for (size_t i = 0; i < paths.size(); i++) {
    // The blocks of the last round that are not needed lie at its end.
    uint64_t count = rounds * (uint64_t)options.shares[i];
    for (uint64_t block = blocks; block < rounds * pattern_.size(); block++) count -= placeOf(block).file == (int)i;
    try {
      files_.push_back(std::make_unique<SwapFile>(paths[i], count * options.blockBytes, options.direct, options.rank));
    } catch (...) {
      for (size_t made = 0; made < files_.size(); made++) unlink(paths[made].c_str());
      throw;
    }
  }
}

std::vector<bool> Swap::direct() const {
  std::vector<bool> out;
  for (const auto& file : files_) out.push_back(file->direct());
  return out;
}

Swap::Place Swap::placeOf(uint64_t block) const {
  const Place& place = pattern_[block % pattern_.size()];
  return {place.file, block / pattern_.size() * (uint64_t)options_.shares[place.file] + place.index};
}

std::vector<Swap::Piece> Swap::piecesOf(uint64_t offset, size_t bytes) const {
  std::vector<Piece> pieces;
  for (const uint64_t end = offset + bytes; offset < end;) {
    const uint64_t within = offset % options_.blockBytes;
    const size_t length = (size_t)std::min<uint64_t>(options_.blockBytes - within, end - offset);
    const Place place = placeOf(offset / options_.blockBytes);
    pieces.push_back({offset, length, place.file, place.index * options_.blockBytes + within});
    offset += length;
  }
  return pieces;
}

void Swap::checkFiles(const std::vector<Piece>& pieces, DiskDirection direction) const {
  for (size_t i = 0; i < files_.size(); i++)
    if (std::any_of(pieces.begin(), pieces.end(), [i](const Piece& piece) { return piece.file == (int)i; })) files_[i]->check(direction);
}

// What overlaps the range no longer holds.
void Swap::forget(uint64_t offset, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto first = written_.lower_bound(offset);
  if (first != written_.begin() && std::prev(first)->first + std::prev(first)->second.bytes > offset) first--;
  written_.erase(first, written_.lower_bound(offset + bytes));
}

Swap::Written Swap::writtenAt(const Piece& piece) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = written_.find(piece.offset);
  if (found != written_.end() && found->second.bytes == piece.bytes) return found->second;
  const std::string message = "a read of " + std::to_string(piece.bytes) + " bytes at offset " + std::to_string(piece.offset) + " of the disk tier, where " +
                              (found == written_.end() ? "no piece was written" : "a piece of " + std::to_string(found->second.bytes) + " was written");
  failOp("INTERNAL", message, "{\"message\":" + jsonText(message) + "}");
}

void Swap::read(uint64_t offset, size_t bytes, char* to, const std::atomic<bool>& stopping) {
  const std::vector<Piece> pieces = piecesOf(offset, bytes);
  const DiskFault fault = nextFault(DiskDirection::Read, stopping);
  checkFiles(pieces, DiskDirection::Read);
  readLane_.run((int64_t)pieces.size(), stopping, [&](int64_t i) {
    const Piece& piece = pieces[i];
    const SwapFile& file = *files_[piece.file];
    const Written expected = writtenAt(piece);
    char* at = to + (piece.offset - offset);
    file.read(piece.fileOffset, piece.bytes, at, i == 0 ? fault : DiskFault::None);
    if (options_.verify && swapHash(at, piece.bytes) != expected.hash) file.failChecksum(piece.fileOffset, piece.bytes);
  });
  throwStopped(stopping);
}

void Swap::write(uint64_t offset, size_t bytes, const char* from, const std::atomic<bool>& stopping) {
  const std::vector<Piece> pieces = piecesOf(offset, bytes);
  const DiskFault fault = nextFault(DiskDirection::Write, stopping);
  checkFiles(pieces, DiskDirection::Write);
  forget(offset, bytes);
  writeLane_.run((int64_t)pieces.size(), stopping, [&](int64_t i) {
    const Piece& piece = pieces[i];
    const char* at = from + (piece.offset - offset);
    const uint64_t hash = options_.verify ? swapHash(at, piece.bytes) : 0;
    files_[piece.file]->write(piece.fileOffset, piece.bytes, at, i == 0 ? fault : DiskFault::None);
    std::lock_guard<std::mutex> lock(mutex_);
    written_[piece.offset] = {piece.bytes, hash};
  });
  throwStopped(stopping);
}

void Swap::inject(DiskDirection direction, DiskFault fault, int afterOps, int delayMs) {
  std::lock_guard<std::mutex> lock(mutex_);
  injected_[(int)direction] = {fault, afterOps, delayMs};
}

DiskFault Swap::nextFault(DiskDirection direction, const std::atomic<bool>& stopping) {
  Injected due;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Injected& injected = injected_[(int)direction];
    if (injected.fault == DiskFault::None || injected.afterOps-- > 0) return DiskFault::None;
    due = injected;
    injected.afterOps = 0;
    if (injected.fault != DiskFault::Delay) injected = {};
  }
  if (due.fault != DiskFault::Delay) return due.fault;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(due.delayMs);
  while (!stopping.load() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return DiskFault::None;
}

}  // namespace shunya
