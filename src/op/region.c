/* region.c - sets of rectangles; see region.h. Lists stay short because neighbours are merged: the q, k and v columns
 * of a packed projection become one rectangle as soon as all three are written. */
#include "op/region.h"

void rt_region_free(rt_region *g)
{
    if (!g) return;
    rt_free(g->rect);
    *g = (rt_region){ 0 };
}

static bool push(rt_region *g, rt_rect r)
{
    if (r.r0 >= r.r1 || r.c0 >= r.c1) return true;
    if (!rt_grow((void **)&g->rect, &g->cap, g->n + 1, sizeof *g->rect)) return false;
    g->rect[g->n++] = r;
    return true;
}

/* A run of count elements from element off of a grid with C columns: at most a tail, whole rows, and a head. */
static bool push_run(rt_region *g, uint64_t off, uint64_t count, uint32_t C)
{
    uint32_t row = (uint32_t)(off / C), col = (uint32_t)(off % C);
    if (col) {
        uint32_t n = count < C - col ? (uint32_t)count : C - col;
        if (!push(g, (rt_rect){ row, row + 1, col, col + n })) return false;
        count -= n;
        row++;
    }
    uint32_t whole = (uint32_t)(count / C), rest = (uint32_t)(count % C);
    return push(g, (rt_rect){ row, row + whole, 0, C }) && push(g, (rt_rect){ row + whole, row + whole + 1, 0, rest });
}

bool rt_region_of_view(rt_region *out, const rt_buffer *b, rt_view v)
{
    uint64_t C = b->cols, col = v.off % C;
    if (v.rows == 1 || v.stride == v.cols) return push_run(out, v.off, (uint64_t)v.rows * v.cols, b->cols);
    if (v.stride == C && col + v.cols <= C) {
        uint32_t row = (uint32_t)(v.off / C);
        return push(out, (rt_rect){ row, row + v.rows, (uint32_t)col, (uint32_t)col + v.cols });
    }
    for (uint32_t i = 0; i < v.rows; i++)
        if (!push_run(out, v.off + i * v.stride, v.cols, b->cols)) return false;
    return true;
}

static bool meets(rt_rect a, rt_rect b) { return a.r0 < b.r1 && b.r0 < a.r1 && a.c0 < b.c1 && b.c0 < a.c1; }

/* The parts of a outside b: above, below, left, right. */
static bool push_minus(rt_region *out, rt_rect a, rt_rect b)
{
    if (!meets(a, b)) return push(out, a);
    uint32_t r0 = a.r0 > b.r0 ? a.r0 : b.r0, r1 = a.r1 < b.r1 ? a.r1 : b.r1;
    return push(out, (rt_rect){ a.r0, r0, a.c0, a.c1 }) && push(out, (rt_rect){ r1, a.r1, a.c0, a.c1 }) &&
           push(out, (rt_rect){ r0, r1, a.c0, b.c0 }) && push(out, (rt_rect){ r0, r1, b.c1, a.c1 });
}

bool rt_region_subtract(rt_region *left, const rt_region *want, const rt_region *have)
{
    rt_region next = { 0 };
    bool ok = true;
    left->n = 0;
    for (uint32_t i = 0; i < want->n && ok; i++) ok = push(left, want->rect[i]);
    for (uint32_t j = 0; j < have->n && ok && left->n; j++) {
        next.n = 0;
        for (uint32_t i = 0; i < left->n && ok; i++) ok = push_minus(&next, left->rect[i], have->rect[j]);
        rt_region t = *left;
        *left = next;
        next = t;
    }
    rt_region_free(&next);
    return ok;
}

/* Joins a into b when together they are one rectangle. */
static bool join(rt_rect *b, rt_rect a)
{
    if (a.c0 == b->c0 && a.c1 == b->c1 && (a.r1 == b->r0 || b->r1 == a.r0)) {
        b->r0 = a.r0 < b->r0 ? a.r0 : b->r0;
        b->r1 = a.r1 > b->r1 ? a.r1 : b->r1;
        return true;
    }
    if (a.r0 == b->r0 && a.r1 == b->r1 && (a.c1 == b->c0 || b->c1 == a.c0)) {
        b->c0 = a.c0 < b->c0 ? a.c0 : b->c0;
        b->c1 = a.c1 > b->c1 ? a.c1 : b->c1;
        return true;
    }
    return false;
}

bool rt_region_add(rt_region *have, const rt_region *add)
{
    rt_region fresh = { 0 };
    bool ok = rt_region_subtract(&fresh, add, have);
    for (uint32_t i = 0; i < fresh.n && ok; i++) {
        rt_rect r = fresh.rect[i];
        for (uint32_t j = 0; j < have->n;) { /* each success may open another: start over with the grown one */
            if (join(&r, have->rect[j])) {
                have->rect[j] = have->rect[--have->n];
                j = 0;
            } else {
                j++;
            }
        }
        ok = push(have, r);
    }
    rt_region_free(&fresh);
    return ok;
}

bool rt_region_overlap(const rt_region *a, const rt_region *b)
{
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t j = 0; j < b->n; j++)
            if (meets(a->rect[i], b->rect[j])) return true;
    return false;
}

uint64_t rt_region_elems(const rt_region *g)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->n; i++)
        n += (uint64_t)(g->rect[i].r1 - g->rect[i].r0) * (g->rect[i].c1 - g->rect[i].c0);
    return n;
}
