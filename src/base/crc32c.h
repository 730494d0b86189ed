/* crc32c.h - CRC-32C (Castagnoli), the checksum of TFRecord files; zlib has only the other CRC-32. Pure. */
#ifndef RT_BASE_CRC32C_H
#define RT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of bytes that follow those whose checksum is crc; 0 at the start. "123456789" gives e3069283. */
uint32_t rt_crc32c(uint32_t crc, const void *data, size_t bytes);
/* As TFRecord files store it: a checksum over data that holds checksums would otherwise be weak. */
static inline uint32_t rt_crc32c_mask(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

#endif
