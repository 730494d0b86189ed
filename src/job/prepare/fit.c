/* fit.c - see fit.h. */
#include "job/prepare/fit_internal.h"

#include <string.h>

enum {
    LEAST_CHUNK = 16, /* what --head-chunk is offered down to */
    LEAST_LENGTH = 64,
    LORA_RANK = 32, /* as resolve.c has it */
};

uint64_t rt_fit_budget(uint64_t free_bytes)
{
    uint64_t margin = free_bytes / 20 + (64u << 20);
    return free_bytes > margin ? free_bytes - margin : 0;
}

/* ---- when nothing fits ---- */

/* Adds c, brought to fit, to the offers; false: it cannot be. Who has asked for every block to be recomputed keeps it.
 */
static int offer(const rt_fit_search *s, rt_fit *f, rt_fit_config c, bool *fits, rt_err *e)
{
    rt_fit_need need;
    bool recompute_free = c.recompute.count[RT_RECOMPUTE_BLOCK] != RT_RECOMPUTE_ALL;
    int rc = rt_fit_least(s, &c, true, recompute_free, &need, fits, e);
    if (rc < 0 || !*fits || f->nearest_count == RT_FIT_NEAREST) return rc;
    f->nearest_need[f->nearest_count] = need.bytes;
    f->nearest[f->nearest_count++] = c;
    return RT_OK;
}

/* The longest row, by halves, with which c fits. */
static int offer_shorter(const rt_fit_search *s, rt_fit *f, rt_fit_config c, bool *fits, rt_err *e)
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

static int find_nearest(const rt_fit_search *s, rt_fit *f, rt_err *e)
{
    int rc = RT_OK;
    const rt_fit_ask *a = s->ask;
    bool fits = false, shorter;
    rt_fit_config c = a->wanted;
    if (!a->micro_free || !a->recompute_free) RT_TRY(offer(s, f, c, &fits, e));
    if (fits) goto out; /* the same loss: nothing else needs to change */
    if (c.weights != RT_WEIGHTS_NATIVE) {
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
static int choose_ahead(const rt_fit_search *s, rt_fit *f, rt_fit_need *need, rt_err *e)
{
    int rc = RT_OK;
    rt_fit_config c = f->chosen;
    for (c.ahead = rt_fit_ahead(s, c.micro_batch); c.ahead > 1; c.ahead /= 2) {
        rt_fit_need more;
        bool fits;
        RT_TRY(rt_fit_try(s, &c, &more, &fits, e));
        if (!fits) continue;
        f->chosen = c;
        *need = more;
        break;
    }
out:
    return rc;
}

/* The teacher's weights, beside everything else as it was chosen. */
static int choose_weights(const rt_fit_search *s, rt_fit *f, rt_fit_need *need, rt_err *e)
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
    f->weights.fp8 = a->fp8;
    if (f->weights.weights != RT_WEIGHTS_BF16) return RT_OK;
    f->chosen = c;
    *need = more;
out:
    return rc;
}

/* Norms and activations, where nothing is recomputed for want of memory and a 200th of the time is spared by keeping
 * these too. */
static int choose_kept(const rt_fit_search *s, rt_fit *f, rt_fit_need *need, rt_err *e)
{
    int rc = RT_OK;
    rt_fit_config c = f->chosen;
    rt_fit_need more;
    bool fits;
    if (!s->ask->recompute_free || rt_recompute_named(&c.recompute)) return RT_OK;
    c.recompute = rt_recompute_every(RT_RECOMPUTE_NOTHING);
    RT_TRY(rt_fit_try(s, &c, &more, &fits, e));
    if (!fits || more.work > need->work * (1 - 1.0 / 200)) goto out;
    f->chosen = c;
    *need = more;
out:
    return rc;
}

/* What the choice costs in time: beside what was wanted, and beside itself with everything kept. */
static int weigh(const rt_fit_search *s, rt_fit *f, double wanted, double chosen, rt_err *e)
{
    int rc = RT_OK;
    rt_fit_config kept = f->chosen;
    rt_fit_need need = { .work = chosen };
    kept.recompute = rt_recompute_every(RT_RECOMPUTE_NONE);
    if (rt_recompute_named(&f->chosen.recompute)) RT_TRY(s->need(s->ctx, &kept, &need, e));
    f->slower = wanted > 0 ? chosen / wanted - 1 : 0;
    f->again = need.work > 0 ? chosen / need.work - 1 : 0;
out:
    return rc;
}

/* With the weights of the teacher as they are wanted, or native and bf16 where they are free. */
static int choose(rt_fit *out, const rt_fit_ask *ask, rt_fit_need_fn need, void *ctx, rt_err *e)
{
    int rc;
    const rt_fit_search s = { ask, need, ctx, ask->teacher_rows };
    rt_fit_need wanted, of_it;
    *out = (rt_fit){ .ask = *ask, .chosen = ask->wanted };
    RT_TRY(need(ctx, &ask->wanted, &wanted, e));
    out->wanted_need = wanted.bytes;
    bool as_wanted = wanted.bytes <= ask->limit && wanted.host <= ask->host_limit;
    RT_TRY(rt_fit_least(&s, &out->chosen, ask->micro_free, ask->recompute_free, &of_it, &out->fits, e));
    if (out->fits) {
        if (as_wanted) RT_TRY(choose_ahead(&s, out, &of_it, e)); /* else it was chosen with the rest */
        RT_TRY(choose_weights(&s, out, &of_it, e));
    } else {
        RT_TRY(find_nearest(&(rt_fit_search){ ask, need, ctx, 0 }, out, e));
    }
    RT_TRY(weigh(&s, out, wanted.work, of_it.work, e));
    if (out->fits) RT_TRY(choose_kept(&s, out, &of_it, e));
    out->need = of_it.bytes;
    out->host = of_it.host;
    out->work = of_it.work;
    out->hidden = of_it.hidden;
out:
    return rc;
}

/* With the weights as choose has them, or in fp8, where that may be taken: quantised once, or at every use. */
static int choose_coded(rt_fit *out, const rt_fit_ask *ask, rt_fit_need_fn need, void *ctx, rt_err *e)
{
    int rc;
    rt_fit_ask with_fp8 = *ask;
    RT_TRY(choose(out, ask, need, ctx, e));
    if (!ask->teacher || !ask->weights_free || !rt_fp8_may(&ask->fp8)) return RT_OK;
    with_fp8.weights_free = false;
    for (int w = RT_WEIGHTS_FP8; w <= RT_WEIGHTS_FP8_NATIVE; w++) {
        rt_fit coded;
        with_fp8.wanted.weights = (rt_teacher_weights)w;
        RT_TRY(choose(&coded, &with_fp8, need, ctx, e));
        bool at_most = coded.fits && coded.slower <= 0; /* nothing was changed to make it fit */
        if (coded.fits && (!out->fits || coded.work < out->work)) {
            *out = coded;
            out->ask = *ask;
            out->weights = (rt_weights_choice){ with_fp8.wanted.weights, RT_WEIGHTS_FASTER, .fp8 = ask->fp8 };
        }
        if (at_most || !ask->weights_differ) break; /* packed at every use is never faster, only smaller */
    }
out:
    return rc;
}

/* With the teacher's layers where `memory` says. Away from the device it reads as many rows at once as it can, and
 * weights that are free stay as they are stored: a transfer costs more than dequantising what came. */
static int choose_beside(rt_fit *out, const rt_fit_ask *ask, rt_teacher_memory memory, rt_fit_need_fn need, void *ctx,
                         rt_err *e)
{
    rt_fit_ask with = *ask;
    with.wanted.memory = memory;
    if (memory == RT_TEACHER_DEVICE) return choose_coded(out, &with, need, ctx, e);
    if (ask->rows_free) with.teacher_rows = ask->batch;
    with.weights_free = false;
    int rc = choose(out, &with, need, ctx, e);
    if (rc >= 0 && ask->weights_free && out->fits) out->weights.why = RT_WEIGHTS_AWAY;
    out->ask = *ask;
    return rc;
}

/* What it is beside the run that was wanted, whose teacher is on the device. */
static int weigh_beside(rt_fit *f, const rt_fit_ask *ask, rt_fit_need_fn need, void *ctx, rt_err *e)
{
    rt_fit_need wanted;
    int rc = need(ctx, &ask->wanted, &wanted, e);
    if (rc < 0) return rc;
    f->wanted_need = wanted.bytes;
    f->slower = wanted.work > 0 ? f->work / wanted.work - 1 : 0;
    return RT_OK;
}

/* Where nothing fits on the device: in the host's memory, else on disk. why: what was found. */
static int choose_away(rt_fit *f, const rt_fit_ask *ask, rt_fit_need_fn need, void *ctx, rt_memory_choice *why,
                       rt_err *e)
{
    int rc = RT_OK;
    rt_fit beside;
    bool stored = ask->weights_free || rt_weights_as_stored(ask->wanted.weights);
    for (int m = ask->host ? RT_TEACHER_DISK : RT_TEACHER_HOST; !f->fits && m <= RT_TEACHER_DISK; m++) {
        if (m == RT_TEACHER_DISK && !stored) continue;
        RT_TRY(choose_beside(&beside, ask, (rt_teacher_memory)m, need, ctx, e));
        if (m == RT_TEACHER_HOST) why->host = beside.host;
        if (!beside.fits) continue;
        *f = beside;
        why->memory = (rt_teacher_memory)m;
        why->why = m == RT_TEACHER_HOST ? RT_MEMORY_NO_ROOM : RT_MEMORY_NO_HOST;
        RT_TRY(weigh_beside(f, ask, need, ctx, e));
    }
out:
    return rc;
}

int rt_fit_choose(rt_fit *out, const rt_fit_ask *ask, rt_fit_need_fn need, void *ctx, rt_err *e)
{
    int rc;
    RT_TRY(choose_beside(out, ask, ask->wanted.memory, need, ctx, e));
    if (!ask->teacher) return RT_OK;
    rt_memory_choice why = { .memory = ask->wanted.memory,
                             .why = ask->memory_free ? RT_MEMORY_FITS : RT_MEMORY_ASKED,
                             .device = out->need,
                             .limit = ask->limit,
                             .host_limit = ask->host_limit };
    if (ask->memory_free) RT_TRY(choose_away(out, ask, need, ctx, &why, e));
    out->ask = *ask;
    out->memory = why;
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
    if (to->memory != from->memory) rt_str_printf(out, " --teacher-memory %s", rt_teacher_memory_name(to->memory));
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

/* Weights are said elsewhere: they are dequantised or fp8, and norms are kept, because there is room, not for want of
 * it. */
void rt_fit_chosen(rt_str *out, const rt_fit *f)
{
    rt_fit_config from = f->ask.wanted;
    from.weights = f->chosen.weights;
    from.recompute.keep = f->chosen.recompute.keep;
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
