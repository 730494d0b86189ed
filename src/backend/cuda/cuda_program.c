/* cuda_program.c - programs: ops become launches, launches become one graph, running is launching the graph.
 *
 * Owns: the builder that op families push into, preparing (the same ops on memory that is only promised, so that all
 * code is loaded before anything is allocated), sealing, running. Every function that a graph launches, ours or a
 * library's, is known to be loaded when seal returns: nothing is left to load or to compile while training. */
#include "backend/cuda/cuda_op.h"
#include "backend/cuda/cuda_policy.h"
#include "backend/cuda/cuda_ranks.h"
#include "backend/cuda/kernels/cuda_sums.h"

#include <stdio.h>
#include <string.h>

typedef struct launch {
    uint32_t op;        /* of the program; of several that are taken together, the first */
    rt_cuda_gemm *gemm; /* null: a kernel of ours */
    rt_cuda_gemm_io io; /* of gemm */
    const char *name;   /* of the kernel */
    rt_cu_function function;
    uint32_t grid[3], block, shared;
    uint32_t cluster;            /* blocks of one; 0: blocks by themselves */
    uint32_t params;             /* offset in the program's parameters */
    rt_cuda_fetch fetch;         /* of the copy queue; else its d is null */
    uint32_t first, collectives; /* so many of the program's from that one on; 0: it is none */
    rt_queue queue;
    uint32_t after[RT_QUEUE_COUNT]; /* 1 + the last launch of each other queue that it waits for; 0: none */
    rt_cu_event done;               /* that others wait for; null: none does */
} launch;

/* A program is one graph, or where the host does something in between, graphs and what it does behind each. */
typedef struct segment {
    uint32_t first, end; /* launches of the graph */
    bool host;           /* launch `end` is the host's */
    bool uses[RT_QUEUE_COUNT];
    rt_cu_graph_exec graph; /* null: no launches, or --sync */
} segment;

struct rt_prog {
    launch *launches;
    uint32_t nlaunches, launches_cap;
    uint8_t *params;
    uint32_t nparams, params_cap; /* bytes */
    rt_op_kind *kinds;            /* (nops) for messages */
    uint32_t *ended;              /* (nops) launches there were when the op had been emitted */
    rt_cuda_collective *collectives;
    uint32_t ncollectives, collectives_cap;
    bool reads;                         /* the copy queue reads files */
    rt_cu_event begun;                  /* of the other queues, where the compute queue is then */
    rt_cu_event joined[RT_QUEUE_COUNT]; /* of each other queue */
    segment *segments;
    uint32_t nsegments, segments_cap;
};

/* Sums that were asked for and not launched yet. */
typedef struct waiting {
    rt_cuda_columns_params sums;
    rt_operand out[RT_CUDA_COLUMNS_RUN];
    uint32_t op; /* the first that asked */
} waiting;

struct rt_cuda_builder {
    rt_cuda_dev *d;
    rt_prog *prog;
    const rt_bound_op *ops;
    waiting later;
    uint32_t op;                                    /* that is being emitted */
    uint32_t after[RT_QUEUE_COUNT][RT_QUEUE_COUNT]; /* of the next launch on each queue, as launch.after */
    uint32_t neighbours, took; /* ops of its kind from it on; of those, how many are emitted with it */
    rt_err err;                /* sticky */
};

/* ---- the builder ---- */

const rt_cuda_caps *rt_cuda_builder_caps(const rt_cuda_builder *b) { return &b->d->caps; }
rt_cuda_dev *rt_cuda_builder_dev(rt_cuda_builder *b) { return b->d; }
uint32_t rt_cuda_neighbours(const rt_cuda_builder *b) { return b->neighbours; }
void rt_cuda_took(rt_cuda_builder *b, uint32_t n) { b->took = n; }

void rt_cuda_builder_fail(rt_cuda_builder *b, int status, const char *text)
{
    if (b->err.status >= 0) rt_fail(&b->err, status, "%s", text);
}

uint64_t rt_cuda_addr(const rt_operand *o)
{
    enum { PROMISED_AT = 1 << 30 }; /* as aligned as an allocation; never used as an address */
    if (!o->mem) return 0;
    return (o->mem == RT_MEM_PROMISED ? PROMISED_AT : o->mem->addr) + o->off;
}

void rt_cuda_panel_map(rt_cuda_builder *b, rt_cuda_tensor_map *out, uint64_t at, uint64_t stride, uint32_t cols,
                       uint32_t T, uint32_t B)
{
    const uint64_t sizes[3] = { cols, T, B }, strides[2] = { 2 * stride, 2 * stride * T };
    const unsigned box[3] = { 64, 64, 1 }, steps[3] = { 1, 1, 1 };
    if (b->err.status < 0) return;
    int result = b->d->cu.tensor_map(out, RT_CU_MAP_BF16, 3, (void *)(uintptr_t)at, sizes, strides, box, steps, 0,
                                     RT_CU_MAP_SWIZZLE_128, RT_CU_MAP_L2_256, 0);
    rt_cuda_status(&b->d->cu, result, &b->err, "describing a matrix of %u x %u rows of %u columns", B, T, cols);
}

static launch *add(rt_cuda_builder *b)
{
    rt_prog *g = b->prog;
    if (b->err.status < 0) return NULL;
    if (!rt_grow((void **)&g->launches, &g->launches_cap, g->nlaunches + 1, sizeof *g->launches)) {
        rt_fail(&b->err, RT_NOMEM, "no memory for a list of launches");
        return NULL;
    }
    launch *l = &g->launches[g->nlaunches++];
    *l = (launch){ .op = b->op, .queue = b->ops[b->op].queue };
    return l;
}

static void push(rt_cuda_builder *b, const char *module, const char *kernel, const uint32_t grid[3], uint32_t cluster,
                 uint32_t block, uint32_t shared, const void *params, uint32_t bytes)
{
    rt_prog *g = b->prog;
    launch *l = add(b);
    if (!l) return;
    if (!grid[0] || !grid[1] || !grid[2] || grid[1] > 65535 || grid[2] > 65535 || !block || block > 1024 ||
        bytes > RT_CUDA_PARAM_MAX || shared > b->d->caps.shared_max) {
        rt_fail(&b->err, RT_INTERNAL, "%s cannot be launched with %u x %u x %u blocks of %u threads, %u bytes shared",
                kernel, grid[0], grid[1], grid[2], block, shared);
        return;
    }
    uint32_t at = (uint32_t)rt_align_up(g->nparams, 16);
    if (!rt_grow((void **)&g->params, &g->params_cap, at + bytes, 1)) {
        rt_fail(&b->err, RT_NOMEM, "no memory for the parameters of a launch");
        return;
    }
    if (bytes) memcpy(g->params + at, params, bytes);
    g->nparams = at + bytes;
    l->name = kernel;
    memcpy(l->grid, grid, sizeof l->grid);
    l->block = block;
    l->shared = shared;
    l->cluster = cluster;
    l->params = at;
    rt_cuda_function_get(b->d, module, kernel, shared, &l->function, &b->err);
}

void rt_cuda_push(rt_cuda_builder *b, const char *module, const char *kernel, const uint32_t grid[3], uint32_t block,
                  uint32_t shared, const void *params, uint32_t bytes)
{
    push(b, module, kernel, grid, 0, block, shared, params, bytes);
}

void rt_cuda_push_clusters(rt_cuda_builder *b, const char *module, const char *kernel, uint32_t clusters,
                           uint32_t blocks, uint32_t threads, uint32_t shared, const void *params, uint32_t bytes)
{
    const uint32_t grid[3] = { clusters * blocks, 1, 1 };
    push(b, module, kernel, grid, blocks > 1 ? blocks : 0, threads, shared, params, bytes);
}

uint32_t rt_cuda_at_once(rt_cuda_builder *b, const char *module, const char *kernel, uint32_t blocks, uint32_t threads,
                         uint32_t shared)
{
    const rt_cuda_driver *cu = &b->d->cu;
    rt_cu_function f;
    int n = 0, result;
    rt_cu_launch_attribute cluster = { .id = RT_CU_LAUNCH_CLUSTER, .value.blocks = { blocks, 1, 1 } };
    rt_cu_launch how = {
        .grid = { blocks, 1, 1 }, .block = { threads, 1, 1 }, .shared = shared, .attributes = &cluster, .nattributes = 1
    };
    if (b->err.status < 0 || !cu->max_blocks || !cu->max_clusters) return 0;
    if (rt_cuda_function_get(b->d, module, kernel, shared, &f, &b->err) < 0) return 0;
    if (blocks > 1)
        result = cu->max_clusters(&n, f, &how);
    else
        result = cu->max_blocks(&n, f, (int)threads, shared);
    if (result != RT_CU_SUCCESS || n <= 0) return 0;
    return (uint32_t)n * (blocks > 1 ? 1 : b->d->caps.sms);
}

/* On the copy queue, in as many pieces as the stage wants where it is read. */
void rt_cuda_push_fetch(rt_cuda_builder *b, const rt_operand *y, const rt_operand *x)
{
    uint64_t bytes = x->rows * rt_dtype_bytes(x->dtype, x->cols), most = rt_cuda_fetch_piece(x);
    if (!most)
        rt_fail(&b->err, RT_UNSUPPORTED, "a row of more than %u bytes is read from no file", RT_CUDA_STAGE_BYTES);
    for (uint64_t at = 0; most && at < bytes; at += most) {
        launch *l = add(b);
        if (!l) return;
        l->fetch = (rt_cuda_fetch){ .d = b->d,
                                    .to = rt_cuda_addr(y) + at,
                                    .from = (x->reader ? x->off : rt_cuda_addr(x)) + at,
                                    .bytes = bytes - at < most ? bytes - at : most,
                                    .reader = x->reader };
    }
    b->prog->reads = b->prog->reads || x->reader;
}

void rt_cuda_push_collectives(rt_cuda_builder *b, const rt_cuda_collective *list, uint32_t count)
{
    rt_prog *g = b->prog;
    launch *l = add(b);
    if (!rt_grow((void **)&g->collectives, &g->collectives_cap, g->ncollectives + count, sizeof *g->collectives)) {
        rt_cuda_builder_fail(b, RT_NOMEM, "no memory for a list of collectives");
        for (uint32_t i = 0; i < count; i++) rt_free(list[i].part);
        return;
    }
    memcpy(g->collectives + g->ncollectives, list, count * sizeof *list);
    if (l) l->first = g->ncollectives;
    if (l) l->collectives = count;
    g->ncollectives += count;
}

void rt_cuda_push_gemm(rt_cuda_builder *b, rt_cuda_gemm *gemm, const rt_cuda_gemm_io *io)
{
    launch *l = add(b);
    if (!l || rt_cuda_gemm_use(b->d, gemm, &b->err) < 0) return;
    l->gemm = gemm;
    l->io = *io;
}

/* ---- sums that wait for company: a launch costs as much as adding up dozens of them ---- */

static void launch_sums(rt_cuda_builder *b)
{
    waiting *w = &b->later;
    uint32_t op = b->op;
    if (!w->sums.count) return;
    b->op = w->op;
    cuda_push_1d(b, "cuda_sums", "sum_columns", w->sums.blocks, RT_CUDA_COLUMNS_BLOCK, 0, &w->sums, sizeof w->sums);
    b->op = op;
    w->sums.count = w->sums.blocks = 0;
}

static bool awaits(const waiting *w, const rt_operand *o)
{
    for (uint32_t i = 0; i < w->sums.count; i++)
        if (cuda_meet(&w->out[i], o)) return true;
    return false;
}

/* Does one of these ops touch what a sum will be written to? */
static bool any_awaits(const waiting *w, const rt_bound_op *ops, uint32_t n)
{
    for (uint32_t i = 0; i < n && w->sums.count; i++)
        for (uint32_t k = 0; k < ops[i].nslots; k++)
            if (awaits(w, &ops[i].slot[k])) return true;
    return false;
}

void rt_cuda_sum_later(rt_cuda_builder *b, const rt_operand *out, uint64_t part, uint32_t P, bool acc)
{
    waiting *w = &b->later;
    if (w->sums.count == RT_CUDA_COLUMNS_RUN) launch_sums(b);
    if (!w->sums.count) w->op = b->op;
    w->out[w->sums.count] = *out;
    w->sums.tensor[w->sums.count++] = (rt_cuda_columns){ .out = rt_cuda_addr(out),
                                                         .part = part,
                                                         .C = out->cols,
                                                         .P = P,
                                                         .dtype = out->dtype,
                                                         .acc = acc,
                                                         .first = w->sums.blocks };
    w->sums.blocks += (uint32_t)cuda_div_up(out->cols, RT_CUDA_COLUMNS_WIDE);
}

/* ---- from ops to launches ---- */

void rt_cuda_prog_free(rt_dev *dev, rt_prog *g)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    if (!g) return;
    rt_cuda_enter(d, NULL);
    for (uint32_t i = 0; i < g->nsegments; i++)
        if (g->segments[i].graph) d->cu.graph_exec_free(g->segments[i].graph);
    if (g->begun) d->cu.event_free(g->begun);
    for (int q = 0; q < RT_QUEUE_COUNT; q++)
        if (g->joined[q]) d->cu.event_free(g->joined[q]);
    for (uint32_t i = 0; i < g->nlaunches; i++)
        if (g->launches[i].done) d->cu.event_free(g->launches[i].done);
    rt_free(g->ended);
    rt_free(g->launches);
    rt_free(g->params);
    for (uint32_t i = 0; i < g->ncollectives; i++) rt_free(g->collectives[i].part);
    rt_free(g->collectives);
    rt_free(g->segments);
    rt_free(g->kinds);
    rt_free(g);
}

static rt_cu_stream stream_of(const rt_cuda_dev *d, rt_queue queue)
{
    return d->sync || queue == RT_QUEUE_COMPUTE ? d->stream
           : queue == RT_QUEUE_COPY             ? d->copies
                                                : rt_cuda_ranks_stream(d);
}

static bool waits(const launch *l)
{
    bool any = false;
    for (int q = 0; q < RT_QUEUE_COUNT; q++) any = any || l->after[q];
    return any;
}

static bool belongs(const rt_bound_op *a, const rt_bound_op *b) { return a->kind == b->kind && a->queue == b->queue; }

/* Launches from `first` on were made of ops b->op to b->op + took: what those wait for, the first of their queue does.
 * Nothing launched: the next one. */
static void put_order(rt_cuda_builder *b, uint32_t first, uint32_t took)
{
    rt_prog *g = b->prog;
    rt_queue queue = b->ops[b->op].queue;
    for (uint32_t t = b->op; t < b->op + took; t++) {
        for (uint32_t r = 0; r < RT_QUEUE_COUNT; r++) {
            uint32_t after = b->ops[t].after[r] ? g->ended[b->ops[t].after[r] - 1] : 0;
            if (after > b->after[queue][r]) b->after[queue][r] = after;
        }
        g->ended[t] = g->nlaunches;
    }
    while (first < g->nlaunches && g->launches[first].queue != queue) first++;
    if (first == g->nlaunches) return;
    memcpy(g->launches[first].after, b->after[queue], sizeof b->after[queue]);
    memset(b->after[queue], 0, sizeof b->after[queue]);
}

static int emit_all(rt_cuda_dev *d, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e)
{
    int rc;
    rt_prog *g = rt_alloc_zero(sizeof *g, 16);
    rt_cuda_builder b = { .d = d, .prog = g, .ops = ops };
    *out = NULL;
    if (g && nops) g->kinds = rt_alloc(nops * sizeof *g->kinds, 16);
    if (g && nops) g->ended = rt_alloc_zero(nops * sizeof *g->ended, 16);
    if (!g || (nops && (!g->kinds || !g->ended)))
        RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a program of %u ops", nops));
    for (uint32_t i = 0; i < nops; i++) g->kinds[i] = ops[i].kind;
    for (uint32_t i = 0; i < nops; i += b.took) {
        b.op = i;
        uint32_t first = g->nlaunches;
        b.took = b.neighbours = 1;
        while (i + b.neighbours < nops && belongs(&ops[i + b.neighbours], &ops[i])) b.neighbours++;
        if (any_awaits(&b.later, &ops[i], b.neighbours)) {
            launch_sums(&b);
            if (ops[i].queue != RT_QUEUE_COMPUTE) b.after[ops[i].queue][RT_QUEUE_COMPUTE] = g->nlaunches;
        }
        rt_cuda_op_find(ops[i].kind)->emit(&b, &ops[i]);
        put_order(&b, first, b.took);
        if (i + b.took >= nops) launch_sums(&b);
        if (b.err.status < 0) {
            if (e) *e = b.err;
            rt_err_context(e, "op %u (%s)", i, rt_op_name(ops[i].kind));
            RT_TRY(b.err.status);
        }
    }
    *out = g;
    return RT_OK;
out:
    rt_cuda_prog_free(&d->base, g);
    return rc;
}

static int free_bytes(rt_cuda_dev *d, uint64_t *out, rt_err *e)
{
    size_t left = 0, total = 0;
    int rc = rt_cuda_status(&d->cu, d->cu.memory_info(&left, &total), e, "asking for free memory");
    *out = left;
    return rc;
}

int rt_cuda_prepare(rt_dev *dev, const rt_bound_op *ops, uint32_t nops, rt_err *e)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    int rc;
    rt_prog *dry = NULL;
    uint64_t before, after;
    bool sealed = d->sealed;
    RT_TRY(rt_cuda_enter(d, e));
    d->sealed = false; /* what is loaded now is in time */
    RT_TRY(free_bytes(d, &before, e));
    RT_TRY(emit_all(d, ops, nops, &dry, e));
    RT_TRY(rt_cuda_gemms_warm(d, e));
    RT_TRY(free_bytes(d, &after, e));
    if (before > after) d->module_bytes += before - after;
    rt_cuda_tune_write(d);
out:
    d->sealed = sealed;
    rt_cuda_prog_free(dev, dry);
    return rc;
}

/* ---- launching ---- */

static int launch_one(rt_cuda_dev *d, const rt_prog *g, launch *l, rt_err *e)
{
    const rt_cu_stream on = stream_of(d, l->queue);
    if (l->fetch.d) return rt_cuda_fetch_run(&l->fetch, on, e);
    if (l->collectives) return rt_cuda_collectives_enqueue(d, g->collectives + l->first, l->collectives, on, e);
    if (l->gemm) return rt_cuda_gemm_run(d, l->gemm, &l->io, e);
    void *params[] = { g->params + l->params };
    rt_cu_launch_attribute attributes[2];
    unsigned n = 0;
    /* Not behind another queue, whose end no kernel waits for by itself. */
    if (!waits(l) && l->queue == RT_QUEUE_COMPUTE && rt_cuda_may_overlap(d->caps.sm, d->cu.version))
        attributes[n++] = (rt_cu_launch_attribute){ .id = RT_CU_LAUNCH_OVERLAP, .value.flag = 1 };
    if (l->cluster)
        attributes[n++] = (rt_cu_launch_attribute){ .id = RT_CU_LAUNCH_CLUSTER, .value.blocks = { l->cluster, 1, 1 } };
    rt_cu_launch how = { .grid = { l->grid[0], l->grid[1], l->grid[2] },
                         .block = { l->block, 1, 1 },
                         .shared = l->shared,
                         .stream = on,
                         .attributes = attributes,
                         .nattributes = n };
    int result = d->cu.launch(&how, l->function, params, NULL);
    return rt_cuda_status(&d->cu, result, e, "launching %s", l->name);
}

static int name_op(const rt_prog *g, const launch *l, int rc, rt_err *e)
{
    if (rc < 0) rt_err_context(e, "op %u (%s)", l->op, rt_op_name(g->kinds[l->op]));
    return rc;
}

static const char *text_of(const launch *l)
{
    return l->fetch.d ? "a copy" : l->collectives ? "a sum over ranks" : l->gemm ? "cuBLASLt" : l->name;
}

/* What the host does between two graphs: sums over ranks where NCCL is not. */
static bool is_hosts(const rt_cuda_dev *d, const launch *l) { return l->collectives && rt_cuda_ranks_staged(d); }

static int host_one(rt_cuda_dev *d, const rt_prog *g, const launch *l, rt_err *e)
{
    return rt_cuda_collectives_stage(d, g->collectives + l->first, l->collectives, e);
}

/* One after the other, in the order of the ops. */
static int launch_in_turn(rt_cuda_dev *d, const rt_prog *g, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < g->nlaunches; i++) {
        launch *l = &g->launches[i];
        RT_TRY(name_op(g, l, is_hosts(d, l) ? host_one(d, g, l, e) : launch_one(d, g, l, e), e));
        rc = rt_cuda_status(&d->cu, d->cu.stream_wait(d->stream), e, "running %s", text_of(l));
        if (rc >= 0) rc = rt_cuda_aside_status(d, e);
        RT_TRY(name_op(g, l, rc, e));
    }
out:
    return rc;
}

/* Stream b goes on when what is on stream a by now is done. */
static int follow(rt_cuda_dev *d, rt_cu_event event, rt_cu_stream a, rt_cu_stream b, rt_err *e)
{
    int rc;
    RT_TRY(rt_cuda_status(&d->cu, d->cu.event_record(event, a), e, "recording an event"));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.stream_after(b, event, 0), e, "ordering two queues"));
out:
    return rc;
}

/* When things were so far on the streams of a program: events of each launch, those that were not asked for null. */
enum { AT_BEGIN, AT_TURN, AT_END, MARKS }; /* the launch before it is done; so is what it waits for; so is it */
typedef struct stopwatch {
    rt_cu_event (*at)[MARKS]; /* (nlaunches) */
} stopwatch;

/* Of a launch of the compute queue that waits for another one; of every one of the others. */
static int mark(rt_cuda_dev *d, const stopwatch *w, const rt_prog *g, uint32_t i, int when, rt_err *e)
{
    int rc;
    const launch *l = &g->launches[i];
    bool beside = l->queue != RT_QUEUE_COMPUTE;
    if (!w || (beside ? when == AT_BEGIN : !waits(l) || when == AT_END)) return RT_OK;
    rt_cu_event *at = &w->at[i][when];
    RT_TRY(rt_cuda_status(&d->cu, d->cu.event_new(at, 0), e, "making an event"));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.event_record(*at, stream_of(d, l->queue)), e, "recording an event"));
out:
    return rc;
}

/* The other queues leave the compute queue at the beginning and come back at the end. watch: null, or what is
 * measured. */
static int launch_all(rt_cuda_dev *d, const rt_prog *g, const segment *p, const stopwatch *watch, rt_err *e)
{
    int rc = RT_OK;
    for (int q = 0; q < RT_QUEUE_COUNT; q++)
        if (p->uses[q]) RT_TRY(follow(d, g->begun, d->stream, stream_of(d, (rt_queue)q), e));
    for (uint32_t i = p->first; i < p->end; i++) {
        launch *l = &g->launches[i];
        rt_cu_stream on = stream_of(d, l->queue);
        RT_TRY(mark(d, watch, g, i, AT_BEGIN, e));
        for (int q = 0; q < RT_QUEUE_COUNT; q++)
            if (l->after[q])
                RT_TRY(rt_cuda_status(&d->cu, d->cu.stream_after(on, g->launches[l->after[q] - 1].done, 0), e,
                                      "ordering two queues"));
        RT_TRY(mark(d, watch, g, i, AT_TURN, e));
        RT_TRY(name_op(g, l, launch_one(d, g, l, e), e));
        RT_TRY(mark(d, watch, g, i, AT_END, e));
        if (l->done) RT_TRY(rt_cuda_status(&d->cu, d->cu.event_record(l->done, on), e, "recording an event"));
    }
    for (int q = 0; q < RT_QUEUE_COUNT; q++)
        if (p->uses[q]) RT_TRY(follow(d, g->joined[q], stream_of(d, (rt_queue)q), d->stream, e));
out:
    return rc;
}

/* ---- what is settled before anything is launched ---- */

/* A new segment behind each launch that is the host's. */
static int cut(rt_cuda_dev *d, rt_prog *g, rt_err *e)
{
    for (uint32_t i = 0; i <= g->nlaunches; i++) {
        if (i < g->nlaunches && !is_hosts(d, &g->launches[i])) continue;
        if (!rt_grow((void **)&g->segments, &g->segments_cap, g->nsegments + 1, sizeof *g->segments))
            return rt_no_memory(e, "the segments of a program");
        const uint32_t first = g->nsegments ? g->segments[g->nsegments - 1].end + 1 : 0;
        segment *p = &g->segments[g->nsegments++];
        *p = (segment){ .first = first, .end = i, .host = i < g->nlaunches };
        for (uint32_t k = first; k < i; k++) p->uses[g->launches[k].queue] = true;
        p->uses[RT_QUEUE_COMPUTE] = false;
    }
    return RT_OK;
}

/* What waits for a launch of its own queue waits by itself, and so does what waits for an earlier segment. Else for the
 * last launch of the other queue up to there. */
static void settle_order(rt_prog *g, const segment *p)
{
    for (uint32_t i = p->first; i < p->end; i++)
        for (uint32_t q = 0; q < RT_QUEUE_COUNT; q++) {
            launch *l = &g->launches[i];
            while (l->after[q] > p->first && (uint32_t)g->launches[l->after[q] - 1].queue != q) l->after[q]--;
            if (l->after[q] <= p->first || (uint32_t)l->queue == q) l->after[q] = 0;
        }
}

static int new_event(rt_cuda_dev *d, rt_cu_event *event, rt_err *e)
{
    return *event ? RT_OK : rt_cuda_status(&d->cu, d->cu.event_new(event, RT_CU_EVENT_NO_TIMING), e, "making an event");
}

/* The streams of the other queues and the events that order them. */
static int open_queues(rt_cuda_dev *d, rt_prog *g, rt_err *e)
{
    int rc;
    RT_TRY(cut(d, g, e));
    for (segment *p = g->segments; p < g->segments + g->nsegments; p++) {
        settle_order(g, p);
        if (p->uses[RT_QUEUE_COPY]) RT_TRY(rt_cuda_queue_open(d, g->reads, e));
        for (int q = 0; q < RT_QUEUE_COUNT; q++) {
            if (!p->uses[q]) continue;
            RT_TRY(new_event(d, &g->begun, e));
            RT_TRY(new_event(d, &g->joined[q], e));
        }
        for (uint32_t i = p->first; i < p->end; i++)
            for (int q = 0; q < RT_QUEUE_COUNT; q++)
                if (g->launches[i].after[q]) RT_TRY(new_event(d, &g->launches[g->launches[i].after[q] - 1].done, e));
    }
out:
    return rc;
}

/* ---- the graph ---- */

/* Whoever recorded the node, a library too: its function is loaded before the graph is used. */
static int load_node(rt_cuda_dev *d, rt_cu_node node, rt_err *e)
{
    int rc = RT_OK, type, loaded = 1;
    rt_cu_kernel_params k = { 0 };
    RT_TRY(rt_cuda_status(&d->cu, d->cu.node_type(node, &type), e, "reading a graph"));
    if (type != RT_CU_NODE_KERNEL) return RT_OK;
    RT_TRY(rt_cuda_status(&d->cu, d->cu.kernel_node(node, &k), e, "reading a graph"));
    if (!k.function && k.kernel)
        RT_TRY(rt_cuda_status(&d->cu, d->cu.kernel_function(&k.function, k.kernel), e, "reading a graph"));
    if (!k.function) return RT_OK;
    RT_TRY(rt_cuda_status(&d->cu, d->cu.function_loaded(&loaded, k.function), e, "reading a graph"));
    if (!loaded) RT_TRY(rt_cuda_status(&d->cu, d->cu.function_load(k.function), e, "loading a function"));
out:
    return rc;
}

static int load_nodes(rt_cuda_dev *d, rt_cu_graph graph, rt_err *e)
{
    int rc = RT_OK;
    size_t count = 0;
    rt_cu_node *nodes = NULL;
    /* Drivers before CUDA 12.4 cannot be asked; there each GEMM has run once, and ours are loaded by name. */
    if (!d->cu.function_loaded || !d->cu.function_load || !d->cu.kernel_node || !d->cu.kernel_function) return RT_OK;
    RT_TRY(rt_cuda_status(&d->cu, d->cu.graph_nodes(graph, NULL, &count), e, "reading a graph"));
    if (!count) return RT_OK;
    nodes = rt_alloc(count * sizeof *nodes, 16);
    if (!nodes) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for %zu nodes of a graph", count));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.graph_nodes(graph, nodes, &count), e, "reading a graph"));
    for (size_t i = 0; i < count; i++) RT_TRY(load_node(d, nodes[i], e));
out:
    rt_free(nodes);
    return rc;
}

static int capture(rt_cuda_dev *d, rt_prog *g, segment *p, rt_err *e)
{
    int rc;
    rt_cu_graph graph = NULL;
    if (p->first == p->end) return RT_OK;
    RT_TRY(rt_cuda_status(&d->cu, d->cu.capture_begin(d->stream, RT_CU_CAPTURE_THREAD_LOCAL), e, "recording a graph"));
    rc = launch_all(d, g, p, NULL, e);
    /* The stream leaves capture whatever happened; the first error is the one to tell. */
    int ended = d->cu.capture_end(d->stream, &graph);
    if (rc >= 0) rc = rt_cuda_status(&d->cu, ended, e, "recording a graph");
    if (rc < 0) goto out;
    RT_TRY(load_nodes(d, graph, e));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.graph_instantiate(&p->graph, graph, 0), e, "making a graph of %u launches",
                          p->end - p->first));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.graph_upload(p->graph, d->stream), e, "uploading a graph"));
out:
    if (graph) d->cu.graph_free(graph);
    return rc;
}

int rt_cuda_seal(rt_dev *dev, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    int rc;
    rt_prog *g = NULL;
    *out = NULL;
    d->sealed = false;
    RT_TRY(rt_cuda_enter(d, e));
    RT_TRY(emit_all(d, ops, nops, &g, e));
    RT_TRY(rt_cuda_gemms_warm(d, e)); /* those that were not prepared; otherwise there is nothing to do */
    RT_TRY(open_queues(d, g, e));
    for (uint32_t i = 0; i < g->nsegments && !d->sync; i++) RT_TRY(capture(d, g, &g->segments[i], e));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.stream_wait(d->stream), e, "sealing"));
    *out = g;
    g = NULL;
out:
    d->sealed = true;
    rt_cuda_prog_free(dev, g);
    return rc;
}

/* One graph after the other, and what the host does between them. watch: as ops one by one, which are timed. */
static int play(rt_cuda_dev *d, const rt_prog *g, const stopwatch *watch, rt_err *e)
{
    int rc = RT_OK;
    for (const segment *p = g->segments; p < g->segments + g->nsegments; p++) {
        if (watch)
            RT_TRY(launch_all(d, g, p, watch, e));
        else if (p->graph)
            RT_TRY(rt_cuda_status(&d->cu, d->cu.graph_launch(p->graph, d->stream), e, "launching a program"));
        if (p->host) RT_TRY(name_op(g, &g->launches[p->end], host_one(d, g, &g->launches[p->end], e), e));
    }
out:
    return rc;
}

int rt_cuda_run(rt_dev *dev, rt_prog *g, rt_ticket *t, rt_err *e)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    int rc;
    RT_TRY(rt_cuda_enter(d, e));
    RT_TRY(rt_cuda_aside_status(d, e));
    RT_TRY(rt_cuda_begin(d, t, e));
    RT_TRY(d->sync ? launch_in_turn(d, g, e) : play(d, g, NULL, e));
    RT_TRY(rt_cuda_ticket(d, t, e));
out:
    return rc;
}

/* ---- what the queues of a program do to one another ---- */

static double between(rt_cuda_dev *d, rt_cu_event a, rt_cu_event b)
{
    float ms = 0;
    if (!a || !b || d->cu.event_elapsed(&ms, a, b) != RT_CU_SUCCESS) return 0;
    return ms / 1000.0;
}

int rt_cuda_queue_times(rt_dev *dev, rt_prog *g, rt_queue_times *out, rt_err *e)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    int rc;
    rt_ticket t;
    stopwatch w = { NULL };
    *out = (rt_queue_times){ 0 };
    bool beside = false;
    for (uint32_t i = 0; i < g->nlaunches; i++) beside = beside || g->launches[i].queue != RT_QUEUE_COMPUTE;
    if (d->sync || !beside) RT_TRY(rt_fail(e, RT_UNSUPPORTED, "nothing is done beside what is computed"));
    w.at = rt_alloc_zero(g->nlaunches * sizeof *w.at, 16);
    if (!w.at) RT_TRY(rt_no_memory(e, "the times of a program"));
    RT_TRY(rt_cuda_enter(d, e));
    RT_TRY(rt_cuda_aside_status(d, e));
    RT_TRY(rt_cuda_begin(d, &t, e));
    rc = play(d, g, &w, e);
    if (rc >= 0) rc = rt_cuda_ticket(d, &t, e);
    if (rc >= 0) rc = rt_cuda_wait(dev, t, e);
    RT_TRY(rc);
    out->total = rt_cuda_seconds(dev, t);
    for (uint32_t i = 0; i < g->nlaunches; i++) {
        out->waited += between(d, w.at[i][AT_BEGIN], w.at[i][AT_TURN]);
        out->copy += between(d, w.at[i][AT_TURN], w.at[i][AT_END]);
    }
out:
    for (uint32_t i = 0; w.at && i < g->nlaunches; i++)
        for (int k = 0; k < MARKS; k++)
            if (w.at[i][k]) d->cu.event_free(w.at[i][k]);
    rt_free(w.at);
    return rc;
}
