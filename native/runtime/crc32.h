// CRC-32 as in gzip and PNG, at the speed of memory.
#pragma once
#include <cstddef>
#include <cstdint>

namespace shunya {

// Of bytes that follow those of checksum `value` (0: none).
uint32_t crc32(const uint8_t* data, size_t bytes, uint32_t value);

}  // namespace shunya
