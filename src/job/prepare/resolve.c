/* resolve.c - see resolve.h. The reasons for the numbers are in docs/training.md. */
#include "job/prepare/resolve.h"

#include "job/prepare/budget.h"
#include "job/prepare/fit.h"
#include "job/prepare/pace.h"
#include "job/prepare/rate.h"
#include "train/evaluate.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEQ_LEN = 2048,
    SEQ_ROUND = 256,
    MICRO_TOKENS = 2048, /* positions at a time: enough to keep the GEMMs of a CPU busy */
    LEAST_WARMUP = 10,
    LORA_RANK = 32,
    LEAST_HELD = 128,
    LEAST_STEPS = 4, /* in a pass over data that is too small for RT_BATCH */
    MOST_HELD = 1000,
    MOST_STEPS = 1000000000,
};

/* ---- words ---- */

typedef struct word {
    const char *name;
    int value;
} word;

static int choose(const char *text, const word *words, const char *flag, int *out, rt_err *e)
{
    rt_str all = { 0 };
    for (const word *w = words; w->name; w++)
        if (strcmp(text, w->name) == 0) return *out = w->value, RT_OK;
    for (const word *w = words; w->name; w++) rt_str_printf(&all, "%s%s", all.len ? ", " : "", w->name);
    int rc = rt_fail(e, RT_USAGE, "%s '%s' is unknown; use one of %s", flag, text, all.data ? all.data : "");
    rt_str_free(&all);
    return rc;
}

static const word divergences[] = {
#define X(name, text, label, title, mix) { text, RT_DIV_##name },
    RT_DIVERGENCE_LIST(X)
#undef X
        { 0 }
};
static const word on_off[] = { { "on", 1 }, { "off", 0 }, { 0 } };
static const word best_last[] = { { "best", 1 }, { "last", 0 }, { 0 } };
static const word save_dtypes[] = {
    { "f32", RT_DTYPE_F32 }, { "bf16", RT_DTYPE_BF16 }, { "f16", RT_DTYPE_F16 }, { 0 }
};
static const word optimizers[] = {
    { "adamw", RT_DTYPE_F32 }, { "adamw-bf16", RT_DTYPE_BF16 }, { "adamw-8bit", RT_DTYPE_U8 }, { 0 }
};
static const word lora_roles[] = { { "q", RT_ROLE_Q },       { "k", RT_ROLE_K },
                                   { "v", RT_ROLE_V },       { "o", RT_ROLE_O },
                                   { "gate", RT_ROLE_GATE }, { "up", RT_ROLE_UP },
                                   { "down", RT_ROLE_DOWN }, { 0 } };

#define GIVEN(name) s->given[RT_SETTING_ID_##name]
/* "--name VALUE is out of range (RANGE)", unless it is in the range of the settings, or ok. */
#define RANGE(name) RT_TRY(rt_settings_check_range(s, RT_SETTING_ID_##name, e))
#define CHECK(name, ok, range)                                                                                         \
    if (!(ok)) RT_TRY(rt_settings_out_of_range(s, RT_SETTING_ID_##name, range, e))

/* ---- the loss ---- */

static int resolve_loss(rt_settings *s, bool teacher, rt_resolved *r, rt_err *e)
{
    int rc, v;
    rt_loss_opts *l = &r->loss;
    RT_TRY(choose(s->divergence, divergences, "--divergence", &v, e));
    l->divergence = (rt_divergence)v;
    RT_TRY(choose(s->t2, on_off, "--t2", &v, e));
    l->t2 = v != 0;
    l->temperature = s->temperature;
    l->mix = rt_divergence_mix(l->divergence) == RT_MIX_BETA ? s->beta : s->skew;
    RANGE(temperature);
    RANGE(alpha);
    RANGE(beta);
    RANGE(skew);
    if (!GIVEN(kd_weight)) RT_SETTINGS_PUT(s, kd_weight, teacher ? s->alpha : 0.0);
    if (!GIVEN(ce_weight)) RT_SETTINGS_PUT(s, ce_weight, teacher ? 1.0 - s->alpha : 1.0);
    RANGE(kd_weight);
    RANGE(ce_weight);
    l->kd_weight = s->kd_weight;
    l->ce_weight = s->ce_weight;
    if (l->kd_weight + l->ce_weight == 0)
        RT_TRY(rt_fail(e, RT_USAGE, "--kd-weight and --ce-weight are both 0, so there is no loss; raise one of them"));
out:
    return rc;
}

/* ---- adapters, frozen parts ---- */

static int resolve_targets(const char *text, uint32_t *roles, rt_err *e)
{
    *roles = RT_LORA_ROLES;
    if (strcmp(text, "all") == 0 || strcmp(text, "all-linear") == 0) return RT_OK;
    *roles = 0;
    for (const char *at = text; *at;) {
        char one[16];
        size_t n = strcspn(at, ",");
        int role;
        if (n == 0 || n >= sizeof one)
            return rt_fail(e, RT_USAGE, "--lora-targets takes all, or some of q,k,v,o,gate,up,down, not '%s'", text);
        memcpy(one, at, n);
        one[n] = 0;
        if (n > 5 && strcmp(one + n - 5, "_proj") == 0) one[n - 5] = 0; /* as PEFT writes it */
        int rc = choose(one, lora_roles, "--lora-targets", &role, e);
        if (rc < 0) return rc;
        *roles |= 1u << role;
        at += n + (at[n] == ',');
    }
    return *roles ? RT_OK : rt_fail(e, RT_USAGE, "--lora-targets is empty; give all, or some of q,k,v,o,gate,up,down");
}

static int resolve_lora(rt_settings *s, rt_resolved *r, rt_err *e)
{
    int rc = RT_OK;
    if (!s->lora && !GIVEN(lora_rank)) return RT_OK;
    if (s->freeze.count)
        RT_TRY(rt_fail(e, RT_USAGE, "--freeze and --lora exclude one another: with adapters the model is frozen"));
    if (!GIVEN(lora_rank)) RT_SETTINGS_PUT(s, lora_rank, LORA_RANK);
    RANGE(lora_rank);
    if (!GIVEN(lora_alpha)) RT_SETTINGS_PUT(s, lora_alpha, 2.0 * (double)s->lora_rank);
    RANGE(lora_alpha);
    if (GIVEN(dump_step) && s->lora_dropout > 0)
        RT_TRY(rt_fail(e, RT_USAGE,
                       "--dump-step and --lora-dropout exclude one another: a dump does not say what was dropped"));
    RANGE(lora_dropout);
    r->lora.rank = (uint32_t)s->lora_rank;
    r->lora.alpha = s->lora_alpha;
    r->lora.dropout = s->lora_dropout;
    RT_TRY(resolve_targets(s->lora_targets, &r->lora.roles, e));
out:
    return rc;
}

int rt_resolve_freeze(const rt_setting_list *patterns, const rt_model_config *c, bool *frozen, rt_err *e)
{
    rt_role role;
    uint32_t layer, n = rt_param_count(c);
    char name[RT_NAME_BYTES];
    memset(frozen, 0, n * sizeof *frozen);
    for (uint32_t k = 0; k < patterns->count; k++) {
        uint32_t hits = 0;
        for (uint32_t i = 0; rt_param_at(c, i, &role, &layer); i++)
            if (fnmatch(patterns->text[k], rt_role_hf_name(name, role, layer), 0) == 0) frozen[i] = true, hits++;
        if (!hits)
            return rt_fail(e, RT_INVALID, "--freeze '%s' matches no parameter; their names are like %s",
                           patterns->text[k], rt_role_hf_name(name, RT_ROLE_Q, 0));
    }
    return RT_OK;
}

/* ---- lengths and held-out part ---- */

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* What is left of a context beside a prompt. */
static uint32_t beside(uint32_t context, uint32_t prompt) { return context > prompt ? context - prompt : 0; }

static int resolve_length(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_err *e)
{
    int rc = RT_OK;
    uint32_t most = f->student->context;
    if (f->teacher) most = least(most, beside(f->teacher->context, f->prompt[0]));
    for (uint32_t i = 0; i < f->other_teachers; i++)
        most = least(most, beside(f->others[i]->context, f->prompt[i + 1]));
    if (!GIVEN(seq_len)) {
        uint32_t v = SEQ_LEN;
        if (f->length99) v = least(v, (uint32_t)rt_align_up(f->length99, SEQ_ROUND));
        RT_SETTINGS_PUT(s, seq_len, least(v, most));
    }
    if (s->seq_len < 2 || s->seq_len > most)
        RT_TRY(rt_fail(e, RT_INVALID, "--seq-len %" PRIu64 " is out of range (2 to %u, the context of %s)", s->seq_len,
                       most,
                       f->other_teachers ? "all models"
                       : f->teacher      ? "both models"
                                         : "the model"));
    r->seq_len = (uint32_t)s->seq_len;
out:
    return rc;
}

/* Rows of a step, as far as is known before rows are counted. */
static double expected_batch(const rt_settings *s) { return GIVEN(batch) ? (double)s->batch : RT_BATCH; }

/* Positions that the run trains, as far as is known before rows are counted; --time goes by the data. */
static double expected_positions(const rt_settings *s, const rt_run_facts *f)
{
    if (GIVEN(steps)) return (double)s->steps * expected_batch(s) * (double)s->seq_len;
    return GIVEN(tokens) ? (double)s->tokens : (GIVEN(epochs) ? s->epochs : 3) * (double)f->tokens;
}

/* How often the run evaluates, besides the first time and the last. */
static double expected_evaluations(const rt_settings *s, double positions)
{
    rt_share v = s->eval_every;
    if (!GIVEN(eval_every)) return RT_EVALS_MOST;
    return v.percent ? 100 / v.value : positions / (expected_batch(s) * (double)s->seq_len) / v.value;
}

/* 1 % of the records, but at least 128 and at most 1,000 of them, and never more than a tenth. Where evaluations would
 * be more of the run than they should, fewer records and fewer evaluations, in the same proportion. */
static double default_held_out(const rt_settings *s, const rt_run_facts *f, const rt_resolved *r)
{
    if (f->records == 0) return 0.01;
    double share = 0.01, n = (double)f->records;
    if (share * n < LEAST_HELD) share = LEAST_HELD / n;
    if (share * n > MOST_HELD) share = MOST_HELD / n;
    if (share > 0.1) share = 0.1;
    double positions = expected_positions(s, f), evals = expected_evaluations(s, positions);
    double room = rt_eval_room(f, r->lora.rank > 0, positions), each = share * (double)f->tokens;
    double fits = room / (each * (evals + RT_EVALS_BESIDES));
    if (!(room > 0) || !(fits < 1)) return share;
    if (!GIVEN(eval_every)) evals = fmax(RT_EVALS_LEAST, evals * sqrt(fits));
    double least = RT_HELD_LEAST / n, most = share;
    share *= room / (each * (evals + RT_EVALS_BESIDES));
    return fmin(fmax(share, least), most);
}

/* Six digits, so that the record of the run is short and reads back as what was used. */
static double six_digits(double v)
{
    double unit = pow(10.0, 5.0 - floor(log10(v)));
    return floor(v * unit + 0.5) / unit;
}

static int resolve_held_out(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_err *e)
{
    int rc = RT_OK;
    double n = (double)f->records;
    r->held_out = 0;
    r->held_chosen = !GIVEN(held_out) && !s->eval_data.count;
    if (s->eval_data.count && GIVEN(held_out))
        RT_TRY(rt_fail(e, RT_USAGE,
                       "--held-out and --eval-data exclude one another; leave one out (--eval-data FILE,weight=0.1 "
                       "measures on a tenth of its records)"));
    if (s->eval_data.count) return RT_OK;
    if (!GIVEN(held_out))
        RT_SETTINGS_PUT(s, held_out, ((rt_share){ six_digits(100.0 * default_held_out(s, f, r)), true }));
    rt_share v = s->held_out;
    CHECK(held_out, v.value > 0 && (v.percent ? v.value < 100 : !f->records || v.value < n),
          "above 0, and less than all records");
    r->held_out = v.percent ? v.value / 100.0 : f->records ? v.value / n : 0.01;
    r->held_records = v.percent ? 0 : (uint64_t)ceil(v.value);
out:
    return rc;
}

int rt_resolve_before_rows(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_err *e)
{
    int rc, v;
    *r = (rt_resolved){
        .eps = s->eps, .weight_decay = s->weight_decay, .max_grad_norm = s->max_grad_norm, .seed = s->seed
    };
    RT_TRY(resolve_loss(s, f->teacher != NULL, r, e));
    RT_TRY(resolve_lora(s, r, e));
    RT_TRY(resolve_length(s, f, r, e));
    RT_TRY(resolve_held_out(s, f, r, e));
    if (!GIVEN(held_seed)) RT_SETTINGS_PUT(s, held_seed, s->seed);
    r->held_seed = s->held_seed;
    if (!GIVEN(recompute)) RT_SETTINGS_PUT(s, recompute, "none");
    if (!rt_recompute_parse(s->recompute, &r->recompute))
        RT_TRY(
            rt_fail(e, RT_USAGE,
                    "--recompute '%s' is unknown; use one of keep, none, norms, mlp, block, or layers of each such as "
                    "block:14,norms:10",
                    s->recompute));
    r->teacher_weights = RT_WEIGHTS_AUTO;
    if (GIVEN(teacher_weights) && !rt_weights_parse(s->teacher_weights, &r->teacher_weights))
        RT_TRY(rt_fail(e, RT_USAGE, "--teacher-weights '%s' is unknown; use one of " RT_WEIGHTS_WORDS,
                       s->teacher_weights));
    r->teacher_memory = RT_TEACHER_AUTO;
    if (GIVEN(teacher_memory) && !rt_teacher_memory_parse(s->teacher_memory, &r->teacher_memory))
        RT_TRY(rt_fail(e, RT_USAGE, "--teacher-memory '%s' is unknown; use one of " RT_TEACHER_MEMORY_WORDS,
                       s->teacher_memory));
    if (r->teacher_memory == RT_TEACHER_DISK && r->teacher_weights != RT_WEIGHTS_AUTO &&
        !rt_weights_as_stored(r->teacher_weights))
        RT_TRY(rt_fail(e, RT_USAGE,
                       "--teacher-memory disk reads weights as they are stored at every pass, and --teacher-weights %s "
                       "converts them; leave one out, or use --teacher-memory host",
                       rt_weights_name(r->teacher_weights)));
    RT_TRY(choose(s->optimizer, optimizers, "--optimizer", &v, e));
    r->moments = (rt_dtype)v;
    RT_TRY(choose(s->save, best_last, "--save", &v, e));
    r->save_best = v != 0;
    char *end, *second = NULL;
    r->beta1 = strtod(s->betas, &end);
    r->beta2 = end != s->betas && *end == ',' ? strtod(second = end + 1, &end) : -1;
    if (*end || end == second || !(r->beta1 >= 0 && r->beta1 < 1 && r->beta2 >= 0 && r->beta2 < 1))
        RT_TRY(
            rt_fail(e, RT_USAGE, "--betas takes two numbers from 0 to below 1, such as 0.9,0.95; not '%s'", s->betas));
    RANGE(eps);
    RANGE(weight_decay);
    RANGE(max_grad_norm);
    if (GIVEN(memory_limit) && (!rt_parse_bytes(s->memory_limit, &r->memory_limit) || r->memory_limit == 0))
        RT_TRY(rt_fail(e, RT_USAGE, "--memory-limit takes a size such as 22GiB or 500MB, not '%s'", s->memory_limit));
    CHECK(head_chunk, s->head_chunk <= 1u << 24, "0 to 16777216; 0 chooses");
out:
    return rc;
}

/* ---- steps, rates, intervals ---- */

static void put_rate(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_lr_class c)
{
    RT_SETTINGS_PUT(s, lr_class, rt_lr_class_name(c));
    RT_SETTINGS_PUT(s, lr, rt_lr_default(c, f, r->lora.rank > 0));
    r->schedule.lr = s->lr;
    r->lr_open = false;
}

void rt_resolve_rate(rt_settings *s, const rt_run_facts *f, rt_resolved *r, const rt_eval_result *first)
{
    if (r->lr_open) put_rate(s, f, r, rt_lr_class_of(first, f->student->vocab));
}

static int resolve_rate(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_err *e)
{
    rt_lr_class class = RT_LR_RANDOM;
    bool adapters = r->lora.rank > 0;
    if (GIVEN(lr_class) && !rt_lr_class_parse(s->lr_class, &class))
        return rt_fail(e, RT_USAGE, "--lr-class '%s' is unknown; use one of near, far, random", s->lr_class);
    r->lr_near = rt_lr_default(RT_LR_NEAR, f, adapters);
    r->lr_far = rt_lr_default(RT_LR_FAR, f, adapters);
    r->lr_open = !GIVEN(lr) && !GIVEN(lr_class) && !f->student->random_init;
    r->schedule.lr = GIVEN(lr) ? s->lr : r->lr_near;
    if (!GIVEN(lr) && !r->lr_open) put_rate(s, f, r, class);
    return RT_OK;
}

static int resolve_steps(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_err *e)
{
    int rc = RT_OK;
    int said = GIVEN(steps) + GIVEN(tokens) + GIVEN(epochs) + GIVEN(time);
    if (said > 1) RT_TRY(rt_fail(e, RT_USAGE, "--steps, --tokens, --epochs and --time exclude one another; give one"));
    if (GIVEN(time)) { /* how many is known when steps have been timed; until then as many as there could be */
        RT_TRY(rt_parse_duration(s->time, &r->seconds, e));
        r->steps = MOST_STEPS;
        return RT_OK;
    }
    if (!said) RT_SETTINGS_PUT(s, epochs, 3);
    double rows = s->epochs * (double)f->rows_per_epoch, per_step = (double)r->batch;
    if (GIVEN(tokens)) rows = (double)s->tokens / r->seq_len;
    double steps = GIVEN(steps) ? (double)s->steps : ceil(rows / per_step);
    if (!(steps >= 1 && steps <= MOST_STEPS))
        RT_TRY(rt_fail(e, RT_INVALID, "the run would have %.0f steps; give more data, --epochs or --steps", steps));
    r->steps = (uint32_t)steps;
out:
    return rc;
}

static uint32_t steps_of(rt_share s, uint32_t all)
{
    uint64_t n = rt_share_of(s, all);
    return n < all ? (uint32_t)n : all;
}

static int resolve_schedule(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_err *e)
{
    int rc;
    rt_schedule *c = &r->schedule;
    if (!rt_schedule_parse(s->schedule, &c->kind))
        RT_TRY(
            rt_fail(e, RT_USAGE, "--schedule '%s' is unknown; use one of constant, linear, cosine, wsd", s->schedule));
    RT_TRY(resolve_rate(s, f, r, e));
    if (!GIVEN(warmup)) {
        double n = floor(0.03 * r->steps + 0.5);
        if (n < LEAST_WARMUP) n = LEAST_WARMUP;
        RT_SETTINGS_PUT(s, warmup, ((rt_share){ .value = n > r->steps / 2 ? r->steps / 2 : n }));
    }
    CHECK(decay, s->decay.value > 0, "from 1, or above 0%");
    CHECK(warmup, rt_share_of(s->warmup, r->steps) <= r->steps, "no longer than the run");
    c->floor = s->lr_floor;
    c->warmup = steps_of(s->warmup, r->steps);
    c->decay = steps_of(s->decay, r->steps);
    c->steps = r->steps;
    RT_TRY(rt_schedule_check(c, e));
out:
    return rc;
}

/* Shared out wherever the device can. */
static int resolve_zero(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_err *e)
{
    int rc = RT_OK;
    if (!GIVEN(zero) && f->sharing > 1) RT_SETTINGS_PUT(s, zero, 1);
    RANGE(zero);
    r->zero = (uint32_t)s->zero;
out:
    return rc;
}

static int resolve_micro_batch(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_err *e)
{
    int rc = RT_OK;
    if (!GIVEN(micro_batch)) {
        uint32_t most = (f->positions ? f->positions : MICRO_TOKENS) / r->seq_len;
        RT_SETTINGS_PUT(s, micro_batch, rt_fit_rows(r->batch, most));
    }
    if (s->micro_batch == 0 || s->micro_batch > r->batch)
        RT_TRY(rt_fail(e, RT_INVALID, "--micro-batch %" PRIu64 " is out of range (1 to %u, the --batch)",
                       s->micro_batch, r->batch));
    r->micro_batch = (uint32_t)s->micro_batch;
    /* A CPU gains nothing from more rows than it has at a time anyway. */
    r->teacher_batch = f->positions ? f->positions / r->seq_len : r->micro_batch;
    CHECK(teacher_batch, !GIVEN(teacher_batch) || s->teacher_batch >= 1, "from 1");
    if (GIVEN(teacher_batch)) r->teacher_batch = s->teacher_batch < r->batch ? (uint32_t)s->teacher_batch : r->batch;
out:
    return rc;
}

/* How many rows, of a held-out part that we chose: all, or as many as at least a few evaluations may measure. */
static void resolve_rows(rt_settings *s, const rt_run_facts *f, rt_resolved *r, double held)
{
    double trained = r->seconds > 0 ? expected_positions(s, f) : (double)r->steps * r->batch * r->seq_len;
    double evals = !GIVEN(eval_every)      ? 0
                   : s->eval_every.percent ? ceil(100 / s->eval_every.value)
                                           : ceil(trained / r->batch / r->seq_len / s->eval_every.value);
    r->eval_room = rt_eval_room(f, r->lora.rank > 0, trained) / r->seq_len;
    r->eval_rows = GIVEN(eval_rows) ? (uint32_t)s->eval_rows : RT_EVAL_MOST_ROWS;
    if (GIVEN(eval_rows) || f->old) return;
    double fits = r->eval_room / ((evals > 0 ? evals : RT_EVALS_LEAST) + RT_EVALS_BESIDES);
    if (r->held_chosen && fits > 0 && fits < held / r->seq_len)
        r->eval_rows = least(RT_EVAL_MOST_ROWS, (uint32_t)rt_eval_rows_for(r->eval_room, evals));
    RT_SETTINGS_PUT(s, eval_rows, r->eval_rows);
}

/* How often, unless it is said: every 5 % of the steps, or less often where that would be more of the run than
 * evaluation should. */
static int resolve_evaluation(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_err *e)
{
    int rc = RT_OK;
    bool adapters = r->lora.rank > 0;
    double held = r->held_out > 0 ? r->held_out * (double)f->tokens : (double)f->eval_tokens;
    CHECK(eval_rows, !GIVEN(eval_rows) || (s->eval_rows >= 1 && s->eval_rows <= RT_EVAL_MOST_ROWS), "1 to 1000");
    CHECK(eval_every, !GIVEN(eval_every) || s->eval_every.value > 0, "from 1, or above 0%");
    resolve_rows(s, f, r, held);
    rt_run_positions n = { .trained = (double)r->steps * r->batch * r->seq_len,
                           .held = fmin(held, (double)r->eval_rows * r->seq_len) };
    if (!GIVEN(eval_every)) {
        double room = rt_eval_room(f, adapters, n.trained);
        double fewest = r->eval_rows < RT_EVAL_MOST_ROWS ? 1 : RT_EVALS_LEAST;
        double evals = room > 0 && n.held > 0 ? room / n.held - RT_EVALS_BESIDES : RT_EVALS_MOST;
        evals = floor(fmin(fmax(evals, fewest), RT_EVALS_MOST));
        rt_share often = { 100.0 / RT_EVALS_MOST, true }, less = { ceil(r->steps / evals), false };
        RT_SETTINGS_PUT(s, eval_every, evals < RT_EVALS_MOST ? less : often);
    }
    r->eval_every = steps_of(s->eval_every, r->steps);
    r->eval_share = rt_eval_share(f, adapters, n, ceil((double)r->steps / r->eval_every) + RT_EVALS_BESIDES);
    CHECK(stop_if_worse, s->stop_if_worse <= UINT32_MAX, "0 to 4294967295; 0 never stops");
    r->stop_if_worse = (uint32_t)s->stop_if_worse;
out:
    return rc;
}

/* Of data with fewer rows than that the largest power of two with which a pass has some steps. */
static uint32_t default_batch(uint64_t rows)
{
    uint32_t batch = RT_BATCH;
    if (rows == 0 || rows >= RT_BATCH) return batch; /* 0: not known */
    while (batch > 1 && batch * LEAST_STEPS > rows) batch /= 2;
    return batch;
}

int rt_resolve_with_rows(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_err *e)
{
    int rc, v;
    if (!GIVEN(batch)) RT_SETTINGS_PUT(s, batch, default_batch(f->rows_per_epoch));
    RANGE(batch);
    r->batch = (uint32_t)s->batch;
    RT_TRY(resolve_micro_batch(s, f, r, e));
    RT_TRY(resolve_zero(s, f, r, e));
    RT_TRY(resolve_steps(s, f, r, e));
    RT_TRY(resolve_schedule(s, f, r, e));
    RT_TRY(resolve_evaluation(s, f, r, e));
    CHECK(save_every, s->save_every.value > 0, "from 1, or above 0%");
    r->save_every = steps_of(s->save_every, r->steps);
    if (GIVEN(dump_step) && (s->dump_step == 0 || s->dump_step > r->steps))
        RT_TRY(rt_fail(e, RT_INVALID, "--dump-step %" PRIu64 " is out of range (1 to %u, the last step)", s->dump_step,
                       r->steps));
    r->keep = s->keep > UINT32_MAX ? UINT32_MAX : (uint32_t)s->keep;
    r->head_chunk = (uint32_t)s->head_chunk;
    if (!GIVEN(save_dtype)) {
        rt_dtype d = f->student_dtype == RT_DTYPE_F64 ? RT_DTYPE_F32 : f->student_dtype;
        if (!rt_dtype_is_float(d)) d = RT_DTYPE_BF16;
        RT_SETTINGS_PUT(s, save_dtype, rt_dtype_name(d));
    }
    RT_TRY(choose(s->save_dtype, save_dtypes, "--save-dtype", &v, e));
    r->save_dtype = (rt_dtype)v;
out:
    return rc;
}
