/* test_engine.c - an engine against each of its requests alone, to the bit: random mixes of lengths, samplings and
 * arrivals over few and many slots; log-probabilities of prompts; cancelling, room, refusals, stop ids. On the CPU, or
 * on the device that ENGINE_DEVICE names, in the precision that suits it or that ENGINE_PRECISION=f32 asks for. */
#include "train_case.h"

#include "infer/engine.h"
#include "infer/stop.h"

#include <math.h>

enum { V = 272, CONTEXT = 200, POOL = 24, NEW = 10, MIXES = 1000, TOP = 3 };

static rt_dev *dev;
static const rt_policy *policy; /* null: the device's */
static bool rounded;            /* bits may differ */

static int set_up(void **state)
{
    const char *name = getenv("ENGINE_DEVICE"), *precision = getenv("ENGINE_PRECISION");
    dev = open_device(name ? name : "cpu", 2);
    policy = precision && strcmp(precision, "f32") == 0 ? &rt_policy_f32 : NULL;
    return make_test_dir(state);
}

static int tear_down(void **state)
{
    dev->api->close(dev);
    return remove_test_dir(state);
}

static rt_engine *open_engine(const char *preset, rt_engine_opts o)
{
    rt_err e = { 0 };
    rt_engine *b = NULL;
    rt_model_file *m = preset_model(preset);
    if (!o.context) o.context = CONTEXT;
    if (rt_engine_open(&b, dev, m, policy, &o, &e) < 0) fail_msg("%s", e.text);
    rt_model_file_close(m);
    return b;
}

/* ---- answers ---- */

typedef struct answer {
    uint32_t id[NEW], count;
    float logp[NEW], top[NEW][TOP];
    float prompt[CONTEXT]; /* log-probabilities of the prompt's ids */
    uint32_t told;         /* of them */
    uint32_t which;        /* of the pool */
    rt_end end;
    uint64_t request;
} answer;

typedef struct asked {
    uint32_t ids[CONTEXT];
    rt_request r;
} asked;

static uint64_t state64 = 88172645463325252u;
static uint32_t below(uint32_t n)
{
    state64 ^= state64 << 13;
    state64 ^= state64 >> 7;
    state64 ^= state64 << 17;
    return (uint32_t)(state64 >> 33) % n;
}

static int on_event(void *ctx, const rt_token_event *t, rt_err *e)
{
    answer *a = ctx;
    (void)e;
    assert_int_equal(a->end, RT_END_NONE);
    a->end = t->end;
    if (t->prompt) {
        assert_int_equal(t->place, a->told);
        a->prompt[a->told++] = t->likely.logp;
        return 0;
    }
    if (t->id == UINT32_MAX) return 0;
    assert_int_equal(t->place, a->count);
    a->id[a->count] = t->id;
    for (uint32_t i = 0; i < t->likely.rank_count; i++) a->top[a->count][i] = t->likely.each[i];
    a->logp[a->count++] = t->likely.logp;
    return 0;
}

/* Requests of all lengths around pieces and pages, each choosing in its own way. */
static void make_pool(asked *pool)
{
    static const uint32_t lengths[] = { 1, 2, 31, 32, 33, 34, 64, 65, 66, 96, 97, 98, 128, 129, 130, 160 };
    for (uint32_t i = 0; i < POOL; i++) {
        asked *a = &pool[i];
        *a = (asked){ .r = { .count = i < sizeof lengths / sizeof *lengths ? lengths[i] : 1 + below(170),
                             .max_new = 1 + below(NEW),
                             .sampling = rt_sampling_greedy,
                             .logp = true,
                             .top = i % 3 == 0 ? TOP : 0,
                             .echo = i % 5 == 0,
                             .fn = on_event } };
        for (uint32_t k = 0; k < a->r.count; k++) a->ids[k] = below(V);
        a->r.prompt = a->ids;
        if (i % 4) a->r.sampling.temperature = 0.5 + 0.25 * (i % 4);
        if (i % 3 == 1) a->r.sampling.top_k = 1 + below(40);
        if (i % 3 == 2) a->r.sampling.top_p = 0.7;
        if (i % 5 == 2) a->r.sampling.min_p = 0.05;
        if (i % 4 == 3) a->r.sampling.repetition_penalty = 1.3;
        a->r.sampling.seed = i % 2;
    }
}

static void step(rt_engine *b)
{
    rt_err e = { 0 };
    if (rt_engine_step(b, &e) < 0) fail_msg("%s", e.text);
}

static void add(rt_engine *b, const rt_request *asked_for, answer *a)
{
    rt_err e = { 0 };
    rt_request r = *asked_for;
    *a = (answer){ .count = 0 };
    r.ctx = a;
    if (rt_engine_add(b, &r, &a->request, &e) < 0) fail_msg("%s", e.text);
}

static answer alone_as(rt_engine *b, const rt_request *r, uint32_t which)
{
    answer a;
    add(b, r, &a);
    a.which = which;
    while (rt_engine_busy(b)) step(b);
    assert_int_equal(a.end, RT_END_LENGTH);
    assert_int_equal(a.count, r->max_new);
    return a;
}
static answer alone(rt_engine *b, const rt_request *r) { return alone_as(b, r, 0); }

/* The same ids, by the same numbers up to rounding. */
static bool is_near(const answer *a, const answer *b)
{
    bool near = a->count == b->count && a->end == b->end && !memcmp(a->id, b->id, sizeof a->id);
    for (uint32_t i = 0; near && i < a->count; i++) near = fabsf(a->logp[i] - b->logp[i]) < 1e-4f;
    return near;
}

static void same(const answer *a, const answer *b, uint32_t which, uint32_t mix)
{
    const bool equal = a->count == b->count && a->end == b->end && a->told == b->told &&
                       !memcmp(a->id, b->id, sizeof a->id) && !memcmp(a->logp, b->logp, sizeof a->logp) &&
                       !memcmp(a->top, b->top, sizeof a->top) && !memcmp(a->prompt, b->prompt, sizeof a->prompt);
    if (equal || (rounded && is_near(a, b))) return;
    fail_msg("mix %u: request %u is not what it is alone", mix, which);
}

/* Some requests of the pool, coming at random while others are under way. */
static uint32_t mixed(rt_engine *b, const asked *pool, answer *got, uint32_t *which)
{
    uint32_t n = 2 + below(7), next = 0;
    for (uint32_t i = 0; i < n; i++) which[i] = below(POOL);
    while (next < n || rt_engine_busy(b)) {
        while (next < n && below(3)) {
            const rt_request *r = &pool[which[next]].r;
            if (!rt_engine_has_room(b, r->count, r->max_new)) break;
            add(b, r, &got[next++]);
        }
        step(b);
    }
    return n;
}

static void run_mix(rt_engine *b, const asked *pool, const answer *want, uint32_t mix)
{
    answer got[POOL];
    uint32_t which[POOL];
    const uint32_t n = mixed(b, pool, got, which);
    for (uint32_t i = 0; i < n; i++) same(&got[i], &want[which[i]], which[i], mix);
}

/* prompts: that are read at once; of several none is echoed. */
static void mixes(const char *preset, uint32_t slots, uint32_t prompts, uint64_t positions, uint32_t count)
{
    static asked pool[POOL];
    static answer want[POOL];
    rt_engine *b = open_engine(
        preset, (rt_engine_opts){
                    .slots = slots, .prompts = prompts, .positions = positions, .top = TOP, .echo = prompts == 1 });
    uint32_t different = 0;
    make_pool(pool);
    for (uint32_t i = 0; i < POOL; i++) pool[i].r.echo = pool[i].r.echo && prompts == 1;
    for (uint32_t i = 0; i < POOL; i++) want[i] = alone(b, &pool[i].r);
    for (uint32_t i = 1; i < POOL; i++) different += want[i].id[0] != want[0].id[0];
    assert_true(different > POOL / 2); /* else equal ids would prove nothing */
    for (uint32_t mix = 0; mix < count; mix++) run_mix(b, pool, want, mix);
    rt_engine_stats s = rt_engine_stats_of(b);
    assert_int_equal(s.requests, s.ended);
    assert_int_equal(s.pages, s.pages_free);
    if (slots > 1) assert_true(s.rows > s.steps); /* they really were together */
    rt_engine_free(b);
}

static void test_few_slots(void **state)
{
    (void)state;
    mixes("tiny-qwen2", 4, 1, 0, MIXES * 7 / 10);
}
/* So many that GEMMs are tiled, and too few pages for all of them. */
static void test_many_slots(void **state)
{
    (void)state;
    mixes("tiny-qwen3", 13, 1, 0, MIXES * 6 / 100);
    mixes("tiny-mistral", 11, 1, 800, MIXES / 10);
}
static void test_one_slot(void **state)
{
    (void)state;
    mixes("tiny-llama", 1, 1, 0, MIXES / 10);
}
/* Pieces of several prompts at once, or of one beside rows that are nobody's: of devices that are enqueued to, which
 * treat all rows of a GEMM alike. On a CPU a row's place in so many decides how it is summed. */
static void test_several_prompts_at_once(void **state)
{
    (void)state;
    rounded = !dev->api->async;
    mixes("tiny-qwen3", 13, 4, 0, MIXES * 4 / 100);
    rounded = false;
}

/* ---- other numbers of slots ---- */

static float behind[POOL][NEW][V]; /* logits of each place of the answers of one slot */
static rt_engine *alone_in;
static int keep_all(void *ctx, const rt_token_event *t, rt_err *e)
{
    answer *a = ctx;
    const uint32_t at = a->count;
    const int rc = on_event(ctx, t, e);
    return a->count > at ? rt_engine_logits(alone_in, t->request, behind[a->which][at], e) : rc;
}

/* What sums of another order may differ by, of the length of a row of logits: rounding of f32, or of bf16 where
 * activations and logits are stored in that. */
static double rounding(void)
{
    const rt_policy *p = policy ? policy : rt_device_policy(dev);
    return p && p->act == RT_DTYPE_BF16 ? 0x1p-8 : 4e-6;
}

/* The first difference is between ids that are a tie: as near to one another as sums of another order may be. */
static bool is_tie(const asked *k, const answer *want, const answer *got, const float *logits)
{
    float y[V];
    double norm = 0;
    uint32_t at = 0;
    while (at < want->count && want->id[at] == got->id[at]) at++;
    if (at == want->count) return got->count == want->count;
    memcpy(y, logits + (size_t)at * V, sizeof y);
    for (uint32_t v = 0; v < V; v++) norm += (double)y[v] * (double)y[v];
    bool seen[V] = { false };
    for (uint32_t i = 0; i < k->r.count; i++) seen[k->ids[i]] = true;
    for (uint32_t i = 0; i < at; i++) seen[want->id[i]] = true;
    const float by = (float)k->r.sampling.repetition_penalty;
    for (uint32_t v = 0; v < V; v++)
        if (seen[v]) y[v] = y[v] > 0 ? y[v] / by : y[v] * by;
    return fabs((double)y[want->id[at]] - (double)y[got->id[at]]) < rounding() * sqrt(norm);
}

/* Greedy answers of one slot beside those of more, in random mixes: another shape of GEMM sums in another order. */
static void other_slots(const char *preset, uint32_t count, uint32_t *answers, uint32_t *differ)
{
    static const uint32_t slots[] = { 2, 3, 4, 8, 9, 16, 24 };
    enum { COUNTS = sizeof slots / sizeof *slots };
    static asked pool[POOL];
    static answer want[POOL];
    make_pool(pool);
    alone_in = open_engine(preset, (rt_engine_opts){ .slots = 1, .top = TOP, .echo = true, .logits = true });
    for (uint32_t i = 0; i < POOL; i++) {
        rt_request *r = &pool[i].r;
        r->sampling = rt_sampling_greedy;
        if (i % 3 == 1) r->sampling.repetition_penalty = 1.3;
        r->echo = false;
        r->max_new = NEW;
        r->fn = keep_all;
        want[i] = alone_as(alone_in, r, i);
        r->fn = on_event;
    }
    rt_engine_free(alone_in);
    for (uint32_t s = 0; s < COUNTS; s++) {
        rt_engine *b = open_engine(preset, (rt_engine_opts){ .slots = slots[s], .top = TOP, .echo = true });
        for (uint32_t mix = 0; mix < count / COUNTS; mix++) {
            answer got[POOL];
            uint32_t which[POOL];
            const uint32_t n = mixed(b, pool, got, which);
            for (uint32_t i = 0; i < n; i++) {
                const answer *w = &want[which[i]];
                *answers += 1;
                *differ += memcmp(w->id, got[i].id, sizeof w->id) != 0;
                if (!is_tie(&pool[which[i]], w, &got[i], behind[which[i]][0]))
                    fail_msg("%u slots: request %u differs from that of one slot, and not by rounding", slots[s],
                             which[i]);
            }
        }
        rt_engine_free(b);
    }
}

/* A tenth of the mixes where a sanitizer or an emulator makes minutes of seconds. */
static uint32_t mixes_here(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return MIXES / 10;
#else
    const char *emulator = getenv("EMU");
    return emulator && *emulator ? MIXES / 10 : MIXES;
#endif
}

static void test_other_slots(void **state)
{
    (void)state;
    uint32_t answers = 0, differ = 0;
    other_slots("tiny-qwen2", mixes_here() / 2, &answers, &differ);
    other_slots("tiny-mistral", mixes_here() / 2, &answers, &differ);
    print_message("%u of %u answers differ from those of one slot, all of them from a tie on\n", differ, answers);
}

/* ---- one thing at a time ---- */

static float scratch_logits[V];
static rt_engine *asking;
static int keep_logits(void *ctx, const rt_token_event *t, rt_err *e)
{
    (void)ctx;
    return t->id == UINT32_MAX ? 0 : rt_engine_logits(asking, t->request, scratch_logits, e);
}

static double log_share(const float *x, uint32_t id)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < V; i++)
        if ((double)x[i] > max) max = (double)x[i]; /* fmax here makes gcc 12 for aarch64 break down */
    for (uint32_t i = 0; i < V; i++) sum += exp((double)x[i] - max);
    return (double)x[id] - max - log(sum);
}

/* The log-probabilities of a prompt are those of its prefixes continued. */
static void test_echo(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_engine *b = asking =
        open_engine("tiny-qwen2", (rt_engine_opts){ .slots = 2, .top = TOP, .echo = true, .logits = true });
    asked k = { .r = { .count = 150, .max_new = 1, .sampling = rt_sampling_greedy, .echo = true, .fn = on_event } };
    for (uint32_t i = 0; i < k.r.count; i++) k.ids[i] = below(V);
    k.r.prompt = k.ids;
    answer a = alone(b, &k.r);
    assert_int_equal(a.told, 150);
    assert_true(isnan(a.prompt[0]) && isnan(a.logp[0]));
    for (uint32_t n = 1; n < 150; n += 1 + n / 7) {
        rt_request r = k.r;
        r.count = n;
        r.echo = false;
        r.fn = keep_logits;
        assert_int_equal(rt_engine_add(b, &r, NULL, &e), RT_OK);
        while (rt_engine_busy(b)) step(b);
        double want = log_share(scratch_logits, k.ids[n]);
        if (fabs(want - (double)a.prompt[n]) > 1e-4) fail_msg("place %u: %g, not %g", n, (double)a.prompt[n], want);
    }
    k.r.max_new = 0; /* the prompt alone */
    answer again;
    add(b, &k.r, &again);
    while (rt_engine_busy(b)) step(b);
    assert_true(again.count == 0 && again.end == RT_END_LENGTH && again.told == 150);
    assert_memory_equal(a.prompt + 1, again.prompt + 1, 149 * sizeof(float));
    rt_engine_free(b);
}

/* Draws: a seed is a text, an ordinal another one, and so is another seed. */
static void test_draws(void **state)
{
    (void)state;
    rt_engine *b = open_engine("tiny-qwen2", (rt_engine_opts){ .slots = 3 });
    asked k = { .r = { .count = 20, .max_new = NEW, .sampling = rt_sampling_greedy, .fn = on_event } };
    for (uint32_t i = 0; i < k.r.count; i++) k.ids[i] = below(V);
    k.r.prompt = k.ids;
    k.r.sampling.temperature = 2;
    answer a = alone(b, &k.r), same_seed = alone(b, &k.r);
    k.r.ordinal = 1;
    answer second = alone(b, &k.r);
    k.r.ordinal = 0;
    k.r.sampling.seed = 1;
    answer other = alone(b, &k.r);
    assert_memory_equal(a.id, same_seed.id, sizeof a.id);
    assert_memory_not_equal(a.id, second.id, sizeof a.id);
    assert_memory_not_equal(a.id, other.id, sizeof a.id);
    k.r.sampling.seed = 0;
    k.r.stop = &a.id[3];
    k.r.stops = 1;
    answer stopped;
    add(b, &k.r, &stopped);
    while (rt_engine_busy(b)) step(b);
    assert_true(stopped.end == RT_END_STOP && stopped.count <= 4 && stopped.id[stopped.count - 1] == a.id[3]);
    rt_engine_free(b);
}

static void test_cancel_and_room(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_engine *b = open_engine("tiny-qwen2", (rt_engine_opts){ .slots = 2, .positions = 256, .context = CONTEXT });
    asked k = { .r = { .count = 100, .max_new = NEW, .sampling = rt_sampling_greedy, .fn = on_event } };
    answer first, second, third;
    k.r.prompt = k.ids;
    assert_int_equal(rt_engine_stats_of(b).pages, 4);
    add(b, &k.r, &first);
    assert_true(rt_engine_has_room(b, 100, NEW));
    assert_false(rt_engine_has_room(b, 180, NEW)); /* pages */
    add(b, &k.r, &second);
    assert_false(rt_engine_has_room(b, 1, 1)); /* slots */
    assert_int_equal(rt_engine_add(b, &k.r, NULL, &e), RT_INVALID);
    assert_says(&e, "2 slots");
    while (second.count < 2) step(b);
    assert_int_equal(rt_engine_cancel(b, second.request, &e), RT_OK);
    assert_true(second.end == RT_END_CANCELLED && second.count == 2);
    assert_int_equal(rt_engine_cancel(b, second.request, &e), RT_NOT_FOUND);
    add(b, &k.r, &third);
    while (rt_engine_busy(b)) step(b);
    assert_true(first.end == RT_END_LENGTH && third.end == RT_END_LENGTH);
    assert_memory_equal(first.id, third.id, sizeof first.id);
    assert_int_equal(rt_engine_stats_of(b).pages_free, 4);
#define REFUSED(field, value, text)                                                                                    \
    do {                                                                                                               \
        rt_request bad = k.r;                                                                                          \
        bad.field = value;                                                                                             \
        assert_true(rt_engine_add(b, &bad, NULL, &e) < 0);                                                             \
        assert_says(&e, text);                                                                                         \
    } while (0)
    REFUSED(count, 0, "empty");
    REFUSED(count, CONTEXT, "200|--context");
    REFUSED(top, 1, "1 likely ids per token");
    REFUSED(echo, true, "not sealed for them");
    REFUSED(sampling.temperature, -1, "--temperature");
    REFUSED(sampling.top_p, 0, "--top-p");
    REFUSED(sampling.min_p, 2, "--min-p");
    REFUSED(sampling.repetition_penalty, 0, "--repetition-penalty");
    k.ids[7] = V;
    REFUSED(max_new, 1, "272|vocabulary");
    rt_engine_free(b);
    rt_engine_free(NULL);
}

/* What is shown of a text that comes in pieces of every length. */
static void test_stop_strings(void **state)
{
    (void)state;
    static const char *const strings[] = { "END", "\n\n", "ENE" };
    static const struct {
        const char *text, *shown;
        bool found;
        uint32_t which;
    } cases[] = { { "one END two", "one ", true, 0 },   { "one EN", "one EN", false, 0 },
                  { "a\nb\n\nc", "a\nb", true, 1 },     { "EENEND", "E", true, 2 },
                  { "nothing", "nothing", false, 0 },   { "END", "", true, 0 },
                  { "E EN E\n", "E EN E\n", false, 0 }, { "a END\n\n", "a ", true, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step_len = 1; step_len < 12; step_len++) {
            rt_err e = { 0 };
            rt_str shown = { 0 };
            rt_stop_text s = { .strings = strings, .count = 3 };
            const char *text = cases[i].text;
            for (size_t at = 0, n, len = strlen(text); at < len; at += n) {
                n = len - at < step_len ? len - at : step_len;
                assert_int_equal(rt_stop_text_push(&s, text + at, n, &shown, &e), RT_OK);
                assert_true(shown.len <= strlen(cases[i].shown));
            }
            assert_int_equal(s.found, cases[i].found);
            assert_int_equal(s.which, cases[i].which);
            assert_int_equal(rt_stop_text_end(&s, &shown, &e), RT_OK);
            assert_string_equal(shown.data ? shown.data : "", cases[i].shown);
            rt_str_free(&shown);
            rt_stop_text_free(&s);
        }
}

typedef struct heard {
    uint64_t times, end_at;
} heard;

static int hear(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    heard *h = ctx;
    assert_string_equal(what, "loading weights");
    assert_true(done == h->times && done < total);
    return ++h->times == h->end_at;
}

/* Weights take long where a model is large: it is told how far they are, and they are given up when that is asked. */
static void test_loading(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_engine *b = NULL;
    heard all = { 0 }, third = { .end_at = 3 };
    rt_engine_free(open_engine("tiny-qwen2", (rt_engine_opts){ .watch = &(rt_watch){ hear, &all } }));
    assert_true(all.times > 10);
    rt_model_file *m = open_model(in_dir("tiny-qwen2"));
    const rt_engine_opts o = { .context = CONTEXT, .watch = &(rt_watch){ hear, &third } };
    assert_int_equal(rt_engine_open(&b, dev, m, NULL, &o, &e), RT_INTERRUPTED);
    assert_says(&e, "loading weights");
    assert_null(b);
    assert_int_equal(third.times, 3);
    rt_model_file_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_slots),    cmocka_unit_test(test_many_slots),
        cmocka_unit_test(test_one_slot),     cmocka_unit_test(test_several_prompts_at_once),
        cmocka_unit_test(test_other_slots),  cmocka_unit_test(test_echo),
        cmocka_unit_test(test_draws),        cmocka_unit_test(test_cancel_and_room),
        cmocka_unit_test(test_stop_strings), cmocka_unit_test(test_loading),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
