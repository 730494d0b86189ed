/* apr_quant.h - the two quantised types of APR files that are nobody else's: to f32 and back.
 *
 * Owns: AprQ4 and AprQ8. They are no dtypes: nothing computes with them, a reader widens them at once. Despite their
 * names they are not GGML's Q4_0 and Q8_0 (quant.h). Little-endian; a tensor may start at any byte. */
#ifndef RT_NUM_APR_QUANT_H
#define RT_NUM_APR_QUANT_H

#include <stdint.h>

/* AprQ4: per 32 values an f16 scale (largest magnitude / 7) and 16 bytes of nibbles: value 2 i in the low half of byte
 * i, value 2 i + 1 in the high half, stored as q + 8; value = scale * q. The last block is whole also where n is not a
 * multiple of 32; what it has beyond n is not looked at. */
static inline uint64_t rt_apr_q4_bytes(uint64_t n) { return (n / 32 + (n % 32 != 0)) * 18; }
void rt_apr_q4_to_f32(float *y /* (n) */, const void *x, uint64_t n);
void rt_apr_q4_from_f32(void *y, const float *x /* (n) */, uint64_t n);

/* AprQ8: one f32 scale (largest magnitude / 127) for the whole tensor, then n int8; value = scale * q. */
static inline uint64_t rt_apr_q8_bytes(uint64_t n) { return 4 + n; }
void rt_apr_q8_to_f32(float *y /* (n) */, const void *x, uint64_t n);
void rt_apr_q8_from_f32(void *y, const float *x /* (n) */, uint64_t n);

#endif
