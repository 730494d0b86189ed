/* mem.c - the replaceable allocator and its counters, arenas, growing arrays, checked sizes.
 *
 * Owns: the only call to the C library's allocator. Leaves device memory to the backends. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MIN_ALIGN = 16,
    ARENA_FIRST_BLOCK = 4096,
    ARENA_LAST_BLOCK = 4 << 20, /* blocks stop doubling here, so that the unused tail stays small */
    GROW_FIRST = 8,
};

static void *default_alloc(void *ctx, size_t bytes, size_t align)
{
    (void)ctx;
    void *p = NULL;
    return posix_memalign(&p, align, bytes) == 0 ? p : NULL;
}

static void default_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static const rt_allocator default_allocator = { default_alloc, default_free, NULL };
static rt_allocator current = { default_alloc, default_free, NULL };

/* They order nothing but one another: whoever sees a free counted also sees its allocation counted. */
static _Atomic uint64_t allocs, frees;

void rt_allocator_set(const rt_allocator *a) { current = a ? *a : default_allocator; }

void *rt_alloc(size_t bytes, size_t align)
{
    if (align < MIN_ALIGN) align = MIN_ALIGN;
    if (bytes == 0 || bytes > PTRDIFF_MAX || (align & (align - 1)) != 0) return NULL;
    void *p = current.alloc(current.ctx, bytes, align);
    if (p) atomic_fetch_add_explicit(&allocs, 1, memory_order_relaxed);
    return p;
}

void *rt_alloc_zero(size_t bytes, size_t align)
{
    void *p = rt_alloc(bytes, align);
    if (p) memset(p, 0, bytes);
    return p;
}

void rt_free(void *p)
{
    if (!p) return;
    atomic_fetch_add_explicit(&frees, 1, memory_order_release);
    current.free(current.ctx, p);
}

uint64_t rt_alloc_count(void) { return atomic_load_explicit(&allocs, memory_order_relaxed); }

uint64_t rt_alloc_live(void)
{
    /* Frees first, so that the difference never goes below zero. */
    uint64_t freed = atomic_load_explicit(&frees, memory_order_acquire);
    return atomic_load_explicit(&allocs, memory_order_relaxed) - freed;
}

bool rt_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *out = product;
    return true;
}

bool rt_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *out = sum;
    return true;
}

uint64_t rt_load_le(const void *p, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)((const uint8_t *)p)[i] << 8 * i;
    return value;
}

void rt_store_le(void *p, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) ((uint8_t *)p)[i] = (uint8_t)(value >> 8 * i);
}

struct rt_arena_block {
    rt_arena_block *next;
    size_t size, used; /* bytes of data, bytes handed out */
    _Alignas(MIN_ALIGN) unsigned char data[];
};

static rt_arena_block *arena_add_block(rt_arena *a, size_t bytes)
{
    size_t whole = ARENA_FIRST_BLOCK;
    if (a->blocks) {
        size_t last = a->blocks->size + sizeof(rt_arena_block);
        whole = last < ARENA_LAST_BLOCK / 2 ? 2 * last : ARENA_LAST_BLOCK;
    }
    if (whole - sizeof(rt_arena_block) < bytes) whole = bytes + sizeof(rt_arena_block);
    rt_arena_block *block = rt_alloc_zero(whole, 64);
    if (!block) return NULL;
    block->size = whole - sizeof *block;
    block->next = a->blocks;
    a->blocks = block;
    return block;
}

void *rt_arena_alloc(rt_arena *a, size_t bytes)
{
    if (bytes > PTRDIFF_MAX - ARENA_FIRST_BLOCK) return NULL;
    /* An empty array still gets an address of its own: null means failure and nothing else. */
    size_t need = rt_align_up(bytes ? bytes : 1, MIN_ALIGN);
    rt_arena_block *block = a->blocks;
    if (!block || block->size - block->used < need) block = arena_add_block(a, need);
    if (!block) return NULL;
    void *p = block->data + block->used;
    block->used += need;
    return p;
}

char *rt_arena_strdup(rt_arena *a, const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = rt_arena_alloc(a, n);
    if (copy) memcpy(copy, s, n);
    return copy;
}

char *rt_arena_printf(rt_arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *text = n < 0 ? NULL : rt_arena_alloc(a, (size_t)n + 1);
    if (text) vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

void rt_arena_free(rt_arena *a)
{
    if (!a) return;
    for (rt_arena_block *block = a->blocks, *next; block; block = next) {
        next = block->next;
        rt_free(block);
    }
    a->blocks = NULL;
}

bool rt_grow(void **items, uint32_t *cap, uint32_t need, size_t size)
{
    if (need <= *cap) return true;
    uint64_t wanted = 2 * (uint64_t)*cap;
    if (wanted < GROW_FIRST) wanted = GROW_FIRST;
    if (wanted < need) wanted = need;
    if (wanted > UINT32_MAX) wanted = UINT32_MAX;
    uint64_t bytes;
    if (!rt_mul_u64(wanted, size, &bytes) || bytes > PTRDIFF_MAX) return false;
    void *bigger = rt_alloc((size_t)bytes, 64);
    if (!bigger) return false;
    if (*cap > 0) memcpy(bigger, *items, *cap * size);
    rt_free(*items);
    *items = bigger;
    *cap = (uint32_t)wanted;
    return true;
}
