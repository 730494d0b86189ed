/* vk_program.c - programs: ops become dispatches, dispatches become commands, running is submitting the commands.
 *
 * Owns: the builder that op families push into, preparing (the same ops on memory that is only promised, so that all
 * pipelines are made before anything is allocated), sealing, running. The operands of all dispatches lie in one buffer
 * of the program, so nothing but its address is told at a dispatch. */
#include "backend/vulkan/vk_internal.h"
#include "backend/vulkan/vk_op.h"
#include "backend/vulkan/vk_order.h"

typedef struct operands {
    rt_vk_slot slot[RT_MAX_SLOTS + 1]; /* the last is the scratch */
} operands;

/* Push constants; the arguments of every op fit. */
typedef struct pushed {
    uint64_t operands; /* address */
    uint32_t word[RT_VK_WORDS];
    uint32_t args[26];
} pushed;
_Static_assert(sizeof(pushed) == RT_VK_PUSH_BYTES, "what every device takes");
#define X(kind, name, member, text)                                                                                    \
    _Static_assert(sizeof((rt_args){ 0 }.member) <= sizeof((pushed){ 0 }.args), "arguments of " #name);
RT_OP_LIST(X)
#undef X

typedef struct dispatch {
    uint32_t op; /* of the program */
    const char *shader;
    VkPipeline pipeline;
    bool barrier; /* before it */
    pushed push;  /* its operands: the index of a struct of those, until the buffer has an address */
    uint32_t groups;
    rt_vk_fetch fetch; /* instead of all that, if it has a reader */
} dispatch;

/* What is given to the queue at once: dispatches, or one fetch. */
typedef struct part {
    uint32_t first, n; /* of the list */
    VkCommandBuffer commands;
} part;

struct rt_prog {
    dispatch *list;
    uint32_t n, cap;
    operands *operands; /* one struct for each op */
    uint32_t noperands, operands_cap;
    rt_op_kind *kinds; /* (nops) for messages */
    rt_mem *table;     /* the operands on the device */
    part *parts;       /* one, but for fetches; with --sync one for each dispatch */
    uint32_t nparts, parts_cap;
};

struct rt_vk_builder {
    rt_vk_dev *d;
    rt_prog *prog;
    rt_vk_order order;
    uint32_t op;  /* that is being emitted */
    bool barrier; /* before its next dispatch */
    rt_err err;   /* sticky */
};

/* ---- the builder ---- */

static rt_vk_slot slot_of(const rt_operand *o)
{
    if (!o->mem) return (rt_vk_slot){ 0 };
    uint64_t base = o->mem == RT_MEM_PROMISED ? 256 : o->mem->addr;
    return (rt_vk_slot){ base + o->off, o->stride, o->dtype, o->cols };
}

static bool same_operands(const operands *a, const operands *b) { return memcmp(a, b, sizeof *a) == 0; }

static void put_operands(rt_vk_builder *b, const rt_bound_op *o, uint32_t *index)
{
    rt_prog *g = b->prog;
    operands mine = { 0 };
    for (uint32_t i = 0; i < o->nslots; i++) mine.slot[i] = slot_of(&o->slot[i]);
    mine.slot[RT_MAX_SLOTS] = slot_of(&o->work);
    *index = g->noperands - 1;
    if (g->noperands && same_operands(&g->operands[*index], &mine)) return;
    if (!rt_grow((void **)&g->operands, &g->operands_cap, g->noperands + 1, sizeof mine)) {
        rt_fail(&b->err, RT_NOMEM, "no memory for operands");
        return;
    }
    *index = g->noperands++;
    g->operands[*index] = mine;
}

void rt_vk_push(rt_vk_builder *b, const rt_bound_op *o, const rt_vk_dispatch *how)
{
    rt_prog *g = b->prog;
    uint32_t index = 0;
    uint64_t most = b->d->gpu.groups;
    if (b->err.status < 0 || how->items == 0) return;
    dispatch l = { .op = b->op,
                   .shader = how->shader,
                   .barrier = b->barrier,
                   .groups = (uint32_t)(how->items < most ? how->items : most) };
    rt_vk_pipeline_find(b->d, how->shader, how->spec, &l.pipeline, &b->err);
    put_operands(b, o, &index);
    if (b->err.status >= 0 && !rt_grow((void **)&g->list, &g->cap, g->n + 1, sizeof l))
        rt_fail(&b->err, RT_NOMEM, "no memory for a dispatch");
    if (b->err.status < 0) return;
    l.push.operands = index;
    l.push.word[0] = o->acc;
    for (uint32_t i = 0; i < o->nslots; i++) l.push.word[1] |= (uint32_t)(o->slot[i].mem != NULL) << i;
    memcpy(&l.push.word[2], how->own, sizeof how->own);
    memcpy(l.push.args, &o->args, sizeof l.push.args);
    g->list[g->n++] = l;
    b->barrier = true; /* dispatches of one op hand on what they find */
}

void rt_vk_push_fetch(rt_vk_builder *b, const rt_operand *y, const rt_operand *x)
{
    rt_prog *g = b->prog;
    dispatch l = { .op = b->op, .shader = "a file", .barrier = true };
    l.fetch = (rt_vk_fetch){ y->mem, y->off, x->rows * rt_dtype_bytes(x->dtype, x->cols), x->off, x->reader };
    if (b->err.status >= 0 && !rt_grow((void **)&g->list, &g->cap, g->n + 1, sizeof l))
        rt_fail(&b->err, RT_NOMEM, "no memory for a copy");
    if (b->err.status >= 0) g->list[g->n++] = l;
}

static int emit_all(rt_vk_dev *d, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e)
{
    int rc = RT_OK;
    rt_prog *g = rt_alloc_zero(sizeof *g, 16);
    rt_vk_builder b = { .d = d, .prog = g };
    *out = NULL;
    if (g && nops) g->kinds = rt_alloc(nops * sizeof *g->kinds, 16);
    if (!g || (nops && !g->kinds)) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a program of %u ops", nops));
    for (uint32_t i = 0; i < nops; i++) {
        b.op = i;
        g->kinds[i] = ops[i].kind;
        if (rt_vk_order_op(&b.order, &ops[i], &b.barrier) < 0) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for barriers"));
        rt_vk_op_find(ops[i].kind)->emit(&b, &ops[i]);
        if (b.err.status >= 0) continue;
        if (e) *e = b.err;
        rt_err_context(e, "op %u (%s)", i, rt_op_name(ops[i].kind));
        RT_TRY(b.err.status);
    }
    *out = g;
    g = NULL;
out:
    rt_vk_order_free(&b.order);
    rt_vk_prog_free(&d->base, g);
    return rc;
}

int rt_vk_prepare(rt_dev *dev, const rt_bound_op *ops, uint32_t nops, rt_err *e)
{
    rt_vk_dev *d = (rt_vk_dev *)dev;
    rt_prog *dry = NULL;
    bool sealed = d->sealed;
    d->sealed = false; /* what is made now is in time */
    int rc = emit_all(d, ops, nops, &dry, e);
    d->sealed = sealed;
    rt_vk_prog_free(dev, dry);
    return rc;
}

/* ---- recording ---- */

/* The operands go to the device, and every dispatch knows where its own are. */
static int place_operands(rt_vk_dev *d, rt_prog *g, rt_err *e)
{
    int rc;
    uint64_t bytes = (uint64_t)g->noperands * sizeof *g->operands;
    RT_TRY(rt_vk_mem_new(&d->base, bytes, RT_MEM_DEVICE, &g->table, e));
    const rt_copy c = { .mem = g->table, .bytes = bytes, .host = g->operands, .to_device = true };
    RT_TRY(rt_vk_mem_copy(&d->base, &c, NULL, e));
    for (uint32_t i = 0; i < g->n; i++)
        if (!g->list[i].fetch.reader)
            g->list[i].push.operands = g->table->addr + g->list[i].push.operands * sizeof *g->operands;
out:
    return rc;
}

static int record(rt_vk_dev *d, const rt_prog *g, const part *p, rt_err *e)
{
    int rc = rt_vk_commands_begin(d, p->commands, true, e);
    if (rc < 0) return rc;
    for (uint32_t i = p->first; i < p->first + p->n; i++) {
        const dispatch *l = &g->list[i];
        if (i > p->first && l->barrier) rt_vk_barrier(d, p->commands);
        d->vk.bind(p->commands, VK_PIPELINE_BIND_POINT_COMPUTE, l->pipeline);
        d->vk.push(p->commands, d->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof l->push, &l->push);
        d->vk.dispatch(p->commands, l->groups, 1, 1);
    }
    return rt_vk_status(d->vk.commands_end(p->commands), e, "recording %u dispatches", p->n);
}

/* Dispatches between fetches are one part. */
static int cut(const rt_vk_dev *d, rt_prog *g, rt_err *e)
{
    for (uint32_t i = 0; i < g->n; i++) {
        bool goes_on = i && !d->sync && !g->list[i].fetch.reader && !g->list[i - 1].fetch.reader;
        if (goes_on) {
            g->parts[g->nparts - 1].n++;
            continue;
        }
        if (!rt_grow((void **)&g->parts, &g->parts_cap, g->nparts + 1, sizeof *g->parts))
            return rt_fail(e, RT_NOMEM, "no memory for commands");
        g->parts[g->nparts++] = (part){ .first = i, .n = 1 };
    }
    return RT_OK;
}

static int record_all(rt_vk_dev *d, rt_prog *g, rt_err *e)
{
    int rc;
    const VkCommandBufferAllocateInfo info = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                               .commandPool = d->pool,
                                               .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                               .commandBufferCount = 1 };
    RT_TRY(cut(d, g, e));
    for (uint32_t i = 0; i < g->nparts; i++) {
        if (g->list[g->parts[i].first].fetch.reader) continue;
        RT_TRY(rt_vk_status(d->vk.commands_new(d->device, &info, &g->parts[i].commands), e, "making commands"));
        RT_TRY(record(d, g, &g->parts[i], e));
    }
out:
    return rc;
}

int rt_vk_seal(rt_dev *dev, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e)
{
    rt_vk_dev *d = (rt_vk_dev *)dev;
    int rc;
    rt_prog *g = NULL;
    *out = NULL;
    d->sealed = false;
    RT_TRY(emit_all(d, ops, nops, &g, e));
    RT_TRY(place_operands(d, g, e));
    RT_TRY(record_all(d, g, e));
    RT_TRY(rt_vk_wait(dev, d->submitted, e));
    *out = g;
    g = NULL;
out:
    d->sealed = true;
    rt_vk_prog_free(dev, g);
    return rc;
}

/* ---- running ---- */

/* Part by part, with the host between them: what a fetch reads is read while the device is at what came before. */
static int run_parts(rt_vk_dev *d, rt_prog *g, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < g->nparts; i++) {
        const part *p = &g->parts[i];
        const dispatch *l = &g->list[p->first];
        rc = l->fetch.reader ? rt_vk_fetch_run(d, &l->fetch, e) : rt_vk_submit(d, &p->commands, 1, NULL, e);
        if (rc >= 0 && d->sync) rc = rt_vk_wait(&d->base, d->submitted, e);
        if (rc < 0 && d->sync) rt_err_context(e, "op %u (%s), %s", l->op, rt_op_name(g->kinds[l->op]), l->shader);
        RT_TRY(rc);
    }
out:
    return rc;
}

int rt_vk_run(rt_dev *dev, rt_prog *g, rt_ticket *t, rt_err *e)
{
    rt_vk_dev *d = (rt_vk_dev *)dev;
    int rc = RT_OK;
    uint32_t pair, n = 0;
    const VkCommandBuffer *mark = rt_vk_clock_next(d, &pair);
    VkCommandBuffer all[3];
    if (mark) all[n++] = mark[0];
    if (g->nparts == 1 && g->parts[0].commands && !d->sync)
        all[n++] = g->parts[0].commands;
    else {
        if (mark) RT_TRY(rt_vk_submit(d, all, n, NULL, e));
        RT_TRY(run_parts(d, g, e));
        n = 0;
    }
    if (mark) all[n++] = mark[1];
    if (n) RT_TRY(rt_vk_submit(d, all, n, NULL, e));
    if (mark) d->clock.of[pair] = d->submitted;
    if (t) *t = d->submitted;
out:
    return rc;
}

void rt_vk_prog_free(rt_dev *dev, rt_prog *g)
{
    rt_vk_dev *d = (rt_vk_dev *)dev;
    if (!g) return;
    rt_vk_wait(dev, d->submitted, NULL);
    for (uint32_t i = 0; i < g->nparts; i++)
        if (g->parts[i].commands) d->vk.commands_free(d->device, d->pool, 1, &g->parts[i].commands);
    rt_vk_mem_free(dev, g->table);
    rt_free(g->parts);
    rt_free(g->list);
    rt_free(g->operands);
    rt_free(g->kinds);
    rt_free(g);
}
