/* large_cases.c - the large cases: one for each op whose time is that of its bytes.
 *
 * The pattern's rows are a prime number, so that an index that is off by a power of two, in elements or in bytes, comes
 * to another row of the pattern. Its columns are those that training has, or close to them, so that the same kernels
 * run. Plain sums over all rows take coarse values: of millions of equal terms the rounding errors would be equal too
 * and add up, where those of real data average out. */
#include "verify/large.h"

#include <stdio.h>

typedef struct entry {
    rt_op_kind kind;
    const char *signature; /* as rt_signature_text has it */
    uint32_t dim[RT_CASE_DIMS];
    uint8_t flag[RT_CASE_FLAGS];
    bool coarse;
} entry;

static const entry entries[] = {
    { RT_OP_EMBED_FWD, "bf16.bf16", { 61, 47, 1536 }, { 0 }, false },
    { RT_OP_EMBED_BWD, "f32.bf16", { 61, 47, 1536 }, { 0 }, true },
    { RT_OP_RMSNORM_FWD, "bf16.bf16", { 61, 1, 1536 }, { 0 }, false },
    { RT_OP_RMSNORM_BWD, "bf16.f32.bf16", { 509, 1, 896 }, { 0 }, false },
    { RT_OP_ADD_RMSNORM_FWD, "bf16.bf16", { 61, 1, 1536 }, { 0 }, false },
    { RT_OP_ADD_RMSNORM_BWD, "bf16.f32.bf16", { 509, 1, 896 }, { 0 }, false },
    { RT_OP_BIAS_GRAD, "f32.bf16", { 61, 1536 }, { 0 }, true },
    { RT_OP_ROPE_FWD, "bf16", { 61, 12, 128 }, { 1 }, false }, /* with heads */
    { RT_OP_ROPE_BWD, "bf16", { 61, 12, 128 }, { 1 }, false },
    { RT_OP_SWIGLU_FWD, "bf16", { 61, 4864 }, { 0 }, false },
    { RT_OP_SWIGLU_BWD, "bf16", { 61, 4864 }, { 0 }, false },
    { RT_OP_ADD, "bf16", { 61, 1536 }, { 0 }, false },
    { RT_OP_SCALE, "bf16", { 61, 1536 }, { 0, 0, 1 }, false }, /* by a factor in memory */
    { RT_OP_CAST, "bf16.f32", { 61, 1536 }, { 0 }, false },
    { RT_OP_COPY, "bf16", { 61, 1536 }, { 0 }, false },
    { RT_OP_FILL, "bf16", { 61, 1536 }, { 1 }, false }, /* with a tenth */
    { RT_OP_DEQUANT, "bf16.q4_k", { 61, 1536 }, { 0 }, false },
    { RT_OP_QUANT, "q8_0.bf16", { 61, 1536 }, { 0 }, false },
    { RT_OP_KD_LOSS, "bf16.bf16", { 13, 32000, 0 }, { 0 }, false },
    { RT_OP_ADAMW, "bf16.f32", { 61, 1536 }, { 1, 0, 2, 1 }, false }, /* clipped, step 1000, decay */
    { RT_OP_NORM_SQ, "f32", { 61, 1536 }, { 0, 1 }, false },          /* with a fault record */
    { RT_OP_TOPK, "bf16", { 13, 32000, 64 }, { 0 }, false },
    { RT_OP_SAMPLE, "bf16", { 13, 32000 }, { 1 }, false }, /* the likeliest: a random number is of its row */
};

static bool find_signature(rt_op_kind kind, const char *text, rt_signature *room, rt_op_case *c)
{
    char buf[RT_SIGNATURE_TEXT];
    uint32_t n = rt_signature_list(kind, room);
    for (c->sig_index = 0; c->sig_index < n; c->sig_index++) {
        c->sig = room[c->sig_index];
        if (strcmp(rt_signature_text(buf, kind, &c->sig), text) == 0) return true;
    }
    return false;
}

static void add_entry(rt_case_list *l, const entry *x, rt_signature *room)
{
    const rt_op_set *set = rt_op_sets[x->kind];
    rt_op_case *p = rt_case_alloc(l, sizeof *p);
    char dims[80] = "";
    if (!p) return;
    *p = (rt_op_case){ .set = set, .coarse = x->coarse };
    memcpy(p->dim, x->dim, sizeof p->dim);
    memcpy(p->flag, x->flag, sizeof p->flag);
    if (!find_signature(x->kind, x->signature, room, p)) {
        rt_fail(&l->err, RT_INTERNAL, "op %s has no signature %s", rt_op_name(x->kind), x->signature);
        return;
    }
    if (set->fix) set->fix(p);
    for (uint32_t i = 0, n = 0; i < set->ndims; i++)
        n += (uint32_t)snprintf(dims + n, sizeof dims - n, "%s%u", i ? "x" : "", p->dim[i]);
    rt_case *c = rt_case_add(l, rt_op_name(x->kind), "%s/%s/%s/repeated", rt_op_name(x->kind), x->signature, dims);
    if (!c) return;
    p->name = c->name;
    c->quick = c->large = true;
    c->run = rt_large_case_run;
    c->data = p;
}

static void add(rt_case_list *l)
{
    rt_signature *room = rt_case_alloc(l, RT_SIGNATURES_MAX * sizeof *room);
    for (uint32_t i = 0; room && i < RT_COUNT(entries); i++) add_entry(l, &entries[i], room);
}
const rt_case_family rt_family_large = { "large", add };
