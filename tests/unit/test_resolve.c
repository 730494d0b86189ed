/* test_resolve.c - settings made definite: every default that depends on models or data, at its edges; shares; frozen
 * parameters; and what is refused, with its status and its message. */
#include "format_case.h"

#include "job/prepare/budget.h"
#include "job/prepare/pace.h"
#include "job/prepare/rate.h"

#include <math.h>

static rt_model_config student_config, teacher_config;

typedef struct outcome {
    rt_settings s;
    rt_run_facts f;
    rt_resolved r;
    rt_err e;
    int rc;
} outcome;

static rt_model_config config(uint32_t width)
{
    return (rt_model_config){ .family = rt_family_find("qwen2"),
                              .layers = 2,
                              .width = width,
                              .heads = 4,
                              .kv_heads = 2,
                              .head_dim = 8,
                              .hidden = 64,
                              .vocab = 272,
                              .context = 4096,
                              .qkv_bias = true,
                              .tied = true };
}

/* A 0.5B student of bf16 with its teacher, and 40,000 records of 700 tokens. */
static outcome begin(void)
{
    outcome o = { 0 };
    student_config = config(896);
    teacher_config = config(3584);
    o.f = (rt_run_facts){ .student = &student_config,
                          .teacher = &teacher_config,
                          .student_parameters = 494032768,
                          .student_dtype = RT_DTYPE_BF16,
                          .records = 40000,
                          .length99 = 700,
                          .rows_per_epoch = 32000 };
    return o;
}

static void set(outcome *o, const char *name, const char *text)
{
    rt_setting_id id = rt_setting_find(name);
    if (id == RT_SETTING_COUNT_ALL) fail_msg("no setting %s", name);
    if (rt_settings_set(&o->s, id, text, &o->e) < 0) fail_msg("%s", o->e.text);
}

static int resolve(outcome *o)
{
    o->rc = rt_settings_defaults(&o->s, &o->e);
    if (o->rc >= 0) o->rc = rt_resolve_before_rows(&o->s, &o->f, &o->r, &o->e);
    if (o->rc >= 0) o->rc = rt_resolve_with_rows(&o->s, &o->f, &o->r, &o->e);
    return o->rc;
}

static outcome resolved(const char *name, const char *text)
{
    outcome o = begin();
    if (name) set(&o, name, text);
    if (resolve(&o) < 0) fail_msg("%s", o.e.text);
    return o;
}

static void refused(const char *name, const char *text, int status, const char *words)
{
    outcome o = begin();
    set(&o, name, text);
    if (resolve(&o) != status) fail_msg("%s %s: status %d, '%s'", name, text, o.rc, o.e.text);
    assert_says(&o.e, words);
}

/* ---- defaults ---- */

static void test_plain(void **state)
{
    (void)state;
    outcome o = resolved(NULL, NULL);
    const rt_resolved *r = &o.r;
    assert_int_equal(r->loss.divergence, RT_DIV_FORWARD_KL);
    assert_true(r->loss.temperature == 1.0 && r->loss.t2);
    assert_true(r->loss.kd_weight == 0.9 && fabs(r->loss.ce_weight - 0.1) < 1e-15);
    assert_true(r->beta1 == 0.9 && r->beta2 == 0.95 && r->weight_decay == 0.01 && r->max_grad_norm == 1.0);
    assert_true(r->batch == 32 && r->seq_len == 768 && r->micro_batch == 2);
    assert_int_equal(r->steps, 3 * 32000 / 32);
    /* the rate is open until the student has been measured; everything else is settled */
    assert_true(r->lr_open && !o.s.given[RT_SETTING_ID_lr] && !o.s.given[RT_SETTING_ID_lr_class]);
    const rt_eval_result far = { .teacher = true, .kl = { 9.35, 0.1, 0 } };
    rt_resolve_rate(&o.s, &o.f, &o.r, &far);
    assert_true(!r->lr_open && r->schedule.lr == o.s.lr && fabs(o.s.lr - 1.3e-3) < 1e-12);
    assert_string_equal(o.s.lr_class, "far");
    assert_true(r->schedule.floor == 0.1 && r->schedule.kind == RT_SCHEDULE_COSINE);
    assert_int_equal(r->schedule.warmup, 90);
    assert_int_equal(r->eval_every, 150);
    assert_int_equal(r->save_every, 300);
    assert_true(r->keep == 2 && r->save_best && r->lora.rank == 0 && rt_recompute_named(&r->recompute) == 0);
    assert_int_equal(r->save_dtype, RT_DTYPE_BF16);
    assert_true(fabs(r->held_out - 0.01) < 1e-12);
    /* the record of the run is complete: what was settled is there to be read */
    static const rt_setting_id settled[] = {
        RT_SETTING_ID_lr,        RT_SETTING_ID_seq_len,   RT_SETTING_ID_micro_batch, RT_SETTING_ID_epochs,
        RT_SETTING_ID_warmup,    RT_SETTING_ID_kd_weight, RT_SETTING_ID_held_out,    RT_SETTING_ID_save_dtype,
        RT_SETTING_ID_ce_weight, RT_SETTING_ID_lr_class,  RT_SETTING_ID_eval_every
    };
    for (size_t i = 0; i < sizeof settled / sizeof *settled; i++) assert_true(o.s.given[settled[i]]);
    /* and resolving what was resolved gives the same: this is how a run is resumed */
    rt_resolved again;
    assert_int_equal(rt_resolve_before_rows(&o.s, &o.f, &again, &o.e), RT_OK);
    assert_int_equal(rt_resolve_with_rows(&o.s, &o.f, &again, &o.e), RT_OK);
    assert_true(again.schedule.lr == r->schedule.lr && again.steps == r->steps && again.seq_len == r->seq_len);
    assert_true(again.loss.ce_weight == r->loss.ce_weight && fabs(again.held_out - r->held_out) < 1e-9);
}

/* ---- the rate ---- */

typedef struct rates {
    uint64_t parameters;
    uint32_t width;
    bool random, lora, teacher;
} rates;

/* What a run of such a student gets when it measured so much: KL with a teacher, else CE. */
static outcome rate_of(rates v, double measured)
{
    outcome o = begin();
    const rt_eval_result first = { .teacher = v.teacher, .kl = { measured, 0.01, 0 }, .ce = { measured, 0.01, 0 } };
    o.f.student_parameters = v.parameters;
    student_config.random_init = v.random;
    student_config.width = v.width;
    if (!v.teacher) o.f.teacher = NULL;
    if (v.lora) set(&o, "lora", "on");
    if (resolve(&o) < 0) fail_msg("%s", o.e.text);
    assert_true(o.r.lr_open == !v.random);
    rt_resolve_rate(&o.s, &o.f, &o.r, &first);
    assert_true(o.s.given[RT_SETTING_ID_lr] && o.s.lr == o.r.schedule.lr && !o.r.lr_open);
    return o;
}

static void rate_is(rates v, double measured, const char *class, double want)
{
    outcome o = rate_of(v, measured);
    if (strcmp(o.s.lr_class, class) != 0 || fabs(o.s.lr - want) > 1e-12)
        fail_msg("%g nats: %s %.17g, and not %s %g", measured, o.s.lr_class, o.s.lr, class, want);
}

static void test_learning_rate(void **state)
{
    (void)state;
    const rates half = { 494032768, 896, .teacher = true }, wide = { 7600000000, 1792, .teacher = true };
    rate_is(half, 1.0, "far", 1.3e-3);
    rate_is(half, 0.999, "near", 1.3e-4);
    rate_is(half, NAN, "near", 1.3e-4); /* nothing says that it is far */
    rate_is(wide, 9.0, "far", 6.5e-4);
    rate_is(wide, 0.1, "near", 6.5e-5);
    rate_is((rates){ 494032768, 896, .teacher = true, .lora = true }, 9.0, "far", 2.6e-3);
    rate_is((rates){ 494032768, 896, .teacher = true, .lora = true }, 0.1, "near", 2.6e-4);
    /* random weights are known by their mark; what is measured changes nothing */
    rate_is((rates){ 494032768, 896, .teacher = true, .random = true }, 0.1, "random", 5e-4);
    rate_is((rates){ 494032768, 1792, .random = true }, 9.0, "random", 2.5e-4);
    /* without a teacher: CE against what a uniform guess over 272 ids has, ln 272 = 5.606 */
    rate_is((rates){ 1000000000, .width = 896 }, 2.24, "near", 5e-5);
    rate_is((rates){ 1000000000, .width = 896 }, 2.25, "far", 1.3e-3);
    rate_is((rates){ 1000000001, .width = 896 }, 1.0, "near", 3e-5);
    rate_is((rates){ 3210000000, .width = 896 }, 1.0, "near", 3e-5); /* what is sold as 3B */
    rate_is((rates){ 7600000000, .width = 896 }, 1.0, "near", 1e-5);
    rate_is((rates){ 7600000000, 896, .lora = true }, 1.0, "near", 2e-4);
    rate_is((rates){ 7600000000, 896, .lora = true }, 5.0, "far", 2.6e-3);
}

static void test_rate_is_given(void **state)
{
    (void)state;
    outcome o = resolved("lr", "0");
    assert_true(o.r.schedule.lr == 0.0 && !o.r.lr_open && !o.s.given[RT_SETTING_ID_lr_class]);
    const rt_eval_result far = { .teacher = true, .kl = { 9, 0.1, 0 } };
    rt_resolve_rate(&o.s, &o.f, &o.r, &far); /* and no evaluation chooses again */
    assert_true(o.s.lr == 0.0 && o.r.schedule.lr == 0.0 && !o.s.given[RT_SETTING_ID_lr_class]);
    o = resolved("lr_class", "far");
    assert_true(fabs(o.s.lr - 1.3e-3) < 1e-12 && o.r.schedule.lr == o.s.lr && !o.r.lr_open);
    refused("lr_class", "close", RT_USAGE, "--lr-class|'close'|near, far, random");
    o = begin();
    set(&o, "lr_class", "far");
    set(&o, "lr", "1e-6");
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(o.r.schedule.lr == 1e-6); /* a number wins */
}

/* The sweep of docs/training.md: KL after 300 steps by rate, of a teacher of width 576. The rate of the rule has at
 * most a tenth more than the best, read off between its neighbours in the table. */
static void test_rates_of_the_sweep(void **state)
{
    (void)state;
    static const struct {
        const char *student;
        double kl0;
        bool lora;
        double lr[8], kl[8];
    } sweep[] = {
        { "12 layers", 11.6105, false, { 2e-4, 5e-4, 1e-3, 2e-3, 4e-3 }, { 1.1269, 0.8389, 0.6901, 0.6159, 0.6501 } },
        { "18 layers", 9.3471, false, { 2e-4, 5e-4, 1e-3, 2e-3, 4e-3 }, { 0.6509, 0.4830, 0.4152, 0.3859, 0.4205 } },
        { "24 layers", 2.3237, false, { 1e-4, 2e-4, 5e-4, 1e-3, 2e-3 }, { 0.3089, 0.2595, 0.2179, 0.2147, 0.2275 } },
        { "24 layers, adapters",
          2.3237,
          true,
          { 2e-4, 5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 16e-3 },
          { 0.4562, 0.3715, 0.3131, 0.2686, 0.2488, 0.2838, 3.6608 } },
        { "2 bits",
          8.4645,
          false,
          { 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 4e-3 },
          { 0.9473, 0.6178, 0.4707, 0.3665, 0.2796, 0.2452, 0.2471, 0.3006 } },
        { "2 bits, adapters", 8.4645, true, { 1e-3, 2e-3, 4e-3 }, { 0.4390, 0.3590, 0.3112 } },
        { "4 bits", 0.3602, false, { 2e-5, 5e-5, 1e-4, 2e-4, 5e-4 }, { 0.0926, 0.0706, 0.0596, 0.0561, 0.0607 } },
    };
    for (size_t i = 0; i < sizeof sweep / sizeof *sweep; i++) {
        double lr = rate_of((rates){ 134515008, 576, .lora = sweep[i].lora, .teacher = true }, sweep[i].kl0).s.lr;
        double best = INFINITY, near = INFINITY, off = INFINITY;
        for (int k = 0; k < 8 && sweep[i].lr[k] > 0; k++) {
            best = fmin(best, sweep[i].kl[k]);
            double far = fabs(log(lr / sweep[i].lr[k]));
            if (far < off) off = far, near = sweep[i].kl[k];
        }
        if (off > 0.02 || near > 1.1 * best)
            fail_msg("%s: lr %g, KL %g, the best is %g", sweep[i].student, lr, near, best);
    }
}

static void test_lora(void **state)
{
    (void)state;
    outcome o = resolved("lora", "on");
    assert_true(o.r.lora.rank == 32 && o.r.lora.alpha == 64.0 && o.r.lora.roles == (uint32_t)RT_LORA_ROLES);
    o = resolved("lora_rank", "8"); /* implies it */
    assert_true(o.r.lora.rank == 8 && o.r.lora.alpha == 16.0);
    o = begin();
    set(&o, "lora", "on");
    set(&o, "lora_alpha", "5");
    set(&o, "lora_dropout", "0.05");
    set(&o, "lora_targets", "q,down");
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(o.r.lora.dropout == 0.05);
    assert_true(o.r.lora.alpha == 5.0 && o.r.lora.roles == (1u << RT_ROLE_Q | 1u << RT_ROLE_DOWN));
    refused("lora_rank", "0", RT_USAGE, "--lora-rank 0 is out of range (1 to 4096)");
    refused("lora_rank", "4097", RT_USAGE, "--lora-rank");
    o = begin();
    set(&o, "lora", "on");
    set(&o, "freeze", "*");
    assert_int_equal(resolve(&o), RT_USAGE);
    assert_says(&o.e, "--freeze|--lora");
    static const char *const bad[] = { "", "w", "q,,k", "q,embed", "all,q", ",q" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o = begin();
        set(&o, "lora", "on");
        set(&o, "lora_targets", bad[i]);
        if (resolve(&o) != RT_USAGE) fail_msg("'%s' was taken", bad[i]);
        assert_says(&o.e, "--lora-targets");
    }
    o = begin();
    set(&o, "lora", "on");
    set(&o, "lora_alpha", "0");
    assert_int_equal(resolve(&o), RT_USAGE);
    assert_says(&o.e, "--lora-alpha");
    o = begin();
    set(&o, "lora", "on");
    set(&o, "lora_dropout", "1");
    assert_int_equal(resolve(&o), RT_USAGE);
    assert_says(&o.e, "--lora-dropout 1|(0 to below 1)");
}

static uint32_t length_of(uint32_t length99, uint32_t student, uint32_t teacher)
{
    outcome o = begin();
    o.f.length99 = length99;
    student_config.context = student;
    teacher_config.context = teacher;
    if (resolve(&o) < 0) fail_msg("%s", o.e.text);
    return o.r.seq_len;
}

static void test_length(void **state)
{
    (void)state;
    assert_int_equal(length_of(1, 4096, 4096), 256);
    assert_int_equal(length_of(256, 4096, 4096), 256);
    assert_int_equal(length_of(257, 4096, 4096), 512);
    assert_int_equal(length_of(2047, 4096, 4096), 2048);
    assert_int_equal(length_of(9000, 32768, 32768), 2048);
    assert_int_equal(length_of(0, 4096, 4096), 2048); /* not known */
    assert_int_equal(length_of(9000, 1000, 4096), 1000);
    assert_int_equal(length_of(9000, 4096, 300), 300);
    refused("seq_len", "1", RT_INVALID, "--seq-len 1 is out of range (2 to 4096, the context of both models)");
    refused("seq_len", "4097", RT_INVALID, "--seq-len|4097");
    assert_int_equal(resolved("seq_len", "4096").r.seq_len, 4096);
}

static double held_out_of(uint64_t records)
{
    outcome o = begin();
    o.f.records = records;
    if (resolve(&o) < 0) fail_msg("%s", o.e.text);
    return o.r.held_out * (double)records;
}

static void test_held_out(void **state)
{
    (void)state;
    assert_true(fabs(held_out_of(20000) - 200) < 0.1); /* 1 % */
    /* six digits, the same as if they were read: a resumed run holds the same records out */
    for (uint64_t n = 1; n < 40000000; n += 1 + n / 97) {
        char text[40];
        double share = n < 1280 ? 0.1 : n < 12800 ? 128 / (double)n : n > 100000 ? 1000 / (double)n : 0.01;
        snprintf(text, sizeof text, "%.6g", 100.0 * share);
        double want = strtod(text, NULL) / 100.0 * (double)n;
        if (held_out_of(n) != want) fail_msg("%d records: %s%%, %.17g of them", (int)n, text, held_out_of(n));
    }
    assert_true(fabs(held_out_of(12800) - 128) < 0.1);
    assert_true(fabs(held_out_of(5000) - 128) < 0.1); /* at least 128 */
    assert_true(fabs(held_out_of(1000) - 100) < 0.1); /* at most a tenth */
    assert_true(fabs(held_out_of(10) - 1) < 0.1);
    assert_true(fabs(held_out_of(1000000) - 1000) < 0.1); /* at most 1,000 */
    assert_true(fabs(resolved("held_out", "400").r.held_out - 0.01) < 1e-12);
    assert_true(fabs(resolved("held_out", "2.5%").r.held_out - 0.025) < 1e-12);
    refused("held_out", "0", RT_USAGE, "--held-out");
    refused("held_out", "100%", RT_USAGE, "--held-out");
    refused("held_out", "40000", RT_USAGE, "--held-out");
    outcome o = begin();
    set(&o, "eval_data", "file");
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(o.r.held_out == 0.0);
    o = begin();
    set(&o, "eval_data", "file");
    set(&o, "held_out", "5%");
    assert_int_equal(resolve(&o), RT_USAGE);
    assert_says(&o.e, "--held-out|--eval-data|,weight=");
}

/* ---- what evaluation takes ---- */

/* Teacher and student of 0.5B, records of 400 tokens, rows of 512. */
static outcome small_run(uint64_t records, const char *steps)
{
    outcome o = begin();
    teacher_config = student_config;
    assert_true(rt_config_parameters(&student_config, &o.f.student_parameters));
    o.f.records = records;
    o.f.tokens = 400 * records;
    o.f.length99 = 512;
    o.f.rows_per_epoch = o.f.tokens / 512;
    set(&o, "steps", steps);
    return o;
}

/* Evaluations of a run, the first and the one of its files too. */
static double evaluations(const outcome *o) { return ceil((double)o->r.steps / o->r.eval_every) + 2; }

static void test_evaluation_budget(void **state)
{
    (void)state;
    /* a long run: 1 % of the records, every 5 % of the steps, as ever */
    outcome o = small_run(40000, "4000");
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(fabs(o.r.held_out - 0.01) < 1e-9 && o.s.eval_every.percent && o.s.eval_every.value == 5);
    assert_true(o.r.eval_share > 0 && o.r.eval_share < RT_EVAL_BUDGET);
    /* 100 steps of 32 x 512: both are fewer, and together a tenth. By hand: a position evaluated costs 2 of the 4 that
     * one trained does, so 0.1 / 0.9 x 100 x 32 x 512 x 2 = 364,089 positions are a tenth of the run. */
    o = small_run(40000, "100");
    assert_int_equal(resolve(&o), RT_OK);
    double held = o.r.held_out * 400 * 40000;
    assert_true(evaluations(&o) < 22 && evaluations(&o) >= 6 && held < 160000 && held >= 32 * 400);
    assert_true(evaluations(&o) * held <= 364089 * 1.1 && evaluations(&o) * held > 364089 * 0.8);
    assert_true(fabs(o.r.eval_share - 0.1) < 0.015);
    /* a run of 3 steps: the floors, of records and of rows */
    o = small_run(40000, "3");
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(fabs(o.r.held_out * 40000 - 32) < 0.1 && o.r.eval_every == 3 && o.r.eval_rows == RT_EVAL_ROWS_LEAST);
    assert_true(o.r.eval_share > RT_EVAL_BUDGET && o.r.eval_share < 0.12);
    /* 85 rows are a tenth: 17 of the 25 five times */
    o = small_run(40000, "12");
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(fabs(o.r.held_out * 40000 - 32) < 0.1 && o.r.eval_every == 4 && o.r.eval_rows == 17);
    assert_true(o.r.eval_share < RT_EVAL_BUDGET);
    /* never more than a tenth of the data */
    o = small_run(100, "3");
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(fabs(o.r.held_out * 100 - 10) < 0.1);
}

/* Whole files are held out, and they are long: not all of their rows are measured. */
static void test_evaluation_rows(void **state)
{
    (void)state;
    static const char *const often[] = { NULL, "100%", "50%", "8" };
    for (size_t i = 0; i < sizeof often / sizeof *often; i++) {
        outcome o = small_run(152, "30");
        o.f.tokens = 152 * 2400;
        set(&o, "batch", "4");
        set(&o, "seq_len", "128");
        if (often[i]) set(&o, "eval_every", often[i]);
        assert_int_equal(resolve(&o), RT_OK);
        assert_true(o.s.given[RT_SETTING_ID_eval_rows] && o.s.eval_rows == o.r.eval_rows); /* recorded */
        assert_true(o.r.eval_rows >= RT_EVAL_ROWS_LEAST && o.r.eval_rows < 20 && o.r.eval_share > 0);
        if (i < 2 && o.r.eval_share > 0.12) fail_msg("%.0f %%", 100 * o.r.eval_share);
        rt_resolved again;
        assert_int_equal(rt_resolve_before_rows(&o.s, &o.f, &again, &o.e), RT_OK);
        rt_settings_forget(&o.s, RT_SETTING_ID_eval_every); /* what was chosen is chosen again */
        assert_int_equal(rt_resolve_with_rows(&o.s, &o.f, &again, &o.e), RT_OK);
        assert_true(again.eval_rows == o.r.eval_rows && (often[i] || again.eval_every == o.r.eval_every));
    }
    /* who says how much is held out measures it */
    outcome o = small_run(152, "30");
    o.f.tokens = 152 * 2400;
    set(&o, "held_out", "15");
    assert_int_equal(resolve(&o), RT_OK);
    assert_int_equal(o.r.eval_rows, 1000);
    set(&o, "eval_rows", "12");
    assert_int_equal(resolve(&o), RT_OK);
    assert_int_equal(o.r.eval_rows, 12);
    /* a run that has no such record measures all rows, and keeps none */
    o = small_run(152, "3");
    o.f.tokens = 152 * 2400;
    o.f.old = true;
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(o.r.eval_rows == 1000 && !o.s.given[RT_SETTING_ID_eval_rows] && o.r.eval_every == 1);
    refused("eval_rows", "0", RT_USAGE, "--eval-rows 0 is out of range (1 to 1000)");
    /* flags that a note names are within the budget */
    rt_str flags = { 0 };
    assert_true(rt_eval_advise(&flags, 23) && strcmp(flags.data, "--eval-rows 8 --eval-every 100%") == 0);
    flags.len = 0;
    assert_true(rt_eval_advise(&flags, 100) && strcmp(flags.data, "--eval-rows 25 --eval-every 50%") == 0);
    /* twice from the very room on in which two measure the least that may be */
    flags.len = 0;
    assert_true(rt_eval_advise(&flags, (2 + RT_EVALS_BESIDES) * RT_EVAL_ROWS_LEAST));
    assert_string_equal(flags.data, "--eval-rows 8 --eval-every 50%");
    assert_false(rt_eval_advise(&flags, 3));
    rt_str_free(&flags);
}

/* What is given stays, and the other follows from it. */
static void test_evaluation_given(void **state)
{
    (void)state;
    outcome o = small_run(40000, "100");
    set(&o, "held_out", "100");
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(fabs(o.r.held_out * 40000 - 100) < 0.1 && o.r.eval_every > 5 && o.r.eval_share < 0.11);
    o = small_run(40000, "100");
    set(&o, "eval_every", "5");
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(o.r.eval_every == 5 && o.r.held_out * 40000 < 128 && fabs(o.r.eval_share - 0.1) < 0.01);
    o = small_run(40000, "100");
    set(&o, "eval_every", "1");
    set(&o, "held_out", "1000");
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(o.r.eval_every == 1 && fabs(o.r.held_out * 40000 - 1000) < 0.1 && o.r.eval_share > RT_EVAL_MUCH);
    /* a file of its own: only how often can be chosen */
    o = small_run(40000, "100");
    set(&o, "eval_data", "file");
    o.f.eval_tokens = 40000;
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(o.r.held_out == 0 && o.r.eval_every == 15); /* 364,089 / 40,000 - 2 = 7 of 100 */
    /* and the numbers read back are the same run */
    rt_resolved again;
    assert_int_equal(rt_resolve_before_rows(&o.s, &o.f, &again, &o.e), RT_OK);
    assert_int_equal(rt_resolve_with_rows(&o.s, &o.f, &again, &o.e), RT_OK);
    assert_true(again.eval_every == 15 && again.held_out == o.r.held_out);
}

static outcome with_rows(uint64_t rows, const char *name, const char *text)
{
    outcome o = begin();
    o.f.rows_per_epoch = rows;
    if (name) set(&o, name, text);
    if (resolve(&o) < 0) fail_msg("%s", o.e.text);
    return o;
}

static void test_steps(void **state)
{
    (void)state;
    assert_int_equal(with_rows(320, NULL, NULL).r.steps, 30);
    assert_int_equal(with_rows(321, NULL, NULL).r.steps, 31); /* a part of a batch is a step */
    assert_int_equal(with_rows(320, "epochs", "0.5").r.steps, 5);
    assert_int_equal(with_rows(320, "steps", "7").r.steps, 7);
    assert_int_equal(with_rows(320, "tokens", "24576").r.steps, 1); /* 32 rows of 768 */
    assert_int_equal(with_rows(320, "tokens", "24577").r.steps, 2);
    refused("steps", "0", RT_INVALID, "0 steps|--steps");
    refused("epochs", "0", RT_INVALID, "--epochs");
    refused("epochs", "-1", RT_INVALID, "--epochs");
    refused("steps", "2000000000", RT_INVALID, "2000000000 steps");
    static const char *const pairs[][2] = { { "steps", "epochs" }, { "steps", "tokens" }, { "tokens", "epochs" } };
    for (int i = 0; i < 3; i++) {
        outcome o = begin();
        set(&o, pairs[i][0], "5");
        set(&o, pairs[i][1], "5");
        assert_int_equal(resolve(&o), RT_USAGE);
        assert_says(&o.e, "--steps|--tokens|--epochs");
    }
}

static void test_schedule(void **state)
{
    (void)state;
    assert_int_equal(with_rows(320, "steps", "1000").r.schedule.warmup, 30);
    assert_int_equal(with_rows(320, "steps", "100").r.schedule.warmup, 10); /* at least ten */
    assert_int_equal(with_rows(320, "steps", "12").r.schedule.warmup, 6);   /* and at most half the run */
    assert_int_equal(with_rows(320, "steps", "1").r.schedule.warmup, 0);
    outcome o = begin();
    set(&o, "steps", "200");
    set(&o, "warmup", "5%");
    set(&o, "schedule", "wsd");
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(o.r.schedule.warmup == 10 && o.r.schedule.decay == 40 && o.r.schedule.kind == RT_SCHEDULE_WSD);
    assert_int_equal(resolved("warmup", "0").r.schedule.warmup, 0);
    refused("warmup", "90000", RT_USAGE, "--warmup 90000 is out of range (no longer than the run)");
    refused("dump_step", "0", RT_INVALID, "--dump-step|(1 to 3000, the last step)");
    refused("dump_step", "3001", RT_INVALID, "--dump-step|(1 to 3000, the last step)");
    assert_true(resolved("dump_step", "3000").s.given[RT_SETTING_ID_dump_step]);
    o = begin();
    set(&o, "schedule", "wsd");
    set(&o, "decay", "0");
    assert_int_equal(resolve(&o), RT_USAGE);
    assert_says(&o.e, "--decay 0 is out of range");
    refused("schedule", "cosin", RT_USAGE, "--schedule|cosine");
    refused("lr", "-1", RT_INVALID, "--lr -1 is out of range (0 or above)");
    refused("lr_floor", "1.5", RT_INVALID, "--lr-floor 1.5 is out of range (0 to 1)");
    o = begin();
    set(&o, "schedule", "wsd");
    set(&o, "warmup", "60%");
    set(&o, "decay", "60%");
    assert_int_equal(resolve(&o), RT_INVALID);
    assert_says(&o.e, "--warmup|--decay");
    /* far beyond 32 bits: not a small number by accident */
    o = begin();
    set(&o, "schedule", "wsd");
    set(&o, "warmup", "0");
    set(&o, "decay", "4294967297");
    assert_int_equal(resolve(&o), RT_OK);
    assert_int_equal(o.r.schedule.decay, o.r.steps);
}

static void test_batches(void **state)
{
    (void)state;
    outcome o = begin();
    set(&o, "batch", "6");
    set(&o, "seq_len", "512"); /* 2,048 positions at a time would be 4 rows; 3 divide 6 */
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(o.r.batch == 6 && o.r.micro_batch == 3);
    o = begin();
    o.f.positions = UINT32_MAX; /* a device that is busy only with all of it */
    assert_int_equal(resolve(&o), RT_OK);
    assert_int_equal(o.r.micro_batch, 32);
    o = begin();
    set(&o, "seq_len", "4096");
    assert_int_equal(resolve(&o), RT_OK);
    assert_int_equal(o.r.micro_batch, 1);
    o = begin();
    set(&o, "batch", "6");
    set(&o, "micro_batch", "4"); /* the last one is padded */
    assert_int_equal(resolve(&o), RT_OK);
    assert_int_equal(o.r.micro_batch, 4);
    static const uint32_t by_rows[][2] = { { 0, 32 }, { 1, 1 }, { 7, 1 }, { 8, 2 }, { 31, 4 }, { 32, 32 }, { 33, 32 } };
    for (size_t i = 0; i < sizeof by_rows / sizeof *by_rows; i++) {
        o = begin();
        o.f.rows_per_epoch = by_rows[i][0];
        set(&o, "steps", "3");
        assert_int_equal(resolve(&o), RT_OK);
        assert_int_equal(o.r.batch, by_rows[i][1]);
        assert_int_equal(o.s.batch, by_rows[i][1]); /* recorded */
    }
    refused("batch", "0", RT_USAGE, "--batch");
    refused("batch", "2000000", RT_USAGE, "--batch 2000000 is out of range (1 to 1048576)");
    refused("micro_batch", "33", RT_INVALID, "--micro-batch 33 is out of range (1 to 32, the --batch)");
    refused("micro_batch", "0", RT_INVALID, "--micro-batch");
    assert_int_equal(resolved("head_chunk", "100").r.head_chunk, 100);
    refused("head_chunk", "4294967297", RT_USAGE, "--head-chunk");
}

static void test_intervals(void **state)
{
    (void)state;
    outcome o = with_rows(320, "steps", "10"); /* 5 % and 10 % of ten */
    assert_true(o.r.eval_every == 1 && o.r.save_every == 1);
    o = begin();
    set(&o, "steps", "10");
    set(&o, "eval_every", "100");
    set(&o, "save_every", "4");
    set(&o, "keep", "0");
    set(&o, "save", "last");
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(o.r.eval_every == 10 && o.r.save_every == 4 && o.r.keep == 0 && !o.r.save_best);
    refused("eval_every", "0%", RT_USAGE, "--eval-every 0% is out of range (from 1, or above 0%)");
    refused("save_every", "0", RT_USAGE, "--save-every 0 is out of range");
    refused("save", "first", RT_USAGE, "--save|best, last|'first'");
}

/* ---- loss ---- */

static void test_loss(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        rt_divergence d;
        double mix;
    } divs[] = {
        { "forward-kl", RT_DIV_FORWARD_KL, 0.1 }, { "reverse-kl", RT_DIV_REVERSE_KL, 0.1 }, { "jsd", RT_DIV_JSD, 0.3 },
        { "skew-forward", RT_DIV_SKEW_FKL, 0.2 }, { "skew-reverse", RT_DIV_SKEW_RKL, 0.2 }, { "tv", RT_DIV_TV, 0.1 }
    };
    for (size_t i = 0; i < sizeof divs / sizeof *divs; i++) {
        outcome o = begin();
        set(&o, "divergence", divs[i].name);
        if (divs[i].mix == 0.3) set(&o, "beta", "0.3");
        if (divs[i].mix == 0.2) set(&o, "skew", "0.2");
        assert_int_equal(resolve(&o), RT_OK);
        assert_true(o.r.loss.divergence == divs[i].d && o.r.loss.mix == divs[i].mix);
    }
    /* every one has its word, and help names it */
    static const char *const words[RT_DIV_COUNT] = {
#define X(name, word, label, title, mix) word,
        RT_DIVERGENCE_LIST(X)
#undef X
    };
    for (int i = 0; i < RT_DIV_COUNT; i++) {
        assert_int_equal(resolved("divergence", words[i]).r.loss.divergence, i);
        assert_non_null(strstr(rt_setting_table[RT_SETTING_ID_divergence].help, words[i]));
    }
    outcome o = begin();
    set(&o, "alpha", "0.25");
    set(&o, "kd_weight", "3");
    set(&o, "t2", "off");
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(o.r.loss.kd_weight == 3.0 && o.r.loss.ce_weight == 0.75 && !o.r.loss.t2);
    refused("divergence", "kl", RT_USAGE, "--divergence|forward-kl, reverse-kl|'kl'");
    refused("t2", "yes", RT_USAGE, "--t2|on, off");
    refused("temperature", "0", RT_USAGE, "--temperature");
    refused("alpha", "1.1", RT_USAGE, "--alpha");
    refused("beta", "-0.1", RT_USAGE, "--beta -0.1 is out of range (0 to 1)");
    refused("skew", "1", RT_USAGE, "--skew 1 is out of range (0 to below 1)");
    refused("kd_weight", "-1", RT_USAGE, "--kd-weight");
    o = begin();
    set(&o, "kd_weight", "0");
    set(&o, "ce_weight", "0");
    assert_int_equal(resolve(&o), RT_USAGE);
    assert_says(&o.e, "--kd-weight|--ce-weight|no loss");
}

static void test_without_teacher(void **state)
{
    (void)state;
    outcome o = begin();
    o.f.teacher = NULL;
    assert_int_equal(resolve(&o), RT_OK);
    assert_true(o.r.loss.kd_weight == 0.0 && o.r.loss.ce_weight == 1.0);
    o = begin();
    o.f.teacher = NULL;
    set(&o, "seq_len", "5000");
    assert_int_equal(resolve(&o), RT_INVALID);
    assert_says(&o.e, "the model");
}

static void test_optimizer(void **state)
{
    (void)state;
    outcome o = resolved("betas", "0,0.5");
    assert_true(o.r.beta1 == 0.0 && o.r.beta2 == 0.5);
    static const char *const bad[] = { "0.9", "0.9,1", "1,0.9", "0.9,", "a,b", "0.9,0.95,0.9", "-0.1,0.9", ",0.9", "" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refused("betas", bad[i], RT_USAGE, "--betas|0.9,0.95");
    refused("eps", "0", RT_USAGE, "--eps");
    refused("weight_decay", "-0.1", RT_USAGE, "--weight-decay");
    refused("max_grad_norm", "-1", RT_USAGE, "--max-grad-norm");
    assert_true(resolved("max_grad_norm", "0").r.max_grad_norm == 0.0);
    assert_int_equal(resolved("recompute", "block").r.recompute.count[RT_RECOMPUTE_BLOCK], RT_RECOMPUTE_ALL);
    assert_int_equal(resolved("recompute", "norms:2,block:3").r.recompute.count[RT_RECOMPUTE_BLOCK], 3);
    refused("recompute", "all", RT_USAGE, "--recompute|none, norms, mlp, block|block:14,norms:10");
}

static void test_save_dtype(void **state)
{
    (void)state;
    static const rt_dtype stored[] = { RT_DTYPE_F32, RT_DTYPE_F16, RT_DTYPE_F64, RT_DTYPE_Q4_K, RT_DTYPE_I8 };
    static const rt_dtype saved[] = { RT_DTYPE_F32, RT_DTYPE_F16, RT_DTYPE_F32, RT_DTYPE_BF16, RT_DTYPE_BF16 };
    for (int i = 0; i < 5; i++) {
        outcome o = begin();
        o.f.student_dtype = stored[i];
        if (resolve(&o) < 0) fail_msg("%s", o.e.text);
        assert_int_equal(o.r.save_dtype, saved[i]);
    }
    assert_int_equal(resolved("save_dtype", "f32").r.save_dtype, RT_DTYPE_F32);
    refused("save_dtype", "q8_0", RT_USAGE, "--save-dtype|f32, bf16, f16");
}

/* ---- frozen parameters ---- */

static void test_freeze(void **state)
{
    (void)state;
    bool frozen[64];
    rt_err e = { 0 };
    rt_model_config c = config(32);
    uint32_t n = rt_param_count(&c), layer;
    rt_role role;
    char name[RT_NAME_BYTES];
    rt_setting_list none = { 0 };
    assert_int_equal(rt_resolve_freeze(&none, &c, frozen, &e), RT_OK);
    for (uint32_t i = 0; i < n; i++) assert_false(frozen[i]);
    rt_setting_list two = { { "model.layers.0.*", "*embed*" }, 2 };
    assert_int_equal(rt_resolve_freeze(&two, &c, frozen, &e), RT_OK);
    for (uint32_t i = 0; rt_param_at(&c, i, &role, &layer); i++) {
        rt_role_hf_name(name, role, layer);
        bool want = strstr(name, "layers.0.") || strstr(name, "embed");
        if (frozen[i] != want) fail_msg("%s", name);
    }
    rt_setting_list one = { { "model.layers.?.self_attn.q_proj.bias" }, 1 };
    assert_int_equal(rt_resolve_freeze(&one, &c, frozen, &e), RT_OK);
    uint32_t hits = 0;
    for (uint32_t i = 0; i < n; i++) hits += frozen[i];
    assert_int_equal(hits, 2);
    /* one that matches nothing is a mistake, even beside one that does */
    rt_setting_list bad = { { "*embed*", "model.layer.0.*" }, 2 };
    assert_int_equal(rt_resolve_freeze(&bad, &c, frozen, &e), RT_INVALID);
    assert_says(&e, "--freeze|'model.layer.0.*'|model.layers.0.self_attn.q_proj.weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_learning_rate),
        cmocka_unit_test(test_lora),
        cmocka_unit_test(test_rate_is_given),
        cmocka_unit_test(test_rates_of_the_sweep),
        cmocka_unit_test(test_evaluation_budget),
        cmocka_unit_test(test_evaluation_rows),
        cmocka_unit_test(test_evaluation_given),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_held_out),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_without_teacher),
        cmocka_unit_test(test_optimizer),
        cmocka_unit_test(test_save_dtype),
        cmocka_unit_test(test_freeze),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
