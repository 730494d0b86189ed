/* follow.c - what a rank that is not 0 does, and the state that all begin with. See follow.h. */
#include "train/follow.h"

#include "train/step_internal.h"

/* ---- state ---- */

enum { PIECE = 1 << 20 }; /* elements */

static int share_state(rt_trainer *t, char what, uint32_t param, void *piece, rt_err *e)
{
    int rc = RT_OK;
    rt_peers *p = t->peers;
    uint64_t all = rt_trainer_state_elems(t, what, param);
    for (uint64_t first = 0; first < all; first += PIECE) {
        uint64_t n = all - first < PIECE ? all - first : PIECE;
        uint64_t bytes = rt_dtype_bytes(rt_trainer_state_dtype(t, what, param), n);
        if (p->rank == 0) RT_TRY(rt_trainer_read_state(t, what, param, first, n, piece, e));
        p->give(p->ctx, piece, bytes);
        if (p->rank) RT_TRY(rt_trainer_write_state(t, what, param, first, n, piece, e));
    }
out:
    return rc;
}

int rt_trainer_share(rt_trainer *t, rt_err *e)
{
    int rc = RT_OK;
    const rt_decoder *d = t->plan->student;
    if (!t->peers) return RT_OK;
    void *piece = rt_alloc(PIECE * sizeof(float), 64);
    if (!piece) RT_TRY(rt_no_memory(e, "the state of a checkpoint"));
    if (t->peers->rank == 0) rt_word_say(t->peers, &(rt_word){ .kind = RT_WORD_STATE });
    for (uint32_t i = 0; i < d->param_count; i++)
        for (const char *what = "wmvs"; *what && d->params[i].grad.buf; what++)
            RT_TRY(share_state(t, *what, i, piece, e));
out:
    if (rc < 0 && piece) t->peers->torn = true;
    rt_free(piece);
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
    case RT_WORD_STATE: return rt_trainer_share(t, e);
    case RT_WORD_STEP: return follow_step(t, w, e);
    default: return rt_fail(e, RT_INTERNAL, "rank 0 said word %u, which is not of a step", w->kind);
    }
}
