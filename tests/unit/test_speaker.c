/* test_speaker.c - answers as text: what is shown is the text of their ids, stop strings and stop ids end them, some
 * are cancelled, several are under way at once; and everything is given back. */
#include "train_case.h"

#include "job/speaker.h"

#include <math.h>

enum { CONTEXT = 96, SLOTS = 3, MOST = 64 };

static rt_model_file *model;
static rt_speaker *s;

static int set_up(void **state)
{
    rt_err e = { 0 };
    rt_model_config c = tiny_config("tiny-qwen2", 5);
    rt_settings where = { .threads = 1 };
    const rt_engine_opts o = { .slots = SLOTS, .context = CONTEXT, .top = 2, .echo = true };
    make_test_dir(state);
    write_model(in_dir("m"), &c, RT_DTYPE_F32, false);
    model = open_model(in_dir("m"));
    if (rt_settings_set(&where, RT_SETTING_ID_device, "cpu", &e) < 0) fail_msg("%s", e.text);
    if (rt_speaker_new(&s, model, &e) < 0) fail_msg("%s", e.text);
    if (rt_speaker_seal(s, &o, &where, NULL, &e) < 0) fail_msg("%s", e.text);
    return 0;
}

static int tear_down(void **state)
{
    rt_speaker_unseal(s);
    rt_speaker_free(s);
    rt_model_file_close(model);
    return remove_test_dir(state);
}

typedef struct heard {
    uint32_t id[MOST], count, echoed, ends;
    char text[512];
    size_t len;
    rt_end end;
    int32_t stop;
    double logp; /* of the prompt */
} heard;

static void on_answer(void *ctx, const rt_answer_event *a)
{
    heard *h = ctx;
    assert_int_equal(h->ends, 0); /* nothing comes after the end */
    if (a->token->prompt) {
        h->echoed++;
        if (!isnan(a->token->likely.logp)) h->logp += (double)a->token->likely.logp;
        return;
    }
    if (a->token->id != UINT32_MAX) h->id[h->count++] = a->token->id;
    memcpy(h->text + h->len, a->text, a->len);
    h->len += a->len;
    h->ends += a->end != RT_END_NONE;
    h->end = a->end;
    h->stop = a->stop;
}

static const uint32_t prompt[] = { 72, 101, 108, 108, 111, 32 };

static rt_answer_opts asking(heard *h, uint32_t max_new)
{
    *h = (heard){ .count = 0 };
    return (rt_answer_opts){ .prompt = prompt,
                             .count = 6,
                             .max_new = max_new,
                             .sampling = { .temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 3 },
                             .on = true,
                             .fn = on_answer,
                             .ctx = h };
}

static rt_answer *begin(const rt_answer_opts *o)
{
    rt_err e = { 0 };
    rt_answer *a = NULL;
    if (rt_speaker_begin(s, o, &a, &e) < 0) fail_msg("%s", e.text);
    return a;
}

static void finish(void)
{
    rt_err e = { 0 };
    while (rt_speaker_busy(s))
        if (rt_speaker_step(s, &e) < 0) fail_msg("%s", e.text);
    const rt_engine_stats t = rt_speaker_stats(s);
    assert_int_equal(t.pages, t.pages_free);
}

static void test_text(void **state)
{
    (void)state;
    heard h;
    rt_str text = { 0 };
    rt_tok_ids ids = { 0 };
    rt_answer_opts o = asking(&h, 40);
    begin(&o);
    finish();
    assert_int_equal(h.end, RT_END_LENGTH);
    assert_int_equal(h.count, 40);
    assert_int_equal(h.stop, -1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < h.count; i++) /* ids that stand for nothing are counted and say nothing */
        if (rt_speaker_token(s, h.id[i], &(rt_token_info){ 0 })) h.id[n++] = h.id[i];
    assert_int_equal(rt_speaker_decode(s, h.id, n, false, &text, NULL), RT_OK);
    assert_int_equal(text.len, h.len);
    assert_memory_equal(text.data, h.text, h.len);
    assert_int_equal(rt_speaker_encode(s, "Hello ", 6, true, &ids, NULL), RT_OK);
    assert_int_equal(ids.count, 6);
    assert_memory_equal(ids.ids, prompt, sizeof prompt);
    rt_free(ids.ids);
    rt_str_free(&text);
}

static void test_stops(void **state)
{
    (void)state;
    heard whole, cut;
    rt_answer_opts o = asking(&whole, 40);
    char stop[3] = { 0 };
    const char *const strings[] = { "not there", stop };
    begin(&o);
    finish();
    size_t at = 4;
    while (at + 2 < whole.len && ((whole.text[at] & 0x80) || (whole.text[at + 1] & 0x80))) at++;
    assert_true(at + 2 < whole.len);
    memcpy(stop, whole.text + at, 2);
    const size_t first = (size_t)((char *)memmem(whole.text, whole.len, stop, 2) - whole.text);
    o = asking(&cut, 40);
    o.stop = strings;
    o.stops = 2;
    begin(&o);
    finish();
    assert_int_equal(cut.end, RT_END_STOP);
    assert_int_equal(cut.stop, 1);
    assert_int_equal(cut.len, first);
    assert_memory_equal(cut.text, whole.text, first);
    o = asking(&cut, 40);
    o.stop_ids = &whole.id[6];
    o.stop_id_count = 1;
    begin(&o);
    finish();
    uint32_t n = 0;
    while (whole.id[n] != whole.id[6]) n++;
    assert_int_equal(cut.end, RT_END_STOP);
    assert_int_equal(cut.stop, -1);
    assert_int_equal(cut.count, n + 1); /* the id itself is told, and not shown */
    assert_true(cut.len < whole.len);
}

static void test_together(void **state)
{
    (void)state;
    heard alone[SLOTS], h[SLOTS], more;
    rt_answer *a[SLOTS];
    for (uint32_t i = 0; i < SLOTS; i++) {
        rt_answer_opts o = asking(&alone[i], 20 + i);
        o.ordinal = i;
        begin(&o);
        finish();
    }
    assert_memory_not_equal(alone[0].id, alone[1].id, 20 * sizeof *h->id);
    for (uint32_t i = 0; i < SLOTS; i++) {
        rt_answer_opts o = asking(&h[i], 20 + i);
        o.ordinal = i;
        assert_true(rt_speaker_has_room(s, &o));
        a[i] = begin(&o);
    }
    rt_answer_opts o = asking(&more, 1);
    rt_err e = { 0 };
    assert_false(rt_speaker_has_room(s, &o));
    assert_int_equal(rt_speaker_begin(s, &o, &a[0], &e), RT_INVALID);
    for (int i = 0; i < 5; i++) assert_int_equal(rt_speaker_step(s, &e), RT_OK);
    rt_speaker_cancel(s, a[1]);
    assert_int_equal(h[1].end, RT_END_CANCELLED);
    assert_int_equal(h[1].ends, 1);
    finish();
    for (uint32_t i = 0; i < SLOTS; i += 2) {
        assert_int_equal(h[i].count, 20 + i);
        assert_memory_equal(h[i].id, alone[i].id, h[i].count * sizeof *h->id);
        assert_memory_equal(h[i].text, alone[i].text, h[i].len);
    }
}

static void test_echo_and_refusals(void **state)
{
    (void)state;
    heard h, again;
    rt_err e = { 0 };
    rt_answer_opts o = asking(&h, 0);
    o.echo = true;
    begin(&o);
    finish();
    assert_int_equal(h.echoed, 6);
    assert_int_equal(h.count, 0);
    assert_int_equal(h.end, RT_END_LENGTH);
    assert_true(h.logp < 0);
    o = asking(&again, 3);
    o.echo = o.logp = true;
    begin(&o);
    finish();
    assert_true(again.logp == h.logp);
    assert_int_equal(again.count, 3);
    o = asking(&h, 1);
    o.count = 0;
    assert_int_equal(rt_speaker_check(s, &o, &e), RT_INVALID);
    o = asking(&h, 1);
    o.top = 3;
    assert_int_equal(rt_speaker_check(s, &o, &e), RT_INVALID);
    assert_int_equal(rt_speaker_facts_of(s).context, CONTEXT);
    assert_int_equal(rt_speaker_facts_of(s).slots, SLOTS);
}

/* What is under way when the engine goes ends without a word. */
static void test_unseal(void **state)
{
    (void)state;
    heard h[2];
    rt_err e = { 0 };
    for (int i = 0; i < 2; i++) {
        rt_answer_opts o = asking(&h[i], 30);
        begin(&o);
    }
    assert_int_equal(rt_speaker_step(s, &e), RT_OK);
    rt_speaker_unseal(s);
    assert_int_equal(h[0].ends + h[1].ends, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_text), cmocka_unit_test(test_stops),
                                        cmocka_unit_test(test_together), cmocka_unit_test(test_echo_and_refusals),
                                        cmocka_unit_test(test_unseal) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
