/* cpu_mix.c - one teacher more of a mixture, as logits.
 *
 * A chunk is one row: its largest logit, the sum of its exponentials, then the elements. A row whose weight is 0 is a
 * copy of y0, and its x is not read. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_softmax.h"

typedef struct mix_job {
    const rt_bound_op *o;
    const rt_mix_args *a;
    const uint32_t *vmask; /* (V/32) or null */
} mix_job;

/* One row. */
typedef struct mix_row {
    const void *x, *y0; /* (U); (V) or null */
    void *y;            /* (V) */
    float weight, max, shift;
    bool sound;
} mix_row;

static const void *row_of(const rt_operand *o, uint32_t i)
{
    if (!o->mem) return NULL;
    return (const uint8_t *)rt_host_ptr(o) + i * o->stride * rt_dtype_table[o->dtype].block_bytes;
}

/* Columns of a block that Vc may have: all that lie below U. */
static uint32_t columns_below(uint32_t U, uint64_t from, uint32_t n)
{
    return from >= U ? 0 : U - from < n ? (uint32_t)(U - from) : n;
}
/* Lanes i.. of a block whose first n columns may be in Vc. */
RT_INLINE vi lanes_in(const uint32_t *bits, uint32_t i, uint32_t n)
{
    if (i >= n) return (vi){ 0 };
    vi in = lanes_set(bits, i);
    return n - i < VL ? in & lanes_below(n, i) : in;
}
static const uint32_t *bits_at(const mix_job *j, uint64_t from) { return j->vmask ? j->vmask + from / 32 : all_ones; }

static void find_max(const mix_job *j, mix_row *r)
{
    const uint32_t V = j->a->V < j->a->U ? j->a->V : j->a->U;
    const vi abs = (vi){ 0 } + 0x7fffffff;
    _Alignas(64) float copy[ROW_BLOCK];
    vf top = vset(-INFINITY);
    vi largest = { 0 };
    for (uint64_t from = 0; from < V; from += ROW_BLOCK) {
        uint32_t n = V - from < ROW_BLOCK ? (uint32_t)(V - from) : ROW_BLOCK;
        const float *x = as_f32(r->x, j->o->slot[RT_MIX_X].dtype, from, n, copy);
        for (uint32_t i = 0; i < n; i += VL) {
            vi in = lanes_in(bits_at(j, from), i, n);
            vf v = vload(x + i);
            largest = vimax(largest, (vi)v & abs & in);
            top = vmax(top, vselect(in, v, vset(-INFINITY)));
        }
    }
    r->max = block_max(top);
    r->sound = block_imax(largest) < 0x7f800000;
}

/* sum of exp((x - max) / T) over Vc */
static double mass(const mix_job *j, const mix_row *r)
{
    const uint32_t V = j->a->V < j->a->U ? j->a->V : j->a->U;
    const float c = (float)(1.44269504088896340736 / (double)j->a->T);
    _Alignas(64) float copy[ROW_BLOCK];
    double sum = 0;
    for (uint64_t from = 0; from < V; from += ROW_BLOCK) {
        uint32_t n = V - from < ROW_BLOCK ? (uint32_t)(V - from) : ROW_BLOCK;
        const float *x = as_f32(r->x, j->o->slot[RT_MIX_X].dtype, from, n, copy);
        vf part = { 0 };
        for (uint32_t i = 0; i < n; i += VL)
            part += exp2_careful(vload(x + i) - vset(r->max), c, lanes_in(bits_at(j, from), i, n));
        sum += (double)block_sum(part);
    }
    return sum;
}

/* y of lanes in Vc: z0 what was there, x the teacher's */
RT_INLINE vf mixed(const mix_row *r, vf x, vf z0, float T, float inv_T)
{
    const vf floor = vset(RT_MIX_FLOOR);
    vi none = z0 <= floor;
    vf z = vselect(none, floor, z0);
    if (r->weight != 0) {
        vf add = (x - vset(r->max)) + vset(r->shift);
        vi over = z > add;
        vf hi = vselect(over, z, add), lo = vselect(over, add, z);
        vf both = hi + vset(T) * vlog(vset(1.0f) + vexp((lo - hi) * vset(inv_T)));
        z = vselect(none, add, both);
    }
    z = vselect(z < floor, floor, z);
    return r->sound ? z : vset(NAN);
}

static void write_row(const mix_job *j, const mix_row *r)
{
    const rt_operand *slot = j->o->slot;
    const uint32_t V = j->a->V;
    const float T = j->a->T, inv_T = 1.0f / T;
    _Alignas(64) float x_copy[ROW_BLOCK] = { 0 }, z_copy[ROW_BLOCK], out[ROW_BLOCK];
    for (uint64_t from = 0; from < V; from += ROW_BLOCK) {
        uint32_t n = V - from < ROW_BLOCK ? (uint32_t)(V - from) : ROW_BLOCK, known = columns_below(j->a->U, from, n);
        const float *x = x_copy, *z = z_copy;
        if (known && r->weight != 0) x = as_f32(r->x, slot[RT_MIX_X].dtype, from, known, x_copy);
        if (r->y0) z = as_f32(r->y0, slot[RT_MIX_Y0].dtype, from, n, z_copy);
        for (uint32_t i = 0; i < n; i += VL) {
            vi in = lanes_in(bits_at(j, from), i, known);
            vf v = mixed(r, vload(x + i), r->y0 ? vload(z + i) : vset(RT_MIX_FLOOR), T, inv_T);
            vstore(out + i, vselect(in, v, vset(0.0f)));
        }
        RT_FOR_FLOAT(slot[RT_MIX_Y].dtype, D, narrow_loop(r->y, from, out, n, D));
    }
}

static void mix_chunk(void *ctx, uint32_t i, uint32_t worker)
{
    const mix_job *j = ctx;
    const rt_operand *slot = j->o->slot;
    const float *weight = row_of(&slot[RT_MIX_WEIGHT], i);
    mix_row r = { .x = row_of(&slot[RT_MIX_X], i), .y0 = row_of(&slot[RT_MIX_Y0], i), .sound = true };
    (void)worker;
    r.y = (void *)(uintptr_t)row_of(&slot[RT_MIX_Y], i);
    r.weight = j->a->w * (weight ? *weight : 1.0f);
    if (!(r.weight >= 0) || !isfinite(r.weight)) {
        r.sound = false;
    } else if (r.weight > 0) {
        find_max(j, &r);
        if (r.sound) r.shift = (float)(j->a->T * (log(r.weight) - log(mass(j, &r))));
    }
    write_row(j, &r);
}

void RT_CPU(mix_logits)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    mix_job j = { .o = o, .a = &o->args.mix };
    j.vmask = rt_host_ptr(&o->slot[RT_MIX_VMASK]);
    rt_pool_run(c->pool, j.a->N, mix_chunk, &j);
}
RT_CPU_NO_WORK(mix_logits)
