/* says.c - see says.h. */
#include "teacher/says.h"

#include "model/decoder.h"

#include <math.h>

enum { READ, USES = RT_USE_HELD_LOSS + 1, PROGRAMS = USES + 1, MOST_ASKED = 4096, UNDER_WAY = 8 };

/* What one use asks of the head. */
typedef struct question {
    rt_plan *plan;
    uint32_t index, n;
    rt_view id, logp, rest, entropy, ce; /* (P,n), (P,n), (P,1) each; RT_NONE where it has none */
} question;

/* A program that is under way: the layers, or some positions' answers. */
typedef struct pending {
    rt_exec_timing ran;
    const question *q; /* null: the layers */
    rt_says_answer out;
    uint32_t first, n; /* of out */
    rt_ticket read;    /* out is there */
} pending;

struct rt_says {
    rt_says_opts o;
    rt_policy policy;
    rt_space *space;
    rt_decoder *model;
    rt_exec *x;
    rt_disk_feed *feed; /* of layers on disk; else null */
    rt_plan *read;
    rt_tokens tokens;
    rt_view hidden;                   /* (B*T,C) */
    rt_view pick, key, target, vmask; /* (P,1), (P,2), (P,1) */
    rt_view step, fault, sums;
    uint32_t P; /* positions that are asked for at a time */
    question ask[USES];
    int32_t *picked, *targets; /* (P) on the host */
    uint32_t *keys;            /* (P,2) */
    double *raw;               /* one column or list of a device whose scalars are double */
    pending way[UNDER_WAY];    /* the oldest first */
    uint32_t under_way;
    double layers, head; /* seconds of the device */
};

static rt_view input(rt_says *s, rt_dtype d, uint32_t rows, uint32_t cols, const char *name)
{
    return rt_space_buf(s->space, RT_CLASS_INPUT, d, rows, cols, name);
}

static void declare(rt_says *s)
{
    uint32_t N = s->o.B * s->o.T, V = s->model->config.vocab;
    s->tokens = (rt_tokens){ .B = s->o.B, .T = s->o.T };
    s->tokens.ids = input(s, RT_DTYPE_I32, N, 1, "ids");
    s->tokens.pos = input(s, RT_DTYPE_I32, N, 1, "positions");
    s->tokens.start = input(s, RT_DTYPE_I32, N, 1, "document starts");
    s->hidden = rt_space_buf(s->space, RT_CLASS_OUTPUT, s->policy.act, N, s->model->config.width, "hidden");
    if (s->o.form == RT_FORM_HIDDEN) return;
    s->pick = input(s, RT_DTYPE_I32, s->P, 1, "asked positions");
    s->key = input(s, RT_DTYPE_U32, s->P, 2, "keys of draws");
    s->target = input(s, RT_DTYPE_I32, s->P, 1, "targets");
    if (s->o.vmask) s->vmask = input(s, RT_DTYPE_U32, 1, (V + 31) / 32, "common ids");
    s->step = rt_space_buf(s->space, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step values");
    s->fault = rt_space_buf(s->space, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault");
    s->sums = rt_space_buf(s->space, RT_CLASS_OUTPUT, s->policy.scalar, 1, 4, "sums");
}

/* The teacher's own cross-entropy, over all of its ids, by the op that a live teacher is measured with. */
static void record_ce(rt_says *s, rt_plan *p, const question *q, rt_view logits)
{
    const rt_kd_io io = {
        .logits = logits, .sums = s->sums, .ce = q->ce, .fault = s->fault, .target = s->target, .step = s->step
    };
    const rt_kd_opts o = { .divergence = RT_DIV_FORWARD_KL, .T = 1.0f, .ce_weight = 1.0f };
    rt_emit_kd_loss(p, &io, &o);
}

static int record_ask(rt_says *s, rt_source_use use, rt_err *e)
{
    static const char *const names[USES] = { "training positions", "held-out positions", "held-out positions at T" };
    int rc;
    question *q = &s->ask[use];
    bool draws = use == RT_USE_TRAIN && s->o.form == RT_FORM_DRAWS;
    float T = use == RT_USE_HELD ? 1.0f : (float)s->o.temperature;
    rt_dtype scalar = s->policy.scalar;
    q->n = use == RT_USE_TRAIN ? s->o.n : s->o.held_n;
    RT_TRY(rt_plan_new(&q->plan, s->space, names[use], &s->policy, e));
    q->id = rt_space_buf(s->space, RT_CLASS_OUTPUT, RT_DTYPE_I32, s->P, q->n, "ids");
    q->logp = rt_space_buf(s->space, RT_CLASS_OUTPUT, scalar, s->P, q->n, "log-probabilities");
    if (draws)
        q->entropy = rt_space_buf(s->space, RT_CLASS_OUTPUT, scalar, s->P, 1, "entropy");
    else
        q->rest = rt_space_buf(s->space, RT_CLASS_OUTPUT, scalar, s->P, 1, "rest");
    if (use == RT_USE_HELD) q->ce = rt_space_buf(s->space, RT_CLASS_OUTPUT, scalar, s->P, 1, "cross-entropy");
    rt_plan_assume_defined(q->plan, s->hidden);
    rt_view few = rt_act(q->plan, s->policy.act, s->P, s->model->config.width, "asked hidden");
    rt_view logits = rt_act(q->plan, s->policy.logits, s->P, s->model->config.vocab, "logits");
    rt_emit_embed_fwd(q->plan, few, s->hidden, s->pick);
    rt_decoder_logits(q->plan, s->model, logits, few);
    if (draws)
        rt_emit_draw(q->plan, q->id, q->logp, q->entropy, logits, s->vmask, s->key, s->step, T);
    else
        rt_emit_topk(q->plan, q->id, q->logp, q->rest, logits, s->vmask, T);
    if (q->ce.buf) record_ce(s, q->plan, q, logits);
    RT_TRY(rt_plan_status(q->plan, e));
out:
    return rc;
}

static int record(rt_says *s, rt_err *e)
{
    int rc;
    RT_TRY(rt_plan_new(&s->read, s->space, "teacher forward", &s->policy, e));
    rt_decoder_forward(s->read, s->model, &s->tokens, NULL, s->hidden);
    RT_TRY(rt_plan_status(s->read, e));
    if (s->o.form == RT_FORM_HIDDEN) return RT_OK;
    RT_TRY(record_ask(s, RT_USE_TRAIN, e));
    RT_TRY(record_ask(s, RT_USE_HELD, e));
    if (s->o.temperature != 1) RT_TRY(record_ask(s, RT_USE_HELD_LOSS, e));
    RT_TRY(rt_space_status(s->space, e));
out:
    return rc;
}

static int seal(rt_says *s, rt_dev *d, rt_err *e)
{
    int rc;
    const rt_plan *plans[PROGRAMS] = { s->read };
    uint32_t n = 1;
    for (int u = 0; u < USES; u++)
        if (s->ask[u].plan) s->ask[u].index = n, plans[n++] = s->ask[u].plan;
    RT_TRY(rt_exec_seal(&s->x, d, plans, n, &(rt_seal_opts){ 0 }, e));
out:
    return rc;
}

/* Positions at a time whose logits stay within the room that the device wants for them. */
static int choose_size(rt_says *s, rt_dev *d, uint32_t vocab, rt_err *e)
{
    rt_dev_info info;
    int rc = d->api->info(d, &info, e);
    if (rc < 0) return rc;
    uint64_t room = s->o.head_bytes ? s->o.head_bytes : info.head_bytes ? info.head_bytes : 64u << 20;
    uint64_t fit = room / rt_dtype_bytes(s->policy.logits, vocab), N = (uint64_t)s->o.B * s->o.T;
    s->P = (uint32_t)(fit < 16 ? 16 : fit > MOST_ASKED ? MOST_ASKED : fit);
    if (s->P > N) s->P = (uint32_t)N;
    return RT_OK;
}

static int host_room(rt_says *s, rt_err *e)
{
    uint32_t n = s->o.n > s->o.held_n ? s->o.n : s->o.held_n;
    s->picked = rt_alloc_zero(s->P * sizeof *s->picked, 64);
    s->targets = rt_alloc_zero(s->P * sizeof *s->targets, 64);
    s->keys = rt_alloc_zero(2 * s->P * sizeof *s->keys, 64);
    s->raw = rt_alloc((uint64_t)s->P * (n ? n : 1) * sizeof(double), 64);
    return s->picked && s->targets && s->keys && s->raw ? RT_OK : rt_no_memory(e, "a teacher's outputs");
}

int rt_says_open(rt_says **out, rt_dev *d, const rt_model_file *m, const rt_says_opts *o, const rt_watch *watch,
                 rt_err *e)
{
    int rc;
    const uint32_t none[4] = { 0 };
    rt_says *s = rt_alloc_zero(sizeof *s, 16);
    if (!s) RT_TRY(rt_no_memory(e, "a teacher"));
    s->o = *o;
    s->policy = *rt_device_policy(d);
    const rt_decoder_opts decoder = {
        .name = "teacher", .policy = &s->policy, .dtypes = o->dtypes, .coded = o->coded, .home = o->home
    };
    RT_TRY(choose_size(s, d, m->config.vocab, e));
    RT_TRY(host_room(s, e));
    RT_TRY(rt_space_new(&s->space, e));
    RT_TRY(rt_decoder_new(&s->model, s->space, &m->config, &decoder, e));
    declare(s);
    RT_TRY(record(s, e));
    RT_TRY(seal(s, d, e));
    RT_TRY(rt_disk_feed_add(&s->feed, s->x, s->model, m, e));
    RT_TRY(rt_load_weights(s->x, s->model, m, watch, e));
    if (s->fault.buf) RT_TRY(rt_exec_write(s->x, s->fault, none, sizeof none, e));
    if (s->vmask.buf) RT_TRY(rt_exec_write(s->x, s->vmask, o->vmask, (uint64_t)s->vmask.cols * sizeof *o->vmask, e));
    *out = s;
    s = NULL;
out:
    rt_says_free(s);
    return rc;
}

void rt_says_free(rt_says *s)
{
    if (!s) return;
    rt_says_hear(s, NULL); /* nothing is written any more into room that others free */
    rt_exec_free(s->x);
    rt_disk_feed_free(s->feed);
    rt_plan_free(s->read);
    for (int u = 0; u < USES; u++) rt_plan_free(s->ask[u].plan);
    rt_decoder_free(s->model);
    rt_space_free(s->space);
    rt_free(s->picked);
    rt_free(s->targets);
    rt_free(s->keys);
    rt_free(s->raw);
    rt_free(s);
}

const rt_exec *rt_says_exec(const rt_says *s) { return s->x; }
rt_dtype rt_says_dtype(const rt_says *s) { return s->policy.act; }

void rt_says_seconds(const rt_says *s, double *layers, double *head)
{
    *layers = s->layers;
    *head = s->head;
}

/* ---- what is under way ---- */

/* A number of the teacher's that is not finite says nothing, and must not be kept. */
static int check_answer(const pending *p, rt_err *e)
{
    const question *q = p->q;
    const rt_says_answer *out = &p->out;
    for (uint32_t i = p->first; i < p->first + p->n; i++) {
        bool good = (!q->rest.buf || isfinite(out->rest[i])) && (!q->entropy.buf || isfinite(out->entropy[i])) &&
                    (!q->ce.buf || isfinite(out->target_logp[i])) && out->id[(size_t)i * q->n] >= 0;
        for (size_t j = (size_t)i * q->n; j < (size_t)(i + 1) * q->n; j++)
            good = good && (out->id[j] < 0 || isfinite(out->logp[j]));
        if (!good)
            return rt_fail(e, RT_NONFINITE,
                           "the teacher's logits are not finite, first at asked position %u; the model "
                           "is damaged, or overflows in this dtype",
                           i);
    }
    return RT_OK;
}

/* The oldest is waited for; what it took is known then. */
static int hear_one(rt_says *s, rt_err *e)
{
    int rc;
    const pending p = s->way[0];
    for (uint32_t i = 1; i < s->under_way; i++) s->way[i - 1] = s->way[i];
    s->under_way--;
    RT_TRY(rt_exec_wait(s->x, p.ran.ticket, e));
    *(p.q ? &s->head : &s->layers) += rt_exec_seconds(s->x, &p.ran);
    if (!p.q) return RT_OK;
    RT_TRY(rt_exec_wait(s->x, p.read, e));
    for (uint32_t i = p.first; p.q->ce.buf && i < p.first + p.n; i++) p.out.target_logp[i] = -p.out.target_logp[i];
    RT_TRY(check_answer(&p, e));
out:
    return rc;
}

/* Those of layers that nobody has asked about stay under way. */
int rt_says_hear(rt_says *s, rt_err *e)
{
    uint32_t asked = s->under_way;
    int rc = RT_OK, first = RT_OK;
    while (asked && !s->way[asked - 1].q) asked--;
    for (; asked; asked--) { /* all of them, whatever one says: their room is the caller's again */
        rc = hear_one(s, first < 0 ? NULL : e);
        if (first >= 0) first = rc;
    }
    return first;
}

/* Of a program that is run now. */
static int begin(rt_says *s, uint32_t program, pending **out, rt_err *e)
{
    int rc;
    if (s->under_way == UNDER_WAY) RT_TRY(hear_one(s, e));
    pending *p = &s->way[s->under_way];
    *p = (pending){ 0 };
    RT_TRY(rt_exec_run_timed(s->x, program, &p->ran, e));
    p->read = p->ran.ticket;
    s->under_way++;
    *out = p;
out:
    return rc;
}

int rt_says_read(rt_says *s, const int32_t *ids, const int32_t *pos, const int32_t *start, rt_err *e)
{
    int rc;
    pending *p;
    uint64_t bytes = (uint64_t)s->o.B * s->o.T * sizeof *ids;
    RT_TRY(rt_exec_write(s->x, s->tokens.ids, ids, bytes, e));
    RT_TRY(rt_exec_write(s->x, s->tokens.pos, pos, bytes, e));
    RT_TRY(rt_exec_write(s->x, s->tokens.start, start, bytes, e));
    RT_TRY(begin(s, READ, &p, e));
out:
    return rc;
}

int rt_says_hidden(rt_says *s, void *hidden, rt_err *e)
{
    int rc = rt_exec_read(s->x, s->hidden, hidden,
                          rt_dtype_bytes(s->policy.act, (uint64_t)s->hidden.rows * s->hidden.cols), e);
    while (rc >= 0 && s->under_way) rc = hear_one(s, e);
    return rc;
}

/* The first rows of a column or list of scalars, as f32: there when p is heard. */
static int read_scalars(rt_says *s, pending *p, rt_view v, float *out, rt_err *e)
{
    int rc;
    v.rows = p->n;
    uint64_t n = (uint64_t)p->n * v.cols, bytes = rt_dtype_bytes(s->policy.scalar, n);
    if (s->policy.scalar == RT_DTYPE_F32) return rt_exec_read_later(s->x, v, out, bytes, &p->read, e);
    RT_TRY(rt_exec_read(s->x, v, s->raw, bytes, e));
    for (uint64_t i = 0; i < n; i++) out[i] = (float)s->raw[i];
out:
    return rc;
}

static int read_answer(rt_says *s, pending *p, rt_err *e)
{
    int rc;
    const question *q = p->q;
    size_t at = (size_t)p->first * q->n;
    rt_view id = q->id;
    id.rows = p->n;
    RT_TRY(rt_exec_read_later(s->x, id, p->out.id + at, (uint64_t)p->n * q->n * sizeof *p->out.id, &p->read, e));
    RT_TRY(read_scalars(s, p, q->logp, p->out.logp + at, e));
    if (q->rest.buf) RT_TRY(read_scalars(s, p, q->rest, p->out.rest + p->first, e));
    if (q->entropy.buf) RT_TRY(read_scalars(s, p, q->entropy, p->out.entropy + p->first, e));
    if (q->ce.buf) RT_TRY(read_scalars(s, p, q->ce, p->out.target_logp + p->first, e));
out:
    return rc;
}

int rt_says_ask(rt_says *s, rt_source_use use, const rt_says_asked *a, const rt_says_answer *out, rt_err *e)
{
    int rc = RT_OK;
    pending *p;
    const question *q = &s->ask[use];
    const rt_step step = { .step = 1, .tokens = 1, .seed = s->o.seed };
    if (!q->plan) return rt_fail(e, RT_INTERNAL, "a teacher was asked for something it was not opened for");
    for (uint32_t first = 0, n; first < a->count; first += n) {
        n = a->count - first < s->P ? a->count - first : s->P;
        for (uint32_t i = 0; i < s->P; i++) { /* the last again, to fill up */
            uint32_t from = first + (i < n ? i : n - 1);
            s->picked[i] = a->position[from];
            s->targets[i] = a->target[from];
            s->keys[2 * i] = a->key ? a->key[2 * from] : 0;
            s->keys[2 * i + 1] = a->key ? a->key[2 * from + 1] : 0;
        }
        RT_TRY(rt_exec_write(s->x, s->step, &step, sizeof step, e));
        RT_TRY(rt_exec_write(s->x, s->pick, s->picked, s->P * sizeof *s->picked, e));
        RT_TRY(rt_exec_write(s->x, s->target, s->targets, s->P * sizeof *s->targets, e));
        RT_TRY(rt_exec_write(s->x, s->key, s->keys, 2 * s->P * sizeof *s->keys, e));
        RT_TRY(begin(s, q->index, &p, e));
        p->q = q, p->out = *out, p->first = first, p->n = n;
        RT_TRY(read_answer(s, p, e));
    }
out:
    if (rc < 0) rt_says_hear(s, NULL);
    return rc;
}
