/* rank_device.h - one rank of a test of ops that ranks do together: a device of its own, and a plan on it. */
#ifndef RT_TESTS_RANK_DEVICE_H
#define RT_TESTS_RANK_DEVICE_H

#include "exec/exec.h"
#include "op/emit.h"
#include "thread_peers.h"

typedef struct rank_device {
    rt_dev *d;
    rt_space *space;
    rt_plan *plan;
    rt_exec *x;
} rank_device;

/* Of all sizes, so that another order is another sum. */
static inline float rank_value(uint32_t rank, uint64_t i)
{
    uint64_t z = (i + 1) * 0x9E3779B97F4A7C15ull + rank * 0xBF58476D1CE4E5B9ull;
    z ^= z >> 31;
    z *= 0x94D049BB133111EBull;
    return (float)((double)(z >> 40) / 16777216.0 - 0.5) * (float)(1u << (z % 24));
}

/* ref: in float. */
static inline int rank_device_open(rank_device *r, const char *device, rt_err *e)
{
    int rc;
    const rt_backend *b;
    *r = (rank_device){ 0 };
    RT_TRY(rt_backend_find(device, &b, e));
    RT_TRY(b->open(&r->d, strcmp(device, "ref") == 0, &RT_DEV_OPTIONS({ "threads", "1" }), e));
    RT_TRY(rt_space_new(&r->space, e));
    RT_TRY(rt_plan_new(&r->plan, r->space, "ranks", &rt_policy_f32, e));
out:
    return rc;
}

static inline int rank_device_seal(rank_device *r, rt_peers *p, rt_err *e)
{
    const rt_seal_opts o = { .guards = true, .peers = p->size > 1 ? p : NULL };
    return rt_exec_seal(&r->x, r->d, (const rt_plan *const *)&r->plan, 1, &o, e);
}

static inline void rank_device_close(rank_device *r)
{
    rt_exec_free(r->x);
    rt_plan_free(r->plan);
    rt_space_free(r->space);
    if (r->d) r->d->api->close(r->d);
}

#endif
