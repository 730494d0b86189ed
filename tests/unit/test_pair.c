/* test_pair.c - which ids a teacher and a student share: padding on both sides, special ids that differ, real
 * mismatches with the first of them in the message, models without a tokenizer, GGUF's UNUSED tokens. */
#include "format_case.h"

#include "teacher/pair.h"

#include <stdint.h>

enum { PLAIN = 6, MOST = 16 };

/* A vocabulary of a few byte-level tokens; words are separated by spaces, and each begins with its type:
 * n normal, c control (special), u unused. */
static rt_tokenizer *tokenizer(const char *words)
{
    static char copy[256];
    rt_tok_text tokens[MOST];
    int32_t types[MOST];
    uint32_t n = 0;
    char *rest = copy;
    rt_err e = { 0 };
    rt_tokenizer *t = NULL;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *w; (w = strsep(&rest, " ")); n++) {
        assert_true(n < MOST);
        types[n] = w[0] == 'c' ? RT_VOCAB_CONTROL : w[0] == 'u' ? RT_VOCAB_UNUSED : RT_VOCAB_NORMAL;
        tokens[n] = (rt_tok_text){ w + 1, strlen(w + 1) };
    }
    rt_vocab_spec v = { .model = "gpt2",
                        .pre = "gpt-2",
                        .tokens = tokens,
                        .token_count = n,
                        .types = types,
                        .bos = -1,
                        .eos = -1,
                        .add_bos = -1,
                        .add_eos = -1,
                        .add_space_prefix = -1 };
    if (rt_tokenizer_from_vocab(&t, &v, &e) < 0) fail_msg("%s: %s", words, e.text);
    return t;
}

typedef struct checked {
    rt_pair p;
    rt_err e;
    int rc;
    char text[300];
} checked;

/* null words: no tokenizer */
static checked check(const char *student, uint32_t student_rows, const char *teacher, uint32_t teacher_rows,
                     uint32_t vocab)
{
    checked c = { 0 };
    rt_str text = { 0 };
    rt_tokenizer *s = student ? tokenizer(student) : NULL, *t = teacher ? tokenizer(teacher) : NULL;
    c.rc = rt_pair_check(&c.p, s, student_rows, t, teacher_rows, vocab, &c.e);
    if (c.rc >= 0) rt_pair_describe(&c.p, &text);
    snprintf(c.text, sizeof c.text, "%s", text.data ? text.data : "");
    rt_str_free(&text);
    rt_tokenizer_free(s);
    rt_tokenizer_free(t);
    return c;
}

static void expect_mask(checked *c, const char *bits)
{
    if (c->rc < 0) fail_msg("%s", c->e.text);
    for (uint32_t i = 0; bits[i]; i++)
        if (rt_pair_has(&c->p, i) != (bits[i] == '1')) fail_msg("id %u is not as in %s", i, bits);
    rt_pair_free(&c->p);
    assert_null(c->p.mask);
}

static void test_same(void **state)
{
    (void)state;
    checked c = check("na nb nc nd", 4, "na nb nc nd", 4, 0);
    assert_true(c.p.common == 4 && !c.p.masked && c.p.measured && c.p.special_count == 0);
    assert_string_equal(c.text, "4 ids in common");
    assert_false(rt_pair_has(&c.p, 4));
    assert_false(rt_pair_has(&c.p, UINT32_MAX));
    expect_mask(&c, "1111");
}

/* 151,936 rows against 152,064 is padding, not a mismatch. */
static void test_padding(void **state)
{
    (void)state;
    checked c = check("na nb nc", 5, "na nb nc", 9, 0);
    assert_true(c.p.common == 3 && c.p.masked && c.p.student_padding == 2 && c.p.teacher_padding == 6);
    assert_non_null(strstr(c.text, "2 rows of the student, 6 of the teacher"));
    expect_mask(&c, "11100");
    c = check("na nb nc", 9, "na nb nc", 3, 0);
    assert_true(c.p.masked && c.p.student_padding == 6 && c.p.teacher_padding == 0);
    expect_mask(&c, "111000000");
    /* no padding on the student's side alone needs the mask too: the teacher's rows are more */
    c = check("na nb nc", 3, "na nb nc", 4, 0);
    assert_true(c.p.masked);
    expect_mask(&c, "111");
}

static void test_special(void **state)
{
    (void)state;
    /* one side alone defines it; both define it with other bytes */
    checked c = check("na nb c<s> c<x>", 4, "na nb", 4, 0);
    assert_true(c.p.common == 2 && c.p.special_count == 2 && c.p.special[0] == 2 && c.p.special[1] == 3 && c.p.masked);
    assert_non_null(strstr(c.text, "2 special ids that differ left out: 2 3"));
    expect_mask(&c, "1100");
    c = check("na nb c<s>", 3, "na nb c<t>", 3, 0);
    assert_true(c.p.special_count == 1);
    expect_mask(&c, "110");
    /* the same bytes are the same id, whatever one side calls it */
    c = check("na nb c<s>", 3, "na nb n<s>", 3, 0);
    assert_true(c.p.common == 3 && c.p.special_count == 0);
    expect_mask(&c, "111");
}

static void test_mismatch(void **state)
{
    (void)state;
    checked c = check("na nb nc nd ne nf", PLAIN, "na nB nc nD nE nF", PLAIN, 0);
    assert_int_equal(c.rc, RT_INVALID);
    assert_says(&c.e, "4 ids differ|id 1 is 'b' to the student and 'B' to the teacher|id 3|id 4|...");
    assert_null(strstr(c.e.text, "id 5"));
    assert_null(c.p.mask);
    /* an ordinary token against none, or against a special one, is a mismatch as well */
    c = check("na nb nc", 3, "na nb", 3, 0);
    assert_int_equal(c.rc, RT_INVALID);
    assert_says(&c.e, "1 ids differ|id 2 is 'c' to the student and nothing to the teacher");
    c = check("na nb c<s>", 3, "na nb nc", 3, 0);
    assert_int_equal(c.rc, RT_INVALID);
    assert_says(&c.e, "id 2 is '<s>'|'c'");
    c = check("na nb", 2, "nb na", 2, 0);
    assert_int_equal(c.rc, RT_INVALID);
    assert_says(&c.e, "2 ids differ");
}

static void test_unused(void **state)
{
    (void)state;
    checked c = check("na nb u[PAD2] u[PAD3]", 4, "na nb", 4, 0);
    assert_true(c.p.common == 2 && c.p.student_padding == 2 && c.p.teacher_padding == 2 && c.p.special_count == 0);
    expect_mask(&c, "1100");
    c = check("na nb u[PAD2]", 3, "na nb nc", 3, 0);
    assert_int_equal(c.rc, RT_INVALID);
    assert_says(&c.e, "nothing to the student|'c'");
}

static void test_too_many(void **state)
{
    (void)state;
    checked c = check("na nb nc nd", 3, "na nb nc", 3, 0);
    assert_int_equal(c.rc, RT_INVALID);
    assert_says(&c.e, "student's tokenizer defines id 3|3 rows");
    c = check("na nb nc", 3, "na nb nc nd", 3, 0);
    assert_says(&c.e, "teacher's tokenizer");
    /* padding that goes beyond the rows is none */
    c = check("na nb nc u[PAD3]", 3, "na nb nc", 3, 0);
    expect_mask(&c, "111");
}

static void test_without_tokenizers(void **state)
{
    (void)state;
    checked c = check(NULL, 10, NULL, 12, 0);
    assert_int_equal(c.rc, RT_INVALID);
    assert_says(&c.e, "neither model has a tokenizer|--vocab N|token shards");
    c = check(NULL, 10, NULL, 12, 8);
    assert_true(c.p.common == 8 && !c.p.measured && c.p.masked && c.p.student_padding == 2 && c.p.teacher_padding == 4);
    assert_non_null(strstr(c.text, "not measured"));
    expect_mask(&c, "1111111100");
    c = check(NULL, 10, NULL, 12, 11);
    assert_int_equal(c.rc, RT_INVALID);
    assert_says(&c.e, "--vocab 11|10");
    c = check(NULL, 10, NULL, 10, 1);
    assert_int_equal(c.rc, RT_INVALID);
    assert_says(&c.e, "1 ids in common");
}

/* One has a tokenizer: what it says counts. */
static void test_one_tokenizer(void **state)
{
    (void)state;
    checked c = check("na nb u[PAD2] nd", 6, NULL, 6, 0);
    assert_int_equal(c.rc, RT_INVALID);
    assert_says(&c.e, "one of the two models has no tokenizer|--vocab");
    c = check("na nb u[PAD2] nd", 6, NULL, 6, 4);
    assert_true(c.p.common == 3 && !c.p.measured && c.p.student_padding == 3);
    expect_mask(&c, "110100");
    c = check(NULL, 6, "na nb nc", 6, 5);
    assert_int_equal(c.rc, RT_INVALID);
    assert_says(&c.e, "--vocab 5|3 ids");
}

static void test_many_specials(void **state)
{
    (void)state;
    checked c = check("na nb c<1> c<2> c<3> c<4> c<5> c<6> c<7> c<8> c<9>", 11, "na nb", 11, 0);
    assert_int_equal(c.p.special_count, 9);
    assert_non_null(strstr(c.text, "9 special ids that differ left out: 2 3 4 5 6 7 8 9 ..."));
    rt_pair_free(&c.p);
    rt_pair_free(NULL);
}

static int check_again(void *ctx, rt_err *e)
{
    rt_pair p;
    (void)ctx;
    int rc = rt_pair_check(&p, NULL, 100, NULL, 100, 50, e);
    if (rc >= 0) rt_pair_free(&p);
    return rc;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    fail_each(check_again, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),          cmocka_unit_test(test_padding),
        cmocka_unit_test(test_special),       cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_unused),        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_one_tokenizer), cmocka_unit_test(test_without_tokenizers),
        cmocka_unit_test(test_many_specials), cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
