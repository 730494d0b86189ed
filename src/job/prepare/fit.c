/* fit.c - see fit.h. */
#include "job/prepare/fit.h"

#include <string.h>

enum {
    WASTE = 16,       /* at most one row of padding for so many rows of the batch */
    LEAST_CHUNK = 16, /* what --head-chunk is offered down to */
    LEAST_LENGTH = 64,
    LORA_RANK = 32, /* as resolve.c has it */
};

uint32_t rt_fit_rows(uint32_t batch, uint32_t most)
{
    for (uint32_t k = 1; k < batch; k++) {
        uint32_t rows = (batch - 1) / k + 1; /* the least with which k micro-batches cover the batch */
        if (rows <= most && (uint64_t)rows * k - batch <= batch / WASTE) return rows;
    }
    return 1;
}

uint64_t rt_fit_budget(uint64_t free_bytes)
{
    uint64_t margin = free_bytes / 20 + (64u << 20);
    return free_bytes > margin ? free_bytes - margin : 0;
}

typedef struct search {
    const rt_fit_ask *ask;
    rt_fit_need_fn need;
    void *ctx;
} search;

static int try_config(const search *s, const rt_fit_config *c, rt_fit_need *need, bool *fits, rt_err *e)
{
    int rc = s->need(s->ctx, c, need, e);
    *fits = rc >= 0 && need->bytes <= s->ask->limit;
    return rc;
}

/* The largest micro-batch below c's that fits, with everything else as in c, by halving the distance between one that
 * does not fit and one that does. c: does not fit; becomes what was found, or one row at a time. */
static int shrink(const search *s, rt_fit_config *c, rt_fit_need *need, bool *fits, rt_err *e)
{
    int rc;
    uint32_t above = c->micro_batch, below = 1;
    if (above == 1) return RT_OK;
    c->micro_batch = 1;
    RT_TRY(try_config(s, c, need, fits, e));
    while (*fits && above - below > 1) {
        rt_fit_config middle = *c;
        rt_fit_need more;
        bool ok;
        middle.micro_batch = rt_fit_rows(s->ask->batch, below + (above - below) / 2);
        if (middle.micro_batch <= below) {
            above = below + (above - below) / 2; /* no count of rows between them covers the batch */
            continue;
        }
        RT_TRY(try_config(s, &middle, &more, &ok, e));
        if (!ok) {
            above = middle.micro_batch;
            continue;
        }
        *c = middle;
        *need = more;
        below = middle.micro_batch;
    }
out:
    return rc;
}

/* The least change of c that fits: rows at a time, then recomputing, as far as they are free. */
static int choose(const search *s, rt_fit_config *c, bool micro_free, bool recompute_free, rt_fit_need *need,
                  bool *fits, rt_err *e)
{
    int rc;
    uint32_t most = c->micro_batch;
    for (;;) {
        RT_TRY(try_config(s, c, need, fits, e));
        if (!*fits && micro_free) RT_TRY(shrink(s, c, need, fits, e));
        if (*fits || !recompute_free || c->recompute.count[RT_RECOMPUTE_BLOCK]) return RT_OK;
        c->recompute = rt_recompute_every(RT_RECOMPUTE_BLOCK);
        c->micro_batch = most;
    }
out:
    return rc;
}

/* ---- when nothing fits ---- */

/* Adds c, brought to fit, to the offers; false: it cannot be. */
static int offer(const search *s, rt_fit *f, rt_fit_config c, bool *fits, rt_err *e)
{
    rt_fit_need need;
    int rc = choose(s, &c, true, true, &need, fits, e);
    if (rc < 0 || !*fits || f->nearest_count == RT_FIT_NEAREST) return rc;
    f->nearest_need[f->nearest_count] = need.bytes;
    f->nearest[f->nearest_count++] = c;
    return RT_OK;
}

/* The longest row, by halves, with which c fits. */
static int offer_shorter(const search *s, rt_fit *f, rt_fit_config c, bool *fits, rt_err *e)
{
    int rc = RT_OK;
    *fits = false;
    while (!*fits && c.seq_len / 2 >= LEAST_LENGTH) {
        c.seq_len /= 2;
        RT_TRY(offer(s, f, c, fits, e));
    }
out:
    return rc;
}

static int find_nearest(const search *s, rt_fit *f, rt_err *e)
{
    int rc = RT_OK;
    const rt_fit_ask *a = s->ask;
    bool fits = false, shorter;
    rt_fit_config c = a->wanted;
    if (!a->micro_free || !a->recompute_free) RT_TRY(offer(s, f, c, &fits, e));
    if (fits) goto out; /* the same loss: nothing else needs to change */
    if (c.weights == RT_WEIGHTS_BF16) {
        c.weights = RT_WEIGHTS_NATIVE;
        RT_TRY(offer(s, f, c, &fits, e));
        if (fits) goto out;
    }
    if (c.head_chunk == 0 || c.head_chunk > LEAST_CHUNK) {
        c.head_chunk = LEAST_CHUNK;
        RT_TRY(offer(s, f, c, &fits, e));
        if (fits) goto out;
        c.head_chunk = a->wanted.head_chunk;
    }
    RT_TRY(offer_shorter(s, f, c, &shorter, e));
    if (!a->lora_free) goto out;
    c.lora_rank = LORA_RANK;
    RT_TRY(offer(s, f, c, &fits, e));
    if (!fits && !shorter) RT_TRY(offer_shorter(s, f, c, &shorter, e));
out:
    return rc;
}

/* As many micro-batches for the teacher at once as should be, or half, or a quarter: what fits. */
static int choose_ahead(const search *s, rt_fit *f, rt_fit_need *need, rt_err *e)
{
    int rc = RT_OK;
    rt_fit_config c = f->chosen;
    uint32_t micro = (s->ask->batch + c.micro_batch - 1) / c.micro_batch;
    c.ahead = s->ask->teacher_rows / c.micro_batch;
    if (c.ahead > micro) c.ahead = micro;
    for (; c.ahead > 1; c.ahead /= 2) {
        rt_fit_need more;
        bool fits;
        RT_TRY(try_config(s, &c, &more, &fits, e));
        if (!fits) continue;
        f->chosen = c;
        *need = more;
        break;
    }
out:
    return rc;
}

/* The teacher's weights, beside everything else as it was chosen. */
static int choose_weights(const search *s, rt_fit *f, rt_fit_need *need, rt_err *e)
{
    int rc = RT_OK;
    const rt_fit_ask *a = s->ask;
    rt_fit_config c = f->chosen;
    rt_fit_need more = *need;
    if (!a->teacher) return RT_OK;
    f->weights = (rt_weights_choice){ .weights = c.weights, .why = RT_WEIGHTS_ASKED };
    if (!a->weights_free) return RT_OK;
    c.weights = RT_WEIGHTS_BF16;
    if (a->weights_differ) RT_TRY(s->need(s->ctx, &c, &more, e));
    f->weights = rt_weights_decide(&(rt_weights_case){ .differ = a->weights_differ,
                                                       .native = need->bytes,
                                                       .bf16 = more.bytes,
                                                       .limit = a->limit,
                                                       .native_dequant = need->dequant,
                                                       .bf16_dequant = more.dequant });
    if (f->weights.weights != RT_WEIGHTS_BF16) return RT_OK;
    f->chosen = c;
    *need = more;
out:
    return rc;
}

int rt_fit_choose(rt_fit *out, const rt_fit_ask *ask, rt_fit_need_fn need, void *ctx, rt_err *e)
{
    int rc;
    const search s = { ask, need, ctx };
    rt_fit_need of_it;
    *out = (rt_fit){ .ask = *ask, .chosen = ask->wanted };
    RT_TRY(need(ctx, &ask->wanted, &of_it, e));
    out->wanted_need = of_it.bytes;
    RT_TRY(choose(&s, &out->chosen, ask->micro_free, ask->recompute_free, &of_it, &out->fits, e));
    if (out->fits) {
        RT_TRY(choose_ahead(&s, out, &of_it, e));
        RT_TRY(choose_weights(&s, out, &of_it, e));
    } else {
        RT_TRY(find_nearest(&s, out, e));
    }
    out->need = of_it.bytes;
out:
    return rc;
}

/* ---- words ---- */

/* "--micro-batch 2 --recompute block": the flags in which to differs from from. */
static void put_flags(rt_str *out, const rt_fit_config *from, const rt_fit_config *to)
{
    size_t begun = out->len;
    char recompute[RT_RECOMPUTE_TEXT];
    if (to->lora_rank != from->lora_rank) rt_str_append(out, " --lora");
    if (to->weights != from->weights) rt_str_printf(out, " --teacher-weights %s", rt_weights_name(to->weights));
    if (to->seq_len != from->seq_len) rt_str_printf(out, " --seq-len %u", to->seq_len);
    if (to->head_chunk != from->head_chunk) rt_str_printf(out, " --head-chunk %u", to->head_chunk);
    if (to->micro_batch != from->micro_batch) rt_str_printf(out, " --micro-batch %u", to->micro_batch);
    if (!rt_recompute_same(&to->recompute, &from->recompute))
        rt_str_printf(out, " --recompute %s", rt_recompute_text(recompute, &to->recompute));
    if (out->failed || out->len == begun) return;
    for (size_t i = begun; i < out->len; i++) out->data[i] = out->data[i + 1]; /* the blank in front */
    out->len--;
}

/* Weights are said elsewhere: they are dequantised because there is room, not for want of it. */
void rt_fit_chosen(rt_str *out, const rt_fit *f)
{
    rt_fit_config from = f->ask.wanted;
    from.weights = f->chosen.weights;
    put_flags(out, &from, &f->chosen);
}

void rt_fit_offers(rt_str *out, const rt_fit *f)
{
    char bytes[32];
    if (!f->nearest_count)
        rt_str_printf(out, "nothing that changes the run alone: smaller models, or a limit of %s",
                      rt_format_bytes(bytes, f->need));
    for (uint32_t i = 0; i < f->nearest_count; i++) {
        rt_fit_config from = f->ask.wanted;
        if (f->ask.micro_free) from.micro_batch = f->nearest[i].micro_batch;
        if (f->ask.recompute_free) from.recompute = f->nearest[i].recompute;
        rt_str_append(out, i ? ", or " : "");
        put_flags(out, &from, &f->nearest[i]);
        rt_str_printf(out, " (%s)", rt_format_bytes(bytes, f->nearest_need[i]));
    }
}

/* ---- what a device says ---- */

/* How often a program runs in one optimizer step of so many micro-batches; in an evaluation of one. */
static uint64_t runs_of(const rt_step_plan *s, rt_program which, uint32_t micro)
{
    uint32_t ahead = s->plan[RT_PROGRAM_AHEAD] ? s->opts.ahead : 0;
    switch (which) {
    case RT_PROGRAM_TEACHER: return ahead ? 0 : micro;
    case RT_PROGRAM_AHEAD: return ahead ? (micro + ahead - 1) / ahead : 0;
    case RT_PROGRAM_FIRST: return 1;
    case RT_PROGRAM_NEXT: return micro - 1;
    case RT_PROGRAM_EVAL: return s->opts.eval_only;
    default: return 0;
    }
}

/* What seal puts before a GEMM whose operand the device would not take as it is. */
static uint64_t dequantising(const rt_plan *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->nops; i++)
        if (p->ops[i].kind == RT_OP_DEQUANT || p->ops[i].kind == RT_OP_CAST) bytes += rt_op_bytes(p, &p->ops[i]);
    return bytes;
}

int rt_fit_need_of(rt_dev *d, const rt_step_opts *o, uint32_t micro, rt_fit_need *out, rt_err *e)
{
    int rc;
    rt_exec_memory m;
    rt_trainer *t = NULL;
    *out = (rt_fit_need){ 0 };
    RT_TRY(rt_trainer_open(&t, d, o, &(rt_seal_opts){ .dry = true }, e));
    rt_exec_memory_query(t->x, &m);
    out->bytes = m.total;
    for (int i = 0; i < RT_PROGRAM_COUNT; i++)
        if (t->plan->plan[i])
            out->dequant +=
                runs_of(t->plan, (rt_program)i, micro) * dequantising(rt_exec_plan(t->x, t->plan->index[i]));
out:
    rt_trainer_free(t);
    return rc;
}

/* Both plans, and what the device may give. */
static int compare(rt_dev *d, const rt_step_opts *o, const rt_dtype *stored, rt_weights_case *c, rt_err *e)
{
    int rc;
    rt_step_opts native = *o;
    rt_fit_need a, b;
    rt_dev_info info;
    native.teacher_dtypes = stored;
    RT_TRY(rt_fit_need_of(d, &native, 1, &a, e));
    RT_TRY(rt_fit_need_of(d, o, 1, &b, e));
    RT_TRY(d->api->info(d, &info, e));
    *c = (rt_weights_case){ true, a.bytes, b.bytes, rt_fit_budget(info.memory_free), a.dequant, b.dequant };
out:
    return rc;
}

int rt_fit_evaluation(rt_dev *d, rt_step_opts *o, rt_teacher_weights asked, rt_dtype *dtypes, rt_weights_choice *out,
                      rt_err *e)
{
    int rc = RT_OK;
    uint32_t n = rt_param_count(o->teacher);
    rt_weights_case c = { .differ = rt_weights_differ(dtypes, o->teacher, &o->policy) };
    rt_dtype *stored = rt_alloc(n * sizeof *stored, 16);
    if (!stored) RT_TRY(rt_no_memory(e, "a model"));
    memcpy(stored, dtypes, n * sizeof *stored);
    rt_weights_bf16(dtypes, stored, o->teacher);
    *out = (rt_weights_choice){ .weights = asked, .why = RT_WEIGHTS_ASKED };
    if (asked == RT_WEIGHTS_AUTO) {
        if (c.differ) RT_TRY(compare(d, o, stored, &c, e));
        *out = rt_weights_decide(&c);
    }
    if (out->weights == RT_WEIGHTS_NATIVE) memcpy(dtypes, stored, n * sizeof *stored);
out:
    rt_free(stored);
    return rc;
}
