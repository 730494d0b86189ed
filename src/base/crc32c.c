/* crc32c.c - see crc32c.h. Four bits at a time: the table is small enough to be read, and what is summed is short. */
#include "base/crc32c.h"

uint32_t rt_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    /* The remainder of every four bits, for the reflected polynomial 82f63b78. */
    static const uint32_t table[16] = { 0x00000000u, 0x105ec76fu, 0x20bd8edeu, 0x30e349b1u, 0x417b1dbcu, 0x5125dad3u,
                                        0x61c69362u, 0x7198540du, 0x82f63b78u, 0x92a8fc17u, 0xa24bb5a6u, 0xb21572c9u,
                                        0xc38d26c4u, 0xd3d3e1abu, 0xe330a81au, 0xf36e6f75u };
    const uint8_t *p = data;
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}
