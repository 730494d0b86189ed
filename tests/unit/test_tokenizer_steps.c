/* test_tokenizer_steps.c - what each step of a tokenizer does, on texts short enough to be read: pre-tokenizers, added
 * tokens, normalizers, rules of the model.
 *
 * Pieces are made visible by an end-of-word suffix: every character has one token inside a word and another at its end,
 * so the ids tell where the pieces end. Expected values are those of the tokenizers package. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* JSON with ' for the quotes. */
static rt_tokenizer *load(const char *format, const char *a, const char *b)
{
    rt_err e = { 0 };
    rt_str text = { 0 };
    rt_tokenizer *t = NULL;
    for (const char *p = format; *p; p++) {
        if (*p == '@')
            rt_str_append(&text, a);
        else if (*p == '#')
            rt_str_append(&text, b);
        else
            rt_str_append_n(&text, p, 1);
    }
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] == '\'') text.data[i] = '"';
    if (rt_tokenizer_from_json(&t, text.data, text.len, &e) < 0) fail_msg("%s: %s", text.data, e.text);
    rt_str_free(&text);
    return t;
}

static void encode(const rt_tokenizer *t, const char *text, size_t len, unsigned flags, rt_tok_ids *ids)
{
    rt_err e = { 0 };
    rt_tok_scratch *s = NULL;
    assert_int_equal(rt_tok_scratch_new(&s, t, &e), RT_OK);
    if (rt_tokenizer_encode(t, s, text, len, flags, ids, &e) < 0) fail_msg("%s", e.text);
    rt_tok_scratch_free(s);
}

/* Tokens for the characters that the tests use, each with and without the suffix. */
static void alphabet(rt_str *out)
{
    static const char *const chars[] = { "a", "b",   "c",   "d", "e",       "f",       "h",       "i",
                                         "l", "n",   "o",   "t", "u",       "w",       "x",       "A",
                                         "B", "-",   ".",   "!", ",",       "1",       "2",       "3",
                                         " ", "\\n", "\\t", "_", "\\u2581", "\\u00e9", "\\u0301", "\\u4e2d" };
    for (unsigned i = 0; i < sizeof chars / sizeof chars[0]; i++)
        rt_str_printf(out, "%s'%s': %u, '%s|': %u", i ? ", " : "", chars[i], 2 * i, chars[i], 2 * i + 1);
}

/* The pieces that a text is cut into, joined by |. */
static void check_pieces(const char *parts, const char *text, const char *want)
{
    rt_str vocab = { 0 }, got = { 0 };
    rt_tok_ids ids = { 0 };
    alphabet(&vocab);
    rt_tokenizer *t = load("{'model': {'end_of_word_suffix': '|', 'merges': [], 'vocab': {#}}, @}", parts, vocab.data);
    encode(t, text, strlen(text), 0, &ids);
    for (uint32_t i = 0; i < ids.count; i++) {
        rt_token_info info;
        assert_true(rt_tokenizer_token(t, ids.ids[i], &info));
        rt_str_append_n(&got, info.text.data, info.text.len);
    }
    rt_str_append(&got, "");
    if (got.len > 0) got.data[got.len - 1] = 0; /* the last | */
    if (strcmp(got.data ? got.data : "", want) != 0)
        fail_msg("%s: '%s' is cut into '%s', expected '%s'", parts, text, got.data, want);
    rt_free(ids.ids);
    rt_str_free(&got);
    rt_str_free(&vocab);
    rt_tokenizer_free(t);
}

#define SPLIT(kind, pattern, behavior, invert)                                                                         \
    "'pre_tokenizer': {'type': 'Split', 'pattern': {'" kind "': '" pattern "'}, 'behavior': '" behavior                \
    "', 'invert': " invert "}"

static void test_split_behaviors(void **state)
{
    (void)state;
    static const char *const text = "the-final--countdown";
    check_pieces(SPLIT("String", "-", "Removed", "false"), text, "the|final|countdown");
    check_pieces(SPLIT("String", "-", "Isolated", "false"), text, "the|-|final|-|-|countdown");
    check_pieces(SPLIT("String", "-", "MergedWithPrevious", "false"), text, "the-|final-|-|countdown");
    check_pieces(SPLIT("String", "-", "MergedWithNext", "false"), text, "the|-final|-|-countdown");
    check_pieces(SPLIT("String", "-", "Contiguous", "false"), text, "the|-|final|--|countdown");
    check_pieces(SPLIT("Regex", "[a-z]+", "Removed", "true"), text, "the|final|countdown");
    check_pieces(SPLIT("Regex", "[a-z]+", "MergedWithNext", "true"), text, "the|-final|--countdown");
    check_pieces(SPLIT("Regex", "-", "MergedWithPrevious", "true"), text, "the|-final|-|-countdown");
    check_pieces(SPLIT("String", "-", "MergedWithPrevious", "false"), "--a-", "-|-|a-");
    check_pieces(SPLIT("String", "-", "MergedWithNext", "false"), "--a-", "-|-a|-");
}

static void test_split_patterns(void **state)
{
    (void)state;
    check_pieces(SPLIT("Regex", "-*", "Isolated", "false"), "a--b", "a|--|b");
    check_pieces(SPLIT("Regex", "-*", "MergedWithPrevious", "false"), "a--bc", "a--|b|c");
    check_pieces(SPLIT("String", "", "Isolated", "false"), "abc", "a|b|c");
    /* ^ and $ are of lines, whatever the options */
    check_pieces(SPLIT("Regex", "^a", "Isolated", "false"), "aa\naa", "a|a\n|a|a");
    check_pieces(SPLIT("Regex", "a$", "Isolated", "false"), "aa\naa", "a|a|\na|a");
    check_pieces(SPLIT("Regex", ".", "Removed", "false"), "ab\na", "\n");
    check_pieces(SPLIT("Regex", "a{1,2}+", "Isolated", "false"), "aaaab", "aaaa|b");
    check_pieces(SPLIT("Regex", "(?<=b)a", "Isolated", "false"), "aba", "ab|a");
}

static void test_other_pre_tokenizers(void **state)
{
    (void)state;
    check_pieces("'pre_tokenizer': {'type': 'Digits', 'individual_digits': true}", "a12b", "a|1|2|b");
    check_pieces("'pre_tokenizer': {'type': 'Digits', 'individual_digits': false}", "a12b", "a|12|b");
    check_pieces("'pre_tokenizer': {'type': 'Punctuation', 'behavior': 'Contiguous'}", "a.!b,", "a|.!|b|,");
    check_pieces("'pre_tokenizer': {'type': 'Punctuation'}", "a.!b", "a|.|!|b");
    check_pieces("'pre_tokenizer': {'type': 'Whitespace'}", " the_x -.a\t1", "the_x|-.|a|1");
    check_pieces("'pre_tokenizer': {'type': 'WhitespaceSplit'}", " the_x -.a\t1", "the_x|-.a|1");
    check_pieces("'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': "
                 "[{'type': 'WhitespaceSplit'}, {'type': 'Punctuation'}]}",
                 "a.b c", "a|.|b|c");
    check_pieces("'pre_tokenizer': null", "a b", "a b");
}

#define MARK "\xE2\x96\x81"
#define METASPACE(scheme, split)                                                                                       \
    "'pre_tokenizer': {'type': 'Metaspace', 'replacement': '\\u2581', 'prepend_scheme': '" scheme "', 'split': " split \
    "}"
#define THEN(first, second) "'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [" first ", " second "]}"

static void test_metaspace(void **state)
{
    (void)state;
    check_pieces(METASPACE("always", "true"), "the end", MARK "the|" MARK "end");
    check_pieces(METASPACE("always", "false"), "the end", MARK "the" MARK "end");
    check_pieces(METASPACE("never", "true"), "the  end", "the|" MARK "|" MARK "end");
    check_pieces(METASPACE("always", "true"), " the", MARK "the");
    /* First: only what stands at the start of the text, whatever was split off before. */
    check_pieces(THEN("{'type': 'Digits', 'individual_digits': true}",
                      "{'type': 'Metaspace', 'replacement': '\\u2581', 'prepend_scheme': 'first'}"),
                 "a1b", MARK "a|1|b");
    check_pieces(THEN("{'type': 'Digits', 'individual_digits': true}",
                      "{'type': 'Metaspace', 'replacement': '\\u2581', 'prepend_scheme': 'always'}"),
                 "a1b", MARK "a|" MARK "1|" MARK "b");
}

#define NORM(list) "'normalizer': {'type': 'Sequence', 'normalizers': [" list "]}"

static void test_normalizers(void **state)
{
    (void)state;
    check_pieces(NORM("{'type': 'Strip', 'strip_left': true, 'strip_right': false}"), " \ta b ", "a b ");
    check_pieces(NORM("{'type': 'Strip', 'strip_left': false, 'strip_right': true}"), " a b \n", " a b");
    check_pieces(NORM("{'type': 'Lowercase'}, {'type': 'Prepend', 'prepend': 'x'}"), "AB", "xab");
    check_pieces(NORM("{'type': 'Replace', 'pattern': {'Regex': '[ab]+'}, 'content': '-'}"), "xaabxb", "x-x-");
    check_pieces(NORM("{'type': 'Replace', 'pattern': {'String': 'ab'}, 'content': ''}"), "aab", "a");
    check_pieces(NORM("{'type': 'NFD'}"), "\xC3\xA9", "e\xCC\x81");
    check_pieces(NORM("{'type': 'NFC'}"), "e\xCC\x81", "\xC3\xA9");
    check_pieces(NORM("{'type': 'NFD'}, {'type': 'StripAccents'}"), "\xC3\xA9", "e");
    check_pieces(NORM("{'type': 'Prepend', 'prepend': 'x'}"), "", "");
}

/* ---- added tokens ---------------------------------------------------------------------------------------------------
 */

static void check_ids(const char *format, const char *part, const char *text, const char *want)
{
    rt_tok_ids ids = { 0 };
    rt_str got = { 0 };
    rt_tokenizer *t = load(format, part, "");
    encode(t, text, strlen(text), 0, &ids);
    for (uint32_t i = 0; i < ids.count; i++) rt_str_printf(&got, "%s%u", i ? " " : "", ids.ids[i]);
    if (strcmp(got.data ? got.data : "", want) != 0)
        fail_msg("%s: '%s' gives %s, expected %s", part, text, got.data, want);
    rt_free(ids.ids);
    rt_str_free(&got);
    rt_tokenizer_free(t);
}

static void check_added(const char *flags, const char *text, const char *want)
{
    static const char model[] =
        "{'model': {'vocab': {'a': 0, ' ': 1, 'x': 2, '\\t': 3, 'b': 4, '.': 5}, 'merges': []}, "
        "'normalizer': {'type': 'Lowercase'}, 'added_tokens': [{'id': 6, 'content': 'X', @}]}";
    check_ids(model, flags, text, want);
}

#define FLAGS(word, left, right, normal)                                                                               \
    "'single_word': " word ", 'lstrip': " left ", 'rstrip': " right ", 'normalized': " normal ", 'special': false"

/* Steps that make ever more of a text are stopped before they have filled the memory; useful ones are not. */
static void test_growth(void **state)
{
    (void)state;
    static const char *const norms[] = {
        "{'type': 'Sequence', 'normalizers': [@, @, @, @, @, @, @, @, @, @, @, @]}",
        "{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': '#'}",
        "{'type': 'Prepend', 'prepend': '#'}",
    };
    const char *eight = "{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'aaaaaaaa'}";
    rt_str large = { 0 }, text = { 0 };
    for (int i = 0; i < 20000; i++) rt_str_append(&large, "xyzw"), rt_str_append(&text, "a");
    for (size_t i = 0; i < 3; i++) {
        char format[300];
        rt_err e = { 0 };
        rt_tok_ids ids = { 0 };
        rt_tok_scratch *s = NULL;
        size_t len = i == 2 ? 1 : text.len;
        snprintf(format, sizeof format, "{'model': {'merges': [], 'vocab': {'a': 0}}, 'normalizer': %s}", norms[i]);
        rt_tokenizer *t = load(format, eight, large.data);
        assert_int_equal(rt_tok_scratch_new(&s, t, &e), RT_OK);
        if (rt_tokenizer_encode(t, s, text.data, len, 0, &ids, &e) != RT_INVALID) fail_msg("case %zu: %s", i, e.text);
        assert_non_null(strstr(e.text, "the tokenizer's steps make more than"));
        rt_free(ids.ids);
        rt_tok_scratch_free(s);
        rt_tokenizer_free(t);
    }
    /* Decoders are run over the vocabulary when it is read. */
    rt_err e = { 0 };
    rt_tokenizer *t = NULL;
    text.len = 0;
    rt_str_append(&text, "{'model': {'merges': [], 'vocab': {'a': 0}}, 'decoder': {'type': 'Sequence', 'decoders': [");
    for (int i = 0; i < 9; i++) rt_str_printf(&text, "%s%s", i ? ", " : "", eight);
    rt_str_append(&text, "]}}");
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] == '\'') text.data[i] = '"';
    assert_int_equal(rt_tokenizer_from_json(&t, text.data, text.len, &e), RT_INVALID);
    rt_str_free(&large);
    rt_str_free(&text);
}

static void test_added_tokens(void **state)
{
    (void)state;
    check_added(FLAGS("false", "false", "false", "false"), "aXx", "0 6 2");
    check_added(FLAGS("false", "false", "false", "true"), "aXx", "0 6 6");
    check_added(FLAGS("true", "false", "false", "false"), "aX X.X Xb", "0 2 1 6 5 6 1 2 4");
    check_added(FLAGS("false", "true", "false", "false"), "a \tX a", "0 6 1 0");
    check_added(FLAGS("false", "false", "true", "false"), "a X \ta", "0 1 6 0");
    check_added(FLAGS("false", "true", "true", "false"), "a X X a", "0 6 6 0");
}

/* Leftmost, then longest. */
static void test_added_longest(void **state)
{
    (void)state;
    static const char model[] =
        "{'model': {'vocab': {'a': 0, 'b': 1}, 'merges': []}, 'added_tokens': ["
        "{'id': 2, 'content': 'ab', " FLAGS("false", "false", "false",
                                            "false") "}, "
                                                     "{'id': 3, 'content': 'aba', " FLAGS(
                                                         "false", "false", "false",
                                                         "false") "}, "
                                                                  "{'id': 4, 'content': 'baab', " FLAGS(
                                                                      "false", "false", "false", "false") "}]}";
    check_ids(model, "", "abaab", "3 2");
    check_ids(model, "", "baaba", "4 0");
    check_ids(model, "", "bab", "1 2");
}

/* ---- the model ------------------------------------------------------------------------------------------------------
 */

static void test_merges(void **state)
{
    (void)state;
    static const char model[] = "{'model': {'vocab': {'a': 0, 'b': 1, 'c': 2, 'ab': 3, 'bc': 4, 'abc': 5}, @}}";
    check_ids(model, "'merges': ['b c', 'a b']", "abc", "0 4");
    check_ids(model, "'merges': ['b c', 'a b', 'a bc']", "abc", "5");
    check_ids(model, "'merges': [['a', 'b'], ['b', 'c']]", "abc", "3 2");
    check_ids(model, "'merges': ['a b', 'b c', 'a b']", "abc", "0 4"); /* listed twice: the later rank counts */
    check_ids(model, "'ignore_merges': true, 'merges': ['b c', 'a b']", "abc", "5");
    check_ids(model, "'ignore_merges': true, 'merges': ['b c', 'a b']", "abca", "0 4 0");
    check_ids(model, "'merges': ['#version: 0.2', 'a b']", "abab", "3 3");
}

static void test_unknown(void **state)
{
    (void)state;
    static const char model[] = "{'model': {'vocab': {'?': 0, 'a': 1, '<0xC3>': 2, '<0xA9>': 3}, 'merges': [], @}}";
    check_ids(model, "'unk_token': null", "axa", "1 1"); /* dropped */
    check_ids(model, "'unk_token': '?'", "axxa", "1 0 0 1");
    check_ids(model, "'unk_token': '?', 'fuse_unk': true", "axxa", "1 0 1");
    check_ids(model, "'unk_token': '?', 'byte_fallback': true", "\xC3\xA9x", "2 3 0");
    /* Byte tokens do not end a run of unknown characters. */
    check_ids(model, "'unk_token': '?', 'byte_fallback': true", "x\xC3\xA9", "2 3 0");
}

/* Words that agree in their first 16 bytes are told apart by the cache. */
static void test_cache_keys(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_tok_scratch *s = NULL;
    rt_tokenizer *t = load(
        "{'model': {'vocab': {'0': 0, '1': 1, '2': 2, '3': 3, '4': 4, '5': 5, '6': 6, '7': 7, '8': 8, '9': 9, '00': 10,"
        "'0000': 11, '00000000': 12, 'x': 13}, 'merges': ['0 0', '00 00', '0000 0000']}}",
        "", "");
    assert_int_equal(rt_tok_scratch_new(&s, t, &e), RT_OK);
    for (int round = 0; round < 2; round++) {
        for (int n = 0; n < 6000; n++) {
            char word[32];
            rt_tok_ids ids = { 0 };
            snprintf(word, sizeof word, "0000000000000000x%04d", n);
            assert_int_equal(rt_tokenizer_encode(t, s, word, strlen(word), 0, &ids, &e), RT_OK);
            assert_true(ids.count >= 4);
            assert_int_equal(ids.ids[2], 13);
            if (n >= 1000)
                for (int k = 0; k < 4 && ids.count == 7; k++)
                    assert_int_equal(ids.ids[3 + k], (uint32_t)(word[17 + k] - '0'));
            rt_free(ids.ids);
        }
    }
    rt_tok_scratch_free(s);
    rt_tokenizer_free(t);
}

/* A byte-level word that the vocabulary has but no merge makes. */
static void test_byte_level_whole(void **state)
{
    (void)state;
    static const char model[] =
        "{'model': {'ignore_merges': true, 'merges': [], "
        "'vocab': {'a': 0, 'b': 1, 'c': 2, 'd': 3, '\\u0120abcd': 4, '\\u00c3': 5, '\\u00a9': 6}},"
        "'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': @, 'trim_offsets': true, 'use_regex': true}}";
    check_ids(model, "false", " abcd", "4");
    check_ids(model, "true", "abcd", "4");
    check_ids(model, "true", " abcd", "4");
    check_ids(model, "false", "abcd\xC3\xA9", "0 1 2 3 5 6");
}

/* ---- decoders -------------------------------------------------------------------------------------------------------
 */

static void check_decoder(const char *decoder, const char *want)
{
    rt_err e = { 0 };
    rt_str out = { 0 };
    static const uint32_t ids[] = { 0, 1, 2, 3, 4, 5, 6, 0 };
    rt_tokenizer *t =
        load("{'model': {'vocab': {'\\u2581a': 0, 'b</w>': 1, '<0xE4>': 2, '<0xBD>': 3, '<0xA0>': 4, '  c ': 5, "
             "'<0x+9>': 6},"
             "'merges': []}, 'decoder': @}",
             decoder, "");
    assert_int_equal(rt_tokenizer_decode(t, ids, sizeof ids / sizeof ids[0], 0, &out, &e), RT_OK);
    rt_str_append(&out, "");
    if (strcmp(out.data, want) != 0) fail_msg("%s gives '%s', expected '%s'", decoder, out.data, want);
    rt_str_free(&out);
    rt_tokenizer_free(t);
}

#define RAW "<0xE4><0xBD><0xA0>"

static void test_decoders(void **state)
{
    (void)state;
    check_decoder("null", MARK "a b</w> <0xE4> <0xBD> <0xA0>   c  <0x+9> " MARK "a");
    check_decoder("{'type': 'Fuse'}", MARK "ab</w>" RAW "  c <0x+9>" MARK "a");
    check_decoder("{'type': 'ByteFallback'}", MARK "ab</w>\xE4\xBD\xA0  c \t" MARK "a");
    check_decoder("{'type': 'Metaspace', 'replacement': '\\u2581'}", "ab</w>" RAW "  c <0x+9> a");
    check_decoder("{'type': 'Metaspace', 'replacement': '\\u2581', 'prepend_scheme': 'never'}",
                  " ab</w>" RAW "  c <0x+9> a");
    check_decoder("{'type': 'BPEDecoder', 'suffix': '</w>'}", MARK "ab " RAW "  c <0x+9>" MARK "a");
    check_decoder("{'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}", MARK "ab</w>" RAW " c <0x+9>" MARK "a");
    check_decoder("{'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 1}", MARK "ab</w>" RAW " c<0x+9>" MARK "a");
    check_decoder("{'type': 'Replace', 'pattern': {'Regex': '<[^>]*>'}, 'content': '.'}", MARK "ab....  c ." MARK "a");
    check_decoder("{'type': 'Sequence', 'decoders': "
                  "[{'type': 'Replace', 'pattern': {'String': '\\u2581'}, 'content': ' '}, {'type': "
                  "'ByteFallback'}, {'type': 'Fuse'}, {'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}]}",
                  "ab</w>\xE4\xBD\xA0  c \t a");
}

/* ---- budgets --------------------------------------------------------------------------------------------------------
 */

/* CPU seconds of this process; sanitized it is some twenty times slower. */
enum { MOST_SECONDS = 60 };
static double spent(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* Each added token was compared with all before it: 200,000 took more than a minute. */
static void test_many_added(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    rt_str list = { 0 };
    for (unsigned i = 0; i < COUNT; i++)
        rt_str_printf(&list,
                      "%s{'id': %u, 'content': '<%06x>', 'special': true, 'single_word': false, 'lstrip': false, "
                      "'rstrip': false, 'normalized': false}",
                      i ? ", " : "", 1 + i, i);
    double before = spent();
    rt_tokenizer *t = load("{'model': {'merges': [], 'vocab': {'a': 0}}, 'added_tokens': [#]}", "", list.data);
    rt_tok_ids ids = { 0 };
    encode(t, "a<030d3f><000000>", 17, 0, &ids);
    assert_int_equal(ids.count, 3);
    assert_int_equal(ids.ids[1], COUNT);
    assert_int_equal(ids.ids[2], 1);
    assert_true(spent() - before < MOST_SECONDS);
    rt_free(ids.ids);
    rt_str_free(&list);
    rt_tokenizer_free(t);
}

static int encode_with(const char *pattern, const char *text, size_t len, rt_err *e)
{
    rt_tok_ids ids = { 0 };
    rt_tok_scratch *s = NULL;
    rt_tokenizer *t = load("{'model': {'merges': [], 'vocab': {'a': 0, 'b': 1, ' ': 2, '1': 3}}, "
                           "'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': '@'}, 'behavior': 'Isolated', "
                           "'invert': false}}",
                           pattern, "");
    assert_int_equal(rt_tok_scratch_new(&s, t, e), RT_OK);
    int rc = rt_tokenizer_encode(t, s, text, len, 0, &ids, e);
    if (rc == RT_OK) assert_true(ids.count > 0);
    rt_free(ids.ids);
    rt_tok_scratch_free(s);
    rt_tokenizer_free(t);
    return rc;
}

/* Patterns that try the same bytes again and again are refused after some work for each byte of the text. PCRE2's own
 * limit is for one place of the text only. */
static void test_slow_patterns(void **state)
{
    (void)state;
    static const char *const slow[] = { "a(?=a*b)|a", "(a+)+b|a+| ",    "(?:a|a)(?:a|a)*b|a", "a?a?a?a*b|a| ",
                                        "a{30,}b|a",  "(?:aa){20,}b|a", "(?<=a)a*b|a*1|a" };
    enum { LEN = 1 << 20, SLOW = 1 << 14, RUN = 63 };
    char *text = malloc(LEN);
    assert_non_null(text);
    memset(text, 'a', LEN);
    double before = spent();
    for (size_t i = 0; i < sizeof slow / sizeof slow[0]; i++) {
        rt_err e = { 0 };
        if (encode_with(slow[i], text, SLOW, &e) != RT_INVALID) fail_msg("%s was taken", slow[i]);
        if (!strstr(e.text, "more than 256 steps for each byte")) fail_msg("%s: %s", slow[i], e.text);
    }
    for (size_t i = RUN; i < LEN; i += RUN + 1) text[i] = ' ';
    rt_err e = { 0 };
    assert_int_equal(encode_with(slow[1], text, LEN, &e), RT_INVALID);
    /* What is tried once for each byte is taken, however long the text. */
    assert_int_equal(encode_with("a*b|a+| ", text, LEN, &e), RT_OK);
    assert_int_equal(encode_with("[ab]+(?=1)|[ab]+|\\\\s+", text, LEN, &e), RT_OK);
    assert_true(spent() - before < MOST_SECONDS);
    free(text);
}

/* \s+$ is matched as a pattern that tries a run of spaces once: the pieces are the same. */
static void test_spaces_at_end(void **state)
{
    (void)state;
    enum { LEN = 1 << 20 };
    char *text = malloc(LEN);
    assert_non_null(text);
    memset(text, ' ', LEN);
    text[LEN - 1] = '1';
    double before = spent();
    rt_err e = { 0 };
    assert_int_equal(encode_with("\\\\s+$", text, LEN, &e), RT_OK);
    assert_true(spent() - before < MOST_SECONDS);
    free(text);
    check_pieces(SPLIT("Regex", "\\\\s+$", "Isolated", "false"), "a  \n\n  b  \n c ", "a|  \n|\n  b|  |\n c| ");
}

#define ADDED(id, text, left, right)                                                                                   \
    "{'id': " id ", 'content': '" text "', 'single_word': false, 'lstrip': " left ", 'rstrip': " right                 \
    ", 'normalized': false, 'special': true}"

/* A token that is not there is looked for from every byte: 50 KB of it in 100 KB took 7 s. */
static void test_long_added(void **state)
{
    (void)state;
    enum { LEN = 1 << 20, LONG = 50000 };
    rt_err e = { 0 };
    rt_str name = { 0 };
    rt_tok_ids ids = { 0 };
    rt_tok_scratch *s = NULL;
    char *text = malloc(LEN);
    assert_non_null(text);
    memset(text, 'a', LEN);
    rt_str_append_n(&name, text, LONG);
    rt_str_append(&name, "b");
    rt_tokenizer *t =
        load("{'model': {'merges': [], 'vocab': {'a': 0}}, 'added_tokens': [" ADDED("1", "#", "false", "false") "]}",
             "", name.data);
    double before = spent();
    assert_int_equal(rt_tok_scratch_new(&s, t, &e), RT_OK);
    assert_int_equal(rt_tokenizer_encode(t, s, text, LEN, 0, &ids, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "added tokens takes more than 256 steps"));
    assert_int_equal(rt_tokenizer_encode(t, s, name.data, name.len, 0, &ids, &e), RT_OK);
    assert_int_equal(ids.count, 1);
    assert_true(spent() - before < MOST_SECONDS);
    rt_tok_scratch_free(s);
    rt_free(ids.ids);
    rt_str_free(&name);
    rt_tokenizer_free(t);
    free(text);
}

/* Space that a token takes is walked over once, not once for every token in it: 1 MB took more than
 * 45 s. */
static void test_spaces_taken(void **state)
{
    (void)state;
    enum { LEN = 1 << 20 };
    char *text = malloc(LEN);
    assert_non_null(text);
    memset(text, '\n', LEN);
    double before = spent();
    for (int k = 0; k < 2; k++) {
        rt_tok_ids ids = { 0 };
        rt_tokenizer *t = load(
            k ? "{'model': {'merges': [], 'vocab': {'a': 0}}, 'added_tokens': [" ADDED("1", "\\n", "true", "false") "]}"
              : "{'model': {'merges': [], 'vocab': {'a': 0}}, 'added_tokens': [" ADDED("1", "\\n", "true", "true") "]}",
            "", "");
        encode(t, text, LEN, 0, &ids);
        assert_int_equal(ids.count, k ? LEN : 1);
        rt_free(ids.ids);
        rt_tokenizer_free(t);
    }
    for (int i = 1; i < LEN; i += 2) text[i] = '\t';
    rt_tok_ids ids = { 0 };
    rt_tokenizer *t = load("{'model': {'merges': [], 'vocab': {'a': 0}}, 'added_tokens': [" ADDED(
                               "1", "\\n", "false", "true") ", " ADDED("2", "\\t", "false", "false") "]}",
                           "", "");
    encode(t, text, LEN, 0, &ids);
    assert_int_equal(ids.count, LEN);
    assert_true(spent() - before < MOST_SECONDS);
    rt_free(ids.ids);
    rt_tokenizer_free(t);
    free(text);
}

/* Merging takes 33 to 40 bytes for each byte of a word: 60 MB of one word, 60 KB of gzip, took 2 GB. */
static void test_long_word(void **state)
{
    (void)state;
    enum { LIMIT = 16 << 20, TAKEN = (2 << 20) + 1 };
    rt_err e = { 0 };
    rt_tok_ids ids = { 0 };
    rt_tok_scratch *s = NULL;
    char *text = malloc(LIMIT + 1);
    assert_non_null(text);
    memset(text, 'a', LIMIT + 1);
    rt_tokenizer *t = load("{'model': {'merges': ['a a'], 'vocab': {'a': 0, 'aa': 1}}}", "", "");
    assert_int_equal(rt_tok_scratch_new(&s, t, &e), RT_OK);
    assert_int_equal(rt_tokenizer_encode(t, s, text, LIMIT + 1, 0, &ids, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "a stretch of 16777217 bytes"));
    assert_int_equal(rt_tokenizer_encode(t, s, text, TAKEN, 0, &ids, &e), RT_OK);
    assert_int_equal(ids.count, TAKEN / 2 + 1);
    assert_int_equal(ids.ids[0], 1);
    assert_int_equal(ids.ids[ids.count - 1], 0);
    rt_tok_scratch_free(s);
    rt_free(ids.ids);
    rt_tokenizer_free(t);
    free(text);
}

/* ByteLevel after ByteLevel doubles a text each time; a template may use it again and again. */
static void test_growing_steps(void **state)
{
    (void)state;
    static const char step[] = "{'type': 'ByteLevel', 'add_prefix_space': true, 'trim_offsets': true, 'use_regex': "
                               "false}, ",
                      text[] = "{'Sequence': {'id': 'A', 'type_id': 0}}, ";
    rt_err e = { 0 };
    rt_str steps = { 0 }, file = { 0 };
    rt_tok_ids ids = { 0 };
    rt_tok_scratch *s = NULL;
    for (int i = 0; i < 20; i++) rt_str_append(&steps, step);
    steps.data[steps.len - 2] = 0;
    rt_tokenizer *t = load("{'model': {'merges': [], 'vocab': {'a': 0}}, "
                           "'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [#]}}",
                           "", steps.data);
    assert_int_equal(rt_tok_scratch_new(&s, t, &e), RT_OK);
    assert_int_equal(rt_tokenizer_encode(t, s, "\n\n\n\n", 4, 0, &ids, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "the tokenizer's steps make more than"));
    rt_tok_scratch_free(s);
    rt_tokenizer_free(t);
    rt_str_append(&file,
                  "{'model': {'merges': [], 'vocab': {'a': 0}}, 'post_processor': {'type': 'TemplateProcessing', "
                  "'pair': [], 'special_tokens': {}, 'single': [");
    for (int i = 0; i < 9; i++) rt_str_append(&file, text);
    file.len -= 2;
    rt_str_append(&file, "]}}");
    for (size_t i = 0; i < file.len; i++)
        if (file.data[i] == '\'') file.data[i] = '"';
    assert_int_equal(rt_tokenizer_from_json(&t, file.data, file.len, &e), RT_UNSUPPORTED);
    rt_free(ids.ids);
    rt_str_free(&steps);
    rt_str_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_behaviors),
        cmocka_unit_test(test_split_patterns),
        cmocka_unit_test(test_other_pre_tokenizers),
        cmocka_unit_test(test_metaspace),
        cmocka_unit_test(test_normalizers),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_added_tokens),
        cmocka_unit_test(test_added_longest),
        cmocka_unit_test(test_merges),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_cache_keys),
        cmocka_unit_test(test_byte_level_whole),
        cmocka_unit_test(test_decoders),
        cmocka_unit_test(test_many_added),
        cmocka_unit_test(test_slow_patterns),
        cmocka_unit_test(test_spaces_at_end),
        cmocka_unit_test(test_long_added),
        cmocka_unit_test(test_spaces_taken),
        cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_growing_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
