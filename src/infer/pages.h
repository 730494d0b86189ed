/* pages.h - who has which page of a key/value cache. Page 0 is nobody's: it is where rows without a request write. */
#ifndef RT_INFER_PAGES_H
#define RT_INFER_PAGES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rt_pages {
    int32_t *free; /* (count) those nobody has, a stack */
    uint32_t count, left;
} rt_pages;

/* free: memory for count; pages 1 to count. */
static inline void rt_pages_init(rt_pages *p, int32_t *free, uint32_t count)
{
    *p = (rt_pages){ free, count, count };
    for (uint32_t i = 0; i < count; i++) free[i] = (int32_t)(count - i);
}

/* row (cols) = n pages, then 0; false when so many are not left. */
static inline bool rt_pages_take(rt_pages *p, int32_t *row, uint32_t n, uint32_t cols)
{
    if (n > p->left || n > cols) return false;
    for (uint32_t i = 0; i < cols; i++) row[i] = i < n ? p->free[--p->left] : 0;
    return true;
}

static inline void rt_pages_give_back(rt_pages *p, int32_t *row, uint32_t cols)
{
    for (uint32_t i = 0; i < cols; i++) {
        if (row[i]) p->free[p->left++] = row[i];
        row[i] = 0;
    }
}

#endif
