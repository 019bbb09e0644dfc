// One file of a swap: made, preallocated, read and written past the page cache where its file system allows that.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace shunya {

// Addresses, offsets and lengths of direct I/O are multiples of this.
constexpr size_t diskAlignment = 4096;

enum class DiskDirection { Read, Write };

// What a request is made to suffer, in tests. Short: half is done and then nothing more. Partial: half is done at first, the
// rest when asked again. Flip: one bit changes on the way. Delay: the drive is slow.
enum class DiskFault { None, ReadError, DiskFull, Short, Partial, Flip, Delay };

// Everything that goes wrong becomes an OpFailure with code DISK.
class SwapFile {
 public:
  // A new file of `bytes` bytes that nobody else may read. `rank` is for messages.
  SwapFile(const std::string& path, uint64_t bytes, bool direct, int rank);
  ~SwapFile();
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

  bool direct() const { return direct_; }
  // That the file still has a name and its size: an open file can be read and written long after it was deleted.
  void check(DiskDirection direction) const;
  void read(uint64_t offset, size_t bytes, char* to, DiskFault fault) const;
  void write(uint64_t offset, size_t bytes, const char* from, DiskFault fault) const;
  [[noreturn]] void failChecksum(uint64_t offset, size_t bytes) const;

 private:
  struct Request { const char* operation; uint64_t offset; size_t bytes; };
  void open(bool direct);
  void preallocate();
  bool acceptsDirectReads() const;
  template <typename Call> void transfer(const Request& request, DiskFault fault, const Call& call) const;
  [[noreturn]] void failErrno(const Request& request, int error) const;
  [[noreturn]] void fail(const Request& request, const std::string& reason, const std::string& what) const;

  const std::string path_;
  const uint64_t bytes_;
  const int rank_;
  int descriptor_ = -1;
  bool direct_;
};

}  // namespace shunya
