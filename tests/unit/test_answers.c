/* test_answers.c - lines of answers: one allocation refused, whichever it is: a line is written whole or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "job/job_answers_internal.h"
#include "text/tokenizer/vocab_convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETTINGS "0123456789abcdef"
static char folder[64], asked_path[80], given_path[80];
static rt_tokenizer *tokenizer;
static rt_data_text how;

static int set_up(void **state)
{
    static const char prompts[] = "{\"prompt\": \"one two\"}\n{\"prompt\": \"three\"}\n";
    rt_str json = { 0 };
    (void)state;
    rt_json_init();
    snprintf(folder, sizeof folder, "/tmp/retort-test-answers-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(asked_path, sizeof asked_path, "%s/asked.jsonl", folder);
    snprintf(given_path, sizeof given_path, "%s/given.jsonl", folder);
    assert_int_equal(rt_byte_tokenizer_json(&json, RT_BYTE_TOKENS, NULL), RT_OK);
    assert_int_equal(rt_tokenizer_from_json(&tokenizer, json.data, json.len, NULL), RT_OK);
    rt_str_free(&json);
    how = (rt_data_text){ .tok = tokenizer, .bos = -1, .eos = 256, .eot = -1 };
    return rt_file_write(asked_path, prompts, sizeof prompts - 1, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    rt_tokenizer_free(tokenizer);
    rt_dir_remove(folder);
    return 0;
}

/* The answers to the prompts that have none yet, "ab" and "ac" to each. */
static int answer(void *ctx, rt_err *e)
{
    int rc;
    uint32_t found, ids[2][2] = { { 'a', 'b' }, { 'a', 'c' } };
    float logps[2] = { -0.5f, -1.25f };
    uint64_t bytes;
    rt_asked_list l = { 0 };
    rt_append f = { 0 };
    rt_job_tell tell = { 0 };
    const rt_given g[2] = { { .ids = ids[0], .logps = logps, .count = 2, .logp = -1.75, .ended = true },
                            { .ids = ids[1], .logps = logps, .count = 2, .logp = -1.75, .ended = true } };
    (void)ctx;
    RT_TRY(rt_asked_read(&l, &how, asked_path, 2, RT_BYTE_TOKENS, &tell, e));
    RT_TRY(rt_append_open_alone(&f, given_path, e));
    RT_TRY(rt_given_found(given_path, &l, &how, 2, SETTINGS, &found, &bytes, e));
    RT_TRY(rt_append_cut(&f, bytes, e));
    for (uint32_t i = found; i < l.count; i++) {
        json_t *record = NULL;
        rt_tok_ids prompt = { 0 };
        rc = rt_asked_ids(&l, &how, i, &record, &prompt, e);
        if (rc >= 0) rc = rt_given_write(&f, &l.each[i], record, tokenizer, g, 2, false, true, SETTINGS, e);
        json_decref(record);
        rt_free(prompt.ids);
        RT_TRY(rc);
    }
out:
    rt_append_drop(&f);
    rt_asked_free(&l);
    return rc;
}

static void read_all(rt_str *out) { assert_int_equal(rt_file_read(given_path, 1 << 20, out, NULL), RT_OK); }

static int64_t one = -1; /* allocations until the one that fails; after it there is memory again */

static void *failing_once(void *ctx, size_t bytes, size_t align)
{
    bool refuse = one == 0;
    void *p = NULL;
    (void)ctx;
    if (one >= 0) one--;
    return !refuse && posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes) == 0 ? p : NULL;
}

static void failing_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

/* Whatever was refused on the way, what is written is a beginning of what is written without that, in whole prompts. */
static void test_memory(void **state)
{
    (void)state;
    rt_str want = { 0 };
    rt_err e = { 0 };
    if (answer(NULL, &e) < 0) fail_msg("%s", e.text);
    read_all(&want);
    assert_non_null(strstr(want.data, "\"completion\":\"ac\""));
    assert_non_null(strstr(want.data, "\"logps\":[-0.5,-1.25]"));
    const rt_allocator failing = { failing_once, failing_free, NULL };
    rt_allocator_set(&failing);
    for (int64_t i = 0, done = 0; !done; i++) {
        rt_str got = { 0 };
        unlink(given_path);
        e = (rt_err){ 0 };
        one = i;
        int rc = answer(NULL, &e);
        done = one >= 0; /* none was refused */
        one = -1;
        if (!done && rc != RT_OK && rc != RT_NOMEM) fail_msg("allocation %d: %d, %s", (int)i, rc, e.text);
        if (rt_path_exists(given_path)) read_all(&got);
        if (got.len > want.len || (got.len && memcmp(got.data, want.data, got.len) != 0))
            fail_msg("allocation %d: %.*s", (int)i, (int)got.len, got.data);
        if (rc == RT_OK) assert_int_equal(got.len, want.len);
        rt_str_free(&got);
        if (i > 5000) fail_msg("it never ends");
    }
    rt_allocator_set(NULL);
    rt_str_free(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
