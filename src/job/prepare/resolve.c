/* resolve.c - see resolve.h. The reasons for the numbers are in docs/training.md. */
#include "job/prepare/resolve.h"

#include "job/prepare/fit.h"
#include "job/prepare/pace.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEQ_LEN = 2048,
    SEQ_ROUND = 256,
    MICRO_TOKENS = 2048, /* positions at a time: enough to keep a processor's products busy */
    LEAST_WARMUP = 10,
    LORA_RANK = 32,
    LEAST_HELD = 128,
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
    int rc = rt_fail(e, RT_USAGE, "%s is one of %s, not '%s'", flag, all.data ? all.data : "", text);
    rt_str_free(&all);
    return rc;
}

static const word divergences[] = { { "forward-kl", RT_DIV_FORWARD_KL },
                                    { "reverse-kl", RT_DIV_REVERSE_KL },
                                    { "jsd", RT_DIV_JSD },
                                    { "skew-forward", RT_DIV_SKEW_FKL },
                                    { "skew-reverse", RT_DIV_SKEW_RKL },
                                    { "tv", RT_DIV_TV },
                                    { 0 } };
static const word on_off[] = { { "on", 1 }, { "off", 0 }, { 0 } };
static const word recomputes[] = { { "none", RT_RECOMPUTE_NONE }, { "block", RT_RECOMPUTE_BLOCK }, { 0 } };
static const word best_last[] = { { "best", 1 }, { "last", 0 }, { 0 } };
static const word save_dtypes[] = {
    { "f32", RT_DTYPE_F32 }, { "bf16", RT_DTYPE_BF16 }, { "f16", RT_DTYPE_F16 }, { 0 }
};
static const word lora_roles[] = { { "q", RT_ROLE_Q },       { "k", RT_ROLE_K },
                                   { "v", RT_ROLE_V },       { "o", RT_ROLE_O },
                                   { "gate", RT_ROLE_GATE }, { "up", RT_ROLE_UP },
                                   { "down", RT_ROLE_DOWN }, { 0 } };

/* ---- what was settled goes back into the settings ---- */

static int put_count(rt_settings *s, rt_setting_id id, uint64_t v, rt_arena *a, rt_err *e)
{
    const char *text = rt_arena_printf(a, "%" PRIu64, v);
    return text ? rt_settings_set(s, id, text, e) : rt_fail(e, RT_NOMEM, "no memory for settings");
}

static int put_real(rt_settings *s, rt_setting_id id, double v, rt_arena *a, rt_err *e)
{
    const char *text = rt_arena_printf(a, "%.17g", v);
    return text ? rt_settings_set(s, id, text, e) : rt_fail(e, RT_NOMEM, "no memory for settings");
}

#define GIVEN(name) s->given[RT_SETTING_ID_##name]

/* ---- the loss ---- */

static int resolve_loss(rt_settings *s, bool teacher, rt_resolved *r, rt_arena *a, rt_err *e)
{
    int rc, v;
    rt_loss_opts *l = &r->loss;
    RT_TRY(choose(s->divergence, divergences, "--divergence", &v, e));
    l->divergence = (rt_divergence)v;
    RT_TRY(choose(s->t2, on_off, "--t2", &v, e));
    l->t2 = v != 0;
    l->temperature = s->temperature;
    l->mix = l->divergence == RT_DIV_JSD ? s->beta : s->skew;
    if (!(s->temperature > 0)) RT_TRY(rt_fail(e, RT_USAGE, "--temperature must be above 0, not %g", s->temperature));
    if (!(s->alpha >= 0 && s->alpha <= 1)) RT_TRY(rt_fail(e, RT_USAGE, "--alpha is from 0 to 1, not %g", s->alpha));
    if (!(s->beta >= 0 && s->beta <= 1)) RT_TRY(rt_fail(e, RT_USAGE, "--beta is from 0 to 1, not %g", s->beta));
    if (!(s->skew >= 0 && s->skew < 1)) RT_TRY(rt_fail(e, RT_USAGE, "--skew is from 0 to below 1, not %g", s->skew));
    if (!GIVEN(kd_weight)) RT_TRY(put_real(s, RT_SETTING_ID_kd_weight, teacher ? s->alpha : 0.0, a, e));
    if (!GIVEN(ce_weight)) RT_TRY(put_real(s, RT_SETTING_ID_ce_weight, teacher ? 1.0 - s->alpha : 1.0, a, e));
    l->kd_weight = s->kd_weight;
    l->ce_weight = s->ce_weight;
    if (l->kd_weight < 0 || l->ce_weight < 0 || l->kd_weight + l->ce_weight <= 0)
        RT_TRY(rt_fail(e, RT_USAGE, "--kd-weight %g and --ce-weight %g leave nothing to learn", l->kd_weight,
                       l->ce_weight));
    if (!teacher && l->kd_weight > 0) RT_TRY(rt_fail(e, RT_USAGE, "--kd-weight needs a teacher"));
out:
    return rc;
}

/* A flag that would do nothing is a mistake, not a wish. What stands at its default was hardly meant. */
static int refuse_idle(const rt_settings *s, const rt_loss_opts *l, rt_err *e)
{
    const char *flag = NULL, *why = NULL;
    bool skewed = l->divergence == RT_DIV_SKEW_FKL || l->divergence == RT_DIV_SKEW_RKL;
    if (s->beta != strtod(rt_setting_table[RT_SETTING_ID_beta].def, NULL) && l->divergence != RT_DIV_JSD)
        flag = "--beta", why = "--divergence jsd";
    else if (s->skew != strtod(rt_setting_table[RT_SETTING_ID_skew].def, NULL) && !skewed)
        flag = "--skew", why = "--divergence skew-forward or skew-reverse";
    else if (strcmp(s->decay, rt_setting_table[RT_SETTING_ID_decay].def) != 0 && strcmp(s->schedule, "wsd") != 0)
        flag = "--decay", why = "--schedule wsd";
    return flag ? rt_fail(e, RT_USAGE, "%s counts with %s alone; give that too, or leave it out", flag, why) : RT_OK;
}

/* ---- adapters, frozen parts ---- */

static int resolve_targets(const char *text, uint32_t *roles, rt_err *e)
{
    *roles = RT_LORA_ROLES;
    if (strcmp(text, "all") == 0) return RT_OK;
    *roles = 0;
    for (const char *at = text; *at;) {
        char one[16];
        size_t n = strcspn(at, ",");
        int role;
        if (n == 0 || n >= sizeof one)
            return rt_fail(e, RT_USAGE, "--lora-targets is all, or some of q,k,v,o,gate,up,down; not '%s'", text);
        memcpy(one, at, n);
        one[n] = 0;
        int rc = choose(one, lora_roles, "--lora-targets", &role, e);
        if (rc < 0) return rc;
        *roles |= 1u << role;
        at += n + (at[n] == ',');
    }
    return *roles ? RT_OK : rt_fail(e, RT_USAGE, "--lora-targets is empty");
}

static int refuse_without_lora(const rt_settings *s, rt_err *e)
{
    const char *flag = s->merge                              ? "--merge"
                       : GIVEN(lora_alpha)                   ? "--lora-alpha"
                       : strcmp(s->lora_targets, "all") != 0 ? "--lora-targets"
                                                             : NULL;
    return flag ? rt_fail(e, RT_USAGE, "%s is for adapters; give --lora or --lora-rank too", flag) : RT_OK;
}

static int resolve_lora(rt_settings *s, rt_resolved *r, rt_arena *a, rt_err *e)
{
    int rc = RT_OK;
    if (!s->lora && !GIVEN(lora_rank)) return refuse_without_lora(s, e);
    if (s->freeze.count)
        RT_TRY(
            rt_fail(e, RT_USAGE, "--freeze and --lora together say the same twice: with adapters the model is frozen"));
    if (!GIVEN(lora_rank)) RT_TRY(put_count(s, RT_SETTING_ID_lora_rank, LORA_RANK, a, e));
    if (s->lora_rank == 0 || s->lora_rank > 4096)
        RT_TRY(rt_fail(e, RT_USAGE, "--lora-rank is from 1 to 4096, not %" PRIu64, s->lora_rank));
    if (!GIVEN(lora_alpha)) RT_TRY(put_real(s, RT_SETTING_ID_lora_alpha, 2.0 * (double)s->lora_rank, a, e));
    if (!(s->lora_alpha > 0)) RT_TRY(rt_fail(e, RT_USAGE, "--lora-alpha must be above 0, not %g", s->lora_alpha));
    r->lora.rank = (uint32_t)s->lora_rank;
    r->lora.alpha = s->lora_alpha;
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
            return rt_fail(e, RT_INVALID, "--freeze '%s' is no parameter's name; they are like %s", patterns->text[k],
                           rt_role_hf_name(name, RT_ROLE_Q, 0));
    }
    return RT_OK;
}

/* ---- lengths and held-out part ---- */

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static int resolve_length(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_arena *a, rt_err *e)
{
    int rc = RT_OK;
    uint32_t most = f->teacher ? least(f->student->context, f->teacher->context) : f->student->context;
    if (!GIVEN(seq_len)) {
        uint32_t v = SEQ_LEN;
        if (f->length99) v = least(v, (uint32_t)rt_align_up(f->length99, SEQ_ROUND));
        RT_TRY(put_count(s, RT_SETTING_ID_seq_len, least(v, most), a, e));
    }
    if (s->seq_len < 2 || s->seq_len > most)
        RT_TRY(rt_fail(e, RT_INVALID, "--seq-len is from 2 to %u, the longest that %s can, not %" PRIu64, most,
                       f->teacher ? "both models" : "the model", s->seq_len));
    r->seq_len = (uint32_t)s->seq_len;
out:
    return rc;
}

/* 1 % of the records, but at least 128 and at most 1,000 of them, and never more than a tenth. */
static double default_held_out(uint64_t records)
{
    if (records == 0) return 0.01;
    double share = 0.01, n = (double)records;
    if (share * n < LEAST_HELD) share = LEAST_HELD / n;
    if (share * n > MOST_HELD) share = MOST_HELD / n;
    return share > 0.1 ? 0.1 : share;
}

static int resolve_held_out(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_arena *a, rt_err *e)
{
    int rc = RT_OK;
    r->held_out = 0;
    if (s->eval_data.count) {
        if (GIVEN(held_out)) RT_TRY(rt_fail(e, RT_USAGE, "--held-out and --eval-data exclude one another"));
        return RT_OK;
    }
    if (!GIVEN(held_out)) {
        const char *text = rt_arena_printf(a, "%.6g%%", 100.0 * default_held_out(f->records));
        if (!text) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for settings"));
        RT_TRY(rt_settings_set(s, RT_SETTING_ID_held_out, text, e));
    }
    size_t n = strlen(s->held_out);
    char *end;
    double v = strtod(s->held_out, &end);
    bool share = n && s->held_out[n - 1] == '%';
    if (end == s->held_out || (share ? *end != '%' || end[1] : *end != 0) || !(v > 0) || (share && v >= 100) ||
        (!share && f->records && v >= (double)f->records))
        RT_TRY(
            rt_fail(e, RT_USAGE, "--held-out takes a number of records or a share such as 1%%, not '%s'", s->held_out));
    r->held_out = share ? v / 100.0 : f->records ? v / (double)f->records : 0.01;
out:
    return rc;
}

int rt_resolve_before_rows(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_arena *a, rt_err *e)
{
    int rc, v;
    *r = (rt_resolved){
        .eps = s->eps, .weight_decay = s->weight_decay, .max_grad_norm = s->max_grad_norm, .seed = s->seed
    };
    RT_TRY(resolve_loss(s, f->teacher != NULL, r, a, e));
    RT_TRY(refuse_idle(s, &r->loss, e));
    if (s->control && !f->teacher)
        RT_TRY(rt_fail(e, RT_USAGE, "--control is the run without its teacher, and this one has none; leave it out"));
    RT_TRY(resolve_lora(s, r, a, e));
    RT_TRY(resolve_length(s, f, r, a, e));
    RT_TRY(resolve_held_out(s, f, r, a, e));
    if (!GIVEN(recompute)) RT_TRY(rt_settings_set(s, RT_SETTING_ID_recompute, "none", e));
    RT_TRY(choose(s->recompute, recomputes, "--recompute", &v, e));
    r->recompute = (rt_recompute)v;
    r->teacher_weights = RT_WEIGHTS_AUTO;
    if (GIVEN(teacher_weights) && !rt_weights_parse(s->teacher_weights, &r->teacher_weights))
        RT_TRY(rt_fail(e, RT_USAGE, "--teacher-weights is auto, native or bf16, not '%s'", s->teacher_weights));
    RT_TRY(choose(s->save, best_last, "--save", &v, e));
    r->save_best = v != 0;
    char *end, *second = NULL;
    r->beta1 = strtod(s->betas, &end);
    r->beta2 = end != s->betas && *end == ',' ? strtod(second = end + 1, &end) : -1;
    if (*end || end == second || !(r->beta1 >= 0 && r->beta1 < 1 && r->beta2 >= 0 && r->beta2 < 1))
        RT_TRY(
            rt_fail(e, RT_USAGE, "--betas takes two numbers from 0 to below 1, such as 0.9,0.95; not '%s'", s->betas));
    if (!(r->eps > 0)) RT_TRY(rt_fail(e, RT_USAGE, "--eps must be above 0"));
    if (!(r->weight_decay >= 0)) RT_TRY(rt_fail(e, RT_USAGE, "--weight-decay cannot be negative"));
    if (!(r->max_grad_norm >= 0)) RT_TRY(rt_fail(e, RT_USAGE, "--max-grad-norm cannot be negative; 0 never clips"));
    if (GIVEN(memory_limit) && (!rt_parse_bytes(s->memory_limit, &r->memory_limit) || r->memory_limit == 0))
        RT_TRY(rt_fail(e, RT_USAGE, "--memory-limit takes a size such as 22GiB or 500MB, not '%s'", s->memory_limit));
    if (s->head_chunk > 1u << 24) RT_TRY(rt_fail(e, RT_USAGE, "--head-chunk is at most %u", 1u << 24));
out:
    return rc;
}

/* ---- steps, rates, intervals ---- */

static double default_rate(const rt_run_facts *f, const rt_resolved *r)
{
    if (r->lora.rank) return 2e-4;
    if (f->student->random_init) return 5e-4 * 896.0 / f->student->width;
    if (f->student_parameters <= 1000000000ull) return 5e-5;
    return f->student_parameters <= 3500000000ull ? 3e-5 : 1e-5;
}

static int resolve_steps(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_arena *a, rt_err *e)
{
    int rc = RT_OK;
    int said = GIVEN(steps) + GIVEN(tokens) + GIVEN(epochs) + GIVEN(time);
    if (said > 1) RT_TRY(rt_fail(e, RT_USAGE, "give one of --steps, --tokens, --epochs and --time"));
    if (GIVEN(time)) { /* how many is known when steps have been timed; until then as many as there could be */
        RT_TRY(rt_parse_duration(s->time, &r->seconds, e));
        r->steps = MOST_STEPS;
        return RT_OK;
    }
    if (!said) RT_TRY(rt_settings_set(s, RT_SETTING_ID_epochs, "3", e));
    double rows = s->epochs * (double)f->rows_per_epoch, per_step = (double)r->batch;
    if (GIVEN(tokens)) rows = (double)s->tokens / r->seq_len;
    double steps = GIVEN(steps) ? (double)s->steps : ceil(rows / per_step);
    if (!(steps >= 1 && steps <= MOST_STEPS))
        RT_TRY(rt_fail(e, RT_INVALID, "the run would have %.0f steps; give more data, --epochs or --steps", steps));
    r->steps = (uint32_t)steps;
out:
    (void)a;
    return rc;
}

static int resolve_schedule(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_arena *a, rt_err *e)
{
    int rc;
    uint64_t warmup = 0, decay = 0;
    rt_schedule *c = &r->schedule;
    if (!rt_schedule_parse(s->schedule, &c->kind))
        RT_TRY(rt_fail(e, RT_USAGE, "--schedule is constant, linear, cosine or wsd, not '%s'", s->schedule));
    if (!GIVEN(lr)) RT_TRY(put_real(s, RT_SETTING_ID_lr, default_rate(f, r), a, e));
    if (!GIVEN(warmup)) {
        uint64_t n = (uint64_t)floor(0.03 * r->steps + 0.5);
        if (n < LEAST_WARMUP) n = LEAST_WARMUP;
        if (n > r->steps / 2) n = r->steps / 2;
        RT_TRY(put_count(s, RT_SETTING_ID_warmup, n, a, e));
    }
    if (strcmp(s->warmup, "0") != 0) RT_TRY(rt_parse_share(s->warmup, r->steps, "--warmup", &warmup, e));
    RT_TRY(rt_parse_share(s->decay, r->steps, "--decay", &decay, e));
    if (decay > r->steps) decay = r->steps;
    if (warmup > r->steps) RT_TRY(rt_fail(e, RT_INVALID, "--warmup of %" PRIu64 " is longer than the run", warmup));
    c->lr = s->lr;
    c->floor = s->lr_floor;
    c->warmup = (uint32_t)warmup;
    c->decay = (uint32_t)decay;
    c->steps = r->steps;
    RT_TRY(rt_schedule_check(c, e));
out:
    return rc;
}

static int resolve_micro_batch(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_arena *a, rt_err *e)
{
    int rc = RT_OK;
    if (!GIVEN(micro_batch)) {
        uint32_t most = (f->positions ? f->positions : MICRO_TOKENS) / r->seq_len;
        RT_TRY(put_count(s, RT_SETTING_ID_micro_batch, rt_fit_rows(r->batch, most), a, e));
    }
    if (s->micro_batch == 0 || s->micro_batch > r->batch)
        RT_TRY(rt_fail(e, RT_INVALID, "--micro-batch is from 1 to --batch %u, not %" PRIu64, r->batch, s->micro_batch));
    r->micro_batch = (uint32_t)s->micro_batch;
    /* A processor gains nothing from more rows than it has at a time anyway. */
    r->teacher_batch = f->positions ? f->positions / r->seq_len : r->micro_batch;
    if (GIVEN(teacher_batch) && s->teacher_batch == 0) RT_TRY(rt_fail(e, RT_INVALID, "--teacher-batch is at least 1"));
    if (GIVEN(teacher_batch)) r->teacher_batch = s->teacher_batch < r->batch ? (uint32_t)s->teacher_batch : r->batch;
out:
    return rc;
}

int rt_resolve_with_rows(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_arena *a, rt_err *e)
{
    int rc, v;
    uint64_t n;
    if (s->batch == 0 || s->batch > 1u << 20) RT_TRY(rt_fail(e, RT_USAGE, "--batch is from 1 to 1048576"));
    r->batch = (uint32_t)s->batch;
    RT_TRY(resolve_micro_batch(s, f, r, a, e));
    RT_TRY(resolve_steps(s, f, r, a, e));
    RT_TRY(resolve_schedule(s, f, r, a, e));
    RT_TRY(rt_parse_share(s->eval_every, r->steps, "--eval-every", &n, e));
    r->eval_every = (uint32_t)(n > r->steps ? r->steps : n);
    RT_TRY(rt_parse_share(s->save_every, r->steps, "--save-every", &n, e));
    r->save_every = (uint32_t)(n > r->steps ? r->steps : n);
    if (GIVEN(dump_step) && (s->dump_step == 0 || s->dump_step > r->steps))
        RT_TRY(
            rt_fail(e, RT_INVALID, "--dump-step is from 1 to %u, the last step, not %" PRIu64, r->steps, s->dump_step));
    r->keep = s->keep > UINT32_MAX ? UINT32_MAX : (uint32_t)s->keep;
    r->head_chunk = (uint32_t)s->head_chunk;
    if (!GIVEN(save_dtype)) {
        rt_dtype d = f->student_dtype == RT_DTYPE_F64 ? RT_DTYPE_F32 : f->student_dtype;
        if (!rt_dtype_is_float(d)) d = RT_DTYPE_BF16;
        RT_TRY(rt_settings_set(s, RT_SETTING_ID_save_dtype, rt_dtype_name(d), e));
    }
    RT_TRY(choose(s->save_dtype, save_dtypes, "--save-dtype", &v, e));
    r->save_dtype = (rt_dtype)v;
out:
    return rc;
}
