/* test_tok_word.c - where a word stands in a row of ids: words of one id and of several, a space that belongs to the
 * word and one that does not, neighbours that make it another word, rows that end in it. */
#include "format_case.h"

#include "text/tokenizer/tok_word.h"
#include "text/tokenizer/vocab_convert.h"

static rt_tokenizer *demo, *bytes;

static int set_up(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_str json = { 0 };
    rt_json_init();
    if (rt_file_read("tools/demo/tokenizer.json", 1 << 20, &json, &e) < 0) fail_msg("%s", e.text);
    if (rt_tokenizer_from_json(&demo, json.data, json.len, &e) < 0) fail_msg("%s", e.text);
    rt_str_free(&json);
    assert_int_equal(rt_byte_tokenizer_json(&json, 272, &e), RT_OK);
    if (rt_tokenizer_from_json(&bytes, json.data, json.len, &e) < 0) fail_msg("%s", e.text);
    rt_str_free(&json);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rt_tokenizer_free(demo);
    rt_tokenizer_free(bytes);
    return 0;
}

static rt_tok_word *make(const rt_tokenizer *t, const char *text)
{
    rt_err e = { 0 };
    rt_tok_word *w = NULL;
    if (rt_tok_word_new(&w, t, text, &e) < 0) fail_msg("%s", e.text);
    return w;
}

static uint32_t encode(const rt_tokenizer *t, const char *text, int32_t ids[64])
{
    rt_err e = { 0 };
    rt_tok_ids out = { 0 };
    rt_tok_scratch *s = NULL;
    assert_int_equal(rt_tok_scratch_new(&s, t, &e), RT_OK);
    assert_int_equal(rt_tokenizer_encode(t, s, text, strlen(text), RT_ENCODE_PLAIN, &out, &e), RT_OK);
    uint32_t n = out.count;
    assert_true(n > 0 && n <= 64);
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)out.ids[i];
    rt_free(out.ids);
    rt_tok_scratch_free(s);
    return n;
}

/* How often the word is found in the text, at any place but its very first id; len: ids at the last of them. */
static uint32_t count(const rt_tokenizer *t, const char *word, const char *text, uint32_t *len)
{
    int32_t ids[64];
    rt_tok_word *w = make(t, word);
    uint32_t found = 0, n = encode(t, text, ids);
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t here = rt_tok_word_at(w, ids[i], ids + i + 1, n - i - 1);
        if (!here) continue;
        found++;
        if (len) *len = here;
    }
    rt_tok_word_free(w);
    return found;
}

static void test_places(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t places;
    } cases[] = {
        { "{\n    return 0;\n}\n", 1 },
        { "if (x) return y; return z;", 2 },
        { "it returns nothing", 0 },
        { "int my_return = 1;", 0 },
        { "int returned; int return_x;", 0 },
        { "{return;}", 1 },
        { "one return", 1 },
        { "no such word", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t by_demo = count(demo, "return", cases[i].text, NULL);
        uint32_t by_bytes = count(bytes, "return", cases[i].text, NULL);
        if (by_demo != cases[i].places || by_bytes != cases[i].places)
            fail_msg("'%s': %u and %u places, not %u", cases[i].text, by_demo, by_bytes, cases[i].places);
    }
}

static void test_lengths(void **state)
{
    (void)state;
    uint32_t len = 0;
    assert_int_equal(count(demo, "return", "a return b", &len), 1);
    assert_int_equal(len, 1); /* one id, with its space */
    assert_int_equal(count(demo, "return", "{return;}", &len), 1);
    assert_true(len > 1); /* without a space it is in pieces */
    assert_int_equal(count(bytes, "return", "a return b", &len), 1);
    assert_int_equal(len, 6); /* the space is an id of its own */
    assert_int_equal(count(bytes, " return", "a return b", &len), 1);
    assert_int_equal(len, 7); /* as it was asked for */
    assert_int_equal(count(demo, " return", "{return;} return", &len), 1);
    assert_int_equal(count(bytes, "==", "a==b==c", &len), 2); /* no word, so no neighbour goes on with it */
}

static void test_ends(void **state)
{
    (void)state;
    int32_t ids[64];
    rt_tok_word *w = make(bytes, "return");
    uint32_t n = encode(bytes, "a return", ids);
    assert_int_equal(n, 8);
    assert_int_equal(rt_tok_word_at(w, ids[1], ids + 2, 6), 6);
    assert_int_equal(rt_tok_word_at(w, -1, ids + 2, 6), 6); /* nothing in front */
    assert_int_equal(rt_tok_word_at(w, ids[0], ids + 2, 6), 0);
    assert_int_equal(rt_tok_word_at(w, ids[1], ids + 2, 5), 0); /* cut off by the end of the row */
    assert_int_equal(rt_tok_word_at(w, ids[1], ids + 2, 0), 0);
    ids[5] = -1; /* in the middle of it something that is no target */
    assert_int_equal(rt_tok_word_at(w, ids[1], ids + 2, 6), 0);
    rt_tok_word_free(w);
}

static void test_refused(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_tok_word *w = NULL;
    assert_int_equal(rt_tok_word_new(&w, bytes, "", &e), RT_INVALID);
    assert_null(w);
    assert_non_null(strstr(e.text, "no tokens"));
}

/* With its tokenizer: the allocator may be exchanged only while nothing is allocated. */
static int make_both(void *ctx, rt_err *e)
{
    const rt_span *json = ctx;
    rt_tokenizer *t = NULL;
    rt_tok_word *w = NULL;
    int rc = rt_tokenizer_from_json(&t, json->data, json->len, e);
    if (rc >= 0) rc = rt_tok_word_new(&w, t, "return", e);
    rt_tok_word_free(w);
    rt_tokenizer_free(t);
    return rc;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_str json = { 0 };
    rt_tokenizer_free(demo);
    rt_tokenizer_free(bytes);
    demo = bytes = NULL;
    assert_int_equal(rt_byte_tokenizer_json(&json, 272, &e), RT_OK);
    char *copy = malloc(json.len);
    assert_non_null(copy);
    memcpy(copy, json.data, json.len);
    rt_span text = { copy, json.len };
    rt_str_free(&json);
    fail_each(make_both, &text, 0);
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),  cmocka_unit_test(test_lengths),       cmocka_unit_test(test_ends),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
