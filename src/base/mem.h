/* mem.h - host memory: one replaceable allocator, arenas over it, overflow-checked sizes.
 *
 * Owns: every host allocation of the library. Nothing else calls malloc. The allocator can be replaced (tests fail
 * every allocation in turn) and counts what it does (tests assert that a sealed program allocates nothing).
 * Thread safety: alloc and free from any thread; arenas belong to one thread at a time. */
#ifndef RT_BASE_MEM_H
#define RT_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rt_allocator {
    void *(*alloc)(void *ctx, size_t bytes, size_t align); /* align: power of two, at least 16 */
    void (*free)(void *ctx, void *p);
    void *ctx;
} rt_allocator;

/* Replaces the allocator; null restores the default. Only while nothing is allocated. */
void rt_allocator_set(const rt_allocator *a);

/* Null on failure or when bytes is 0. Memory is not cleared by rt_alloc; rt_alloc_zero clears it. */
void *rt_alloc(size_t bytes, size_t align);
void *rt_alloc_zero(size_t bytes, size_t align);
void rt_free(void *p); /* accepts null */

/* Since the process began: allocations made, allocations not yet freed. */
uint64_t rt_alloc_count(void);
uint64_t rt_alloc_live(void);

/* out = a*b, a+b; false on overflow (out is then untouched). */
bool rt_mul_u64(uint64_t a, uint64_t b, uint64_t *out);
bool rt_add_u64(uint64_t a, uint64_t b, uint64_t *out);
/* x rounded up to a multiple of a power of two; the caller knows that it does not overflow. */
static inline uint64_t rt_align_up(uint64_t x, uint64_t align) { return (x + align - 1) & ~(align - 1); }

/* Numbers of up to 8 bytes in files, little-endian, at any address. */
uint64_t rt_load_le(const void *p, unsigned bytes);
void rt_store_le(void *p, uint64_t value, unsigned bytes);

/* An arena: many small allocations, one free. Blocks are chained, so pointers stay valid until reset or free. */
typedef struct rt_arena_block rt_arena_block;
typedef struct rt_arena {
    rt_arena_block *blocks; /* newest first */
} rt_arena;

void *rt_arena_alloc(rt_arena *a, size_t bytes); /* aligned to 16, zeroed; null on failure */
char *rt_arena_strdup(rt_arena *a, const char *s);
char *rt_arena_printf(rt_arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rt_arena_free(rt_arena *a); /* leaves an empty arena */

/* Grows a plain array owned by the caller: ensures room for need elements of size bytes each. false when out of
 * memory (the array is then unchanged). *items may be null when *cap is 0. Free with rt_free. */
bool rt_grow(void **items, uint32_t *cap, uint32_t need, size_t size);

#endif
