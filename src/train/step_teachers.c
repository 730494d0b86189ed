/* step_teachers.c - several teachers and teachers with prompts, as the host sees them: the shares of each in each row,
 * what it reads, and what its cross-entropy means beside the others'. Running them is step.c. */
#include "train/step_internal.h"

#include <math.h>

int rt_trainer_load_other(rt_trainer *t, uint32_t index, const rt_model_file *teacher, rt_err *e)
{
    const rt_decoder *d = t->plan->more[index].decoder;
    int rc = rt_disk_feed_add(&t->feed, t->x, d, teacher, e);
    return rc < 0 ? rc : rt_load_weights(t->x, d, teacher, t->watch, e);
}

/* ---- shares ---- */

static float share_of(const rt_step_opts *o, const rt_batch *b, uint32_t teacher, uint32_t position)
{
    uint32_t group = b->group ? (uint32_t)b->group[position] : 0;
    return (float)o->shares[group * (1 + o->other_count) + teacher];
}

int rt_step_write_shares(rt_trainer *t, const rt_batch *b, rt_err *e)
{
    int rc = RT_OK;
    const rt_step_opts *o = &t->plan->opts;
    for (uint32_t k = 0; t->shares && k <= o->other_count; k++) {
        for (uint32_t i = 0; i < o->B * o->T; i++) t->shares[i] = share_of(o, b, k, i);
        RT_TRY(rt_step_move(t, t->plan->share[k], NULL, t->shares, e));
    }
out:
    return rc;
}

int rt_step_write_picked_shares(rt_trainer *t, const rt_batch *b, const int32_t *pick, rt_err *e)
{
    int rc = RT_OK;
    const rt_step_opts *o = &t->plan->opts;
    for (uint32_t k = 0; t->shares && k <= o->other_count; k++) {
        for (uint32_t i = 0; i < o->picks; i++) t->shares[i] = share_of(o, b, k, (uint32_t)pick[i]);
        RT_TRY(rt_step_move(t, t->plan->pick_share[k], NULL, t->shares, e));
    }
out:
    return rc;
}

/* -log(exp(-a) + share exp(-ce)); a is infinite before the first */
static float add_ce(float a, float ce, float share)
{
    if (!(share > 0)) return a;
    float x = ce - logf(share), lo = x < a ? x : a, hi = x < a ? a : x;
    return lo - log1pf(expf(lo - hi));
}

int rt_step_mix_ce(rt_trainer *t, const rt_batch *b, float *ce, rt_err *e)
{
    int rc = RT_OK;
    const rt_step_opts *o = &t->plan->opts;
    uint32_t N = o->B * o->T;
    if (!t->shares || !ce) return RT_OK;
    for (uint32_t i = 0; i < N; i++) ce[i] = add_ce(INFINITY, ce[i], share_of(o, b, 0, i));
    for (uint32_t k = 1; k <= o->other_count; k++) {
        RT_TRY(rt_step_move(t, t->plan->more[k - 1].teacher_ce, t->shares, NULL, e));
        for (uint32_t i = 0; i < N; i++) ce[i] = add_ce(ce[i], t->shares[i], share_of(o, b, k, i));
    }
    for (uint32_t i = 0; i < N; i++)
        if (b->target[i] < 0) ce[i] = 0;
out:
    return rc;
}

/* ---- what a teacher with a prompt reads ---- */

int rt_step_reading_new(rt_trainer *t, bool sealed, rt_err *e)
{
    int rc = RT_OK;
    void *zero = NULL;
    for (uint32_t k = 0; k < RT_TEACHERS_MOST; k++) {
        const rt_step_reading *r = &t->plan->reading[k];
        const rt_view v = k ? t->plan->more[k - 1].hidden : t->plan->teacher_hidden;
        uint64_t bytes = rt_dtype_bytes(t->plan->opts.policy.act, (uint64_t)v.rows * v.cols);
        t->reading[k] = (rt_reading){ .rows = r->tokens.B, .len = r->tokens.T };
        if (!r->tokens.B || !sealed) continue;
        rt_free(zero);
        if (!(zero = rt_alloc_zero(bytes, 64))) RT_TRY(rt_no_memory(e, "a teacher's hidden states"));
        RT_TRY(rt_exec_write(t->x, v, zero, bytes, e));
    }
out:
    rt_free(zero);
    return rc;
}

uint32_t rt_trainer_passes(rt_trainer *t, const rt_batch *b, rt_err *e)
{
    uint32_t most = 1;
    const rt_step_opts *o = &t->plan->opts;
    const rt_reading_of of = { b->ids, b->start, b->target, o->B, o->T };
    for (uint32_t k = 0; k <= o->other_count; k++) {
        rt_reading *r = &t->reading[k];
        if (!o->prompts[k]) continue;
        if (rt_reading_make(r, o->prompts[k], &of, e) < 0) return 0;
        if (r->passes > most) most = r->passes;
    }
    return most;
}

int rt_step_write_reading(rt_trainer *t, uint32_t k, uint32_t pass, rt_err *e)
{
    int rc = RT_OK;
    const rt_reading *r = &t->reading[k];
    const rt_step_reading *to = &t->plan->reading[k];
    size_t n = (size_t)r->rows * r->len, at = n * (pass < r->passes ? pass : r->passes - 1);
    const rt_view v[] = { to->tokens.ids, to->tokens.pos, to->tokens.start, to->place };
    const int32_t *from[] = { r->ids, r->pos, r->start, r->place };
    for (int i = 0; i < 4; i++) RT_TRY(rt_exec_write(t->x, v[i], from[i] + at, n * sizeof(int32_t), e));
out:
    return rc;
}
