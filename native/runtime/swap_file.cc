#include "swap_file.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include "queue.h"
#if defined(__linux__)
#include <sys/vfs.h>
#endif

namespace shunya {

namespace {

#if defined(O_DIRECT)
constexpr int directFlag = O_DIRECT;
#else
constexpr int directFlag = 0;
#endif

const char* errorName(int error) {
  switch (error) {
    case ENOSPC: return "ENOSPC";
    case EDQUOT: return "EDQUOT";
    case EFBIG: return "EFBIG";
    case EIO: return "EIO";
    case EROFS: return "EROFS";
    case EACCES: return "EACCES";
    case EPERM: return "EPERM";
    case ENOENT: return "ENOENT";
    case ENOTDIR: return "ENOTDIR";
    case EEXIST: return "EEXIST";
    case EINVAL: return "EINVAL";
    case EMFILE: return "EMFILE";
    default: return "";
  }
}

using Sector = std::unique_ptr<char, decltype(&free)>;
Sector makeSector() { return {(char*)aligned_alloc(diskAlignment, diskAlignment), free}; }

const char* nameOf(DiskDirection direction) { return direction == DiskDirection::Read ? "read" : "write"; }

}  // namespace

SwapFile::SwapFile(const std::string& path, uint64_t bytes, bool direct, int rank) : path_(path), bytes_(bytes), rank_(rank), direct_(direct) {
  open(direct);
  try {
    preallocate();
    if (direct_ && !acceptsDirectReads()) {
      close(descriptor_);
      unlink(path_.c_str());
      open(false);
      preallocate();
    }
  } catch (...) {
    close(descriptor_);
    unlink(path_.c_str());
    throw;
  }
}

SwapFile::~SwapFile() { close(descriptor_); }

void SwapFile::open(bool direct) {
  const Request request{"create", 0, (size_t)bytes_};
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  direct_ = direct;
  descriptor_ = ::open(path_.c_str(), flags | (direct ? directFlag : 0), 0600);
  if (descriptor_ < 0 && direct && errno == EINVAL) {
    direct_ = false;
    unlink(path_.c_str());  // some file systems make the file before they refuse the flag
    descriptor_ = ::open(path_.c_str(), flags, 0600);
  }
  if (descriptor_ < 0) failErrno(request, errno);
#if defined(F_NOCACHE)
  if (direct_) direct_ = fcntl(descriptor_, F_NOCACHE, 1) == 0;
#endif
#if defined(__linux__)
  // File systems in memory accept the flag and ignore it.
  constexpr long tmpfs = 0x01021994, ramfs = 0x858458f6;
  struct statfs system;
  if (fstatfs(descriptor_, &system) == 0 && ((long)system.f_type == tmpfs || (unsigned long)system.f_type == (unsigned long)ramfs)) direct_ = false;
#endif
}

void SwapFile::preallocate() {
  const Request request{"preallocate", 0, (size_t)bytes_};
#if defined(__linux__)
  // Not posix_fallocate: where the file system has no such call, that one writes every block.
  while (bytes_ > 0 && fallocate(descriptor_, 0, 0, (off_t)bytes_) != 0) {
    if (errno == EINTR) continue;
    if (errno != EOPNOTSUPP && errno != ENOSYS) failErrno(request, errno);
    break;
  }
#elif defined(F_PREALLOCATE)
  fstore_t store = {F_ALLOCATEALL, F_PEOFPOSMODE, 0, (off_t)bytes_, 0};
  if (bytes_ > 0 && fcntl(descriptor_, F_PREALLOCATE, &store) != 0 && errno != ENOTSUP) failErrno(request, errno);
#endif
  if (ftruncate(descriptor_, (off_t)bytes_) != 0) failErrno(request, errno);
}

// Some file systems let such a file be opened, and refuse its requests.
bool SwapFile::acceptsDirectReads() const {
  const Sector sector = makeSector();
  return bytes_ < diskAlignment || pread(descriptor_, sector.get(), diskAlignment, 0) >= 0 || errno != EINVAL;
}

void SwapFile::check(DiskDirection direction) const {
  const Request request{nameOf(direction), 0, (size_t)bytes_};
  struct stat found;
  if (fstat(descriptor_, &found) != 0) failErrno(request, errno);
  if (found.st_nlink == 0) fail(request, "deleted", "the file was deleted while it was in use");
  if ((uint64_t)found.st_size != bytes_)
    fail(request, "resized", "the file has " + std::to_string((uint64_t)found.st_size) + " bytes, not the " + std::to_string(bytes_) + " it was made with");
}

template <typename Call>
void SwapFile::transfer(const Request& request, DiskFault fault, const Call& call) const {
  if (fault == DiskFault::ReadError) failErrno(request, EIO);
  if (fault == DiskFault::DiskFull) failErrno(request, ENOSPC);
  const bool isCut = fault == DiskFault::Short || fault == DiskFault::Partial;
  for (size_t done = 0, calls = 0; done < request.bytes; calls++) {
    const size_t asked = isCut && calls == 0 ? request.bytes / 2 / diskAlignment * diskAlignment : request.bytes - done;
    const ssize_t moved = fault == DiskFault::Short && calls > 0 ? 0 : call(done, asked);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) failErrno(request, errno);
    // A request is gone on with from a whole sector: direct I/O takes no others.
    const size_t whole = done + (size_t)moved == request.bytes ? (size_t)moved : (size_t)moved / diskAlignment * diskAlignment;
    if (whole == 0 && asked > 0)
      fail(request, "short", std::to_string(done + (size_t)moved) + " of " + std::to_string(request.bytes) + " bytes were done, and then no more");
    done += whole;
  }
}

void SwapFile::read(uint64_t offset, size_t bytes, char* to, DiskFault fault) const {
  transfer({"read", offset, bytes}, fault, [&](size_t done, size_t asked) { return pread(descriptor_, to + done, asked, (off_t)(offset + done)); });
  if (fault == DiskFault::Flip) to[bytes / 2] ^= 4;
}

void SwapFile::write(uint64_t offset, size_t bytes, const char* from, DiskFault fault) const {
  const Request request{"write", offset, bytes};
  transfer(request, fault, [&](size_t done, size_t asked) { return pwrite(descriptor_, from + done, asked, (off_t)(offset + done)); });
  if (fault != DiskFault::Flip) return;
  const Sector sector = makeSector();
  memcpy(sector.get(), from, diskAlignment);
  sector.get()[diskAlignment / 2] ^= 4;
  if (pwrite(descriptor_, sector.get(), diskAlignment, (off_t)offset) != (ssize_t)diskAlignment) failErrno(request, errno);
}

void SwapFile::failChecksum(uint64_t offset, size_t bytes) const {
  fail({"read", offset, bytes}, "checksum", "the bytes that were read are not those that were written");
}

void SwapFile::failErrno(const Request& request, int error) const {
  const std::string name = errorName(error);
  fail(request, name.empty() ? "errno " + std::to_string(error) : name, strerror(error));
}

void SwapFile::fail(const Request& request, const std::string& reason, const std::string& what) const {
  const std::string details = "{\"rank\":" + std::to_string(rank_) + ",\"file\":" + jsonText(path_) + ",\"operation\":\"" + request.operation +
                              "\",\"offset\":" + std::to_string(request.offset) + ",\"bytes\":" + std::to_string(request.bytes) +
                              ",\"reason\":" + jsonText(reason) + ",\"what\":" + jsonText(what) + "}";
  failOp("DISK", std::string(request.operation) + " of " + path_ + ": " + what, details);
}

}  // namespace shunya
