/* follow.c - what a rank that is not 0 does, and state from a checkpoint. See follow.h. */
#include "train/follow.h"

#include "train/step_internal.h"

/* ---- state ---- */

int rt_trainer_put_state(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, const void *in,
                         rt_err *e)
{
    rt_peers *p = t->peers;
    if (p) {
        rt_word_say(p, &(rt_word){ .kind = RT_WORD_PUT, .what = what, .param = param, .first = first, .count = n });
        p->give(p->ctx, (void *)(uintptr_t)in, rt_dtype_bytes(rt_trainer_state_dtype(t, what, param), n));
    }
    return rt_trainer_write_state(t, what, param, first, n, in, e);
}

static int follow_state(rt_trainer *t, const rt_word *w, rt_err *e)
{
    int rc;
    rt_peers *p = t->peers;
    uint64_t bytes = rt_dtype_bytes(rt_trainer_state_dtype(t, w->what, w->param), w->count);
    void *data = rt_alloc(bytes, 64);
    if (!data) RT_TRY(rt_no_memory(e, "the state of a checkpoint"));
    if (w->kind == RT_WORD_SHOW) {
        RT_TRY(rt_step_show(t, w->what, w->param, w->first, w->count, data, e));
    } else {
        p->give(p->ctx, data, bytes);
        RT_TRY(rt_trainer_write_state(t, w->what, w->param, w->first, w->count, data, e));
    }
out:
    if (rc < 0) p->torn = true;
    rt_free(data);
    return rc;
}

/* ---- steps ---- */

static int follow_step(rt_trainer *t, const rt_word *w, rt_err *e)
{
    int rc;
    rt_step_result ignored;
    rt_err why = { 0 };
    const rt_peers *p = t->peers;
    size_t n = (size_t)t->plan->opts.B * t->plan->opts.T;
    rt_batch *micro = rt_alloc(w->micro * sizeof *micro, 16);
    int32_t *rows = rt_step_rows(t, w->micro, e);
    if (!micro || !rows) RT_TRY(rt_no_memory(e, "the rows of a step"));
    p->give(p->ctx, rows, RT_BATCH_ARRAYS * n * w->micro * p->size * sizeof *rows);
    for (uint32_t i = 0; i < w->micro; i++) micro[i] = rt_step_rows_at(t, rows, w->micro, p->rank * w->micro + i);
    rt_step v = { .step = w->step, .lr = (float)w->lr, .seed = w->seed, .tokens = w->tokens };
    RT_TRY(rt_step_begin(t, micro, w->micro, rt_rank_first(w->row[0], p->rank, w->row[1]), &v, e));
    rc = rt_trainer_end(t, &ignored, &why);
    if (rc == RT_NONFINITE) rc = RT_OK;
    if (rc < 0 && e) *e = why;
out:
    rt_free(micro);
    return rc;
}

int rt_trainer_follow(rt_trainer *t, const rt_word *w, rt_err *e)
{
    switch (w->kind) {
    case RT_WORD_PUT:
    case RT_WORD_SHOW: return follow_state(t, w, e);
    case RT_WORD_STEP: return follow_step(t, w, e);
    default: return rt_fail(e, RT_INTERNAL, "rank 0 said word %u, which is not of a step", w->kind);
    }
}
