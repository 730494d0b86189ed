/* test_tokenizer_parts.c - the parts of a tokenizer one by one: classes of code points and normalisation over all of
 * Unicode against numbers that the tokenizers package gave, patterns, the matchers of our own against PCRE2, bad
 * tokenizer.json files, repair of UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "text/tokenizer/tok_internal.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 0x110000 };

static bool surrogate(uint32_t cp) { return cp >= 0xD800 && cp <= 0xDFFF; }

/* FNV-1a, as tools/gen_tokenizer_golden.py computes it. */
static uint64_t fnv(uint64_t h, const void *data, size_t len)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < len; i++) h = (h ^ p[i]) * 0x100000001B3u;
    return h;
}
static const uint64_t FNV_START = 0xCBF29CE484222325u;

typedef struct fixture {
    json_t *numbers;
    rt_tokenizer *t;
    rt_tok_scratch *s;
} fixture;

static const char empty_model[] = "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}";

static int set_up(void **state)
{
    static fixture f;
    rt_err e = { 0 };
    f.numbers = json_load_file("tests/golden/tokenizers/unicode.json", 0, NULL);
    if (!f.numbers || rt_tokenizer_from_json(&f.t, empty_model, strlen(empty_model), &e) < 0) return -1;
    *state = &f;
    return rt_tok_scratch_new(&f.s, f.t, &e);
}

static int tear_down(void **state)
{
    fixture *f = *state;
    rt_tok_scratch_free(f->s);
    rt_tokenizer_free(f->t);
    json_decref(f->numbers);
    return 0;
}

static void check_number(const fixture *f, const char *group, const char *name, uint64_t got)
{
    char text[32];
    const char *want = json_string_value(json_object_get(json_object_get(f->numbers, group), name));
    assert_non_null(want);
    snprintf(text, sizeof text, "%llu", (unsigned long long)got);
    if (strcmp(text, want) != 0) fail_msg("%s %s: %s, expected %s", group, name, text, want);
}

/* Over all code points, whether they have a bit. */
static uint64_t number_of_bit(const fixture *f, uint16_t bit)
{
    uint64_t h = FNV_START;
    for (uint32_t cp = 0; cp < POINTS; cp++) {
        if (surrogate(cp)) continue;
        uint8_t in = (rt_cp_bits(f->t->table, cp) & bit) != 0;
        h = fnv(h, &in, 1);
    }
    return h;
}

static void test_classes(void **state)
{
    const fixture *f = *state;
    check_number(f, "classes", "L", number_of_bit(f, RT_CP_LETTER));
    check_number(f, "classes", "N", number_of_bit(f, RT_CP_NUMBER));
    check_number(f, "classes", "M", number_of_bit(f, RT_CP_MARK));
    check_number(f, "classes", "s", number_of_bit(f, RT_CP_SPACE));
    check_number(f, "classes", "space", number_of_bit(f, RT_CP_SPACE));
    check_number(f, "classes", "punct", number_of_bit(f, RT_CP_PUNCT));
    for (uint32_t cp = 0; cp < POINTS; cp++) assert_int_equal(rt_cp_bits(f->t->table, cp), rt_cp_search(cp));
}

static bool matches_alone(const fixture *f, const rt_tok_pattern *p, uint32_t cp)
{
    char text[4];
    rt_err e = { 0 };
    rt_tok_matches m = {
        .pattern = p, .table = f->t->table, .scratch = &f->s->regex, .text = text, .last_end = SIZE_MAX
    };
    m.len = rt_utf8_put(cp, text);
    int rc = rt_tok_match_next(&m, &e);
    assert_true(rc >= 0);
    return rc > 0 && m.end - m.start == m.len;
}

static void test_pattern_classes(void **state)
{
    static const char *const patterns[][2] = { { "L", "\\p{L}" },   { "N", "\\p{N}" },     { "M", "\\p{M}" },
                                               { "s", "\\s" },      { "S", "\\S" },        { "w", "\\w" },
                                               { "d", "\\d" },      { "P", "\\p{P}" },     { "Sc", "\\p{S}" },
                                               { "Lu", "\\p{Lu}" }, { "Ll", "\\p{Ll}" },   { "Lm", "\\p{Lm}" },
                                               { "Lo", "\\p{Lo}" }, { "i", "(?i:[skd])" }, { "nS", "[^\\S\\r\\n]" } };
    const fixture *f = *state;
    for (size_t k = 0; k < sizeof patterns / sizeof patterns[0]; k++) {
        rt_err e = { 0 };
        rt_tok_pattern p = { 0 };
        uint64_t h = FNV_START;
        assert_int_equal(rt_tok_pattern_compile(&p, patterns[k][1], strlen(patterns[k][1]), true, "here", &e), RT_OK);
        for (uint32_t cp = 0; cp < POINTS; cp++) {
            if (surrogate(cp)) continue;
            uint8_t in = matches_alone(f, &p, cp);
            h = fnv(h, &in, 1);
        }
        rt_tok_pattern_free(&p);
        check_number(f, "classes", patterns[k][0], h);
    }
}

/* One normalizer applied to a text. */
static rt_tok_piece normalize(fixture *f, rt_norm_kind kind, const char *text, size_t len)
{
    rt_tok_norm n = { .kind = kind };
    f->t->norms = &n;
    f->t->norm_count = 1;
    rt_tok_piece p = { text, len, 1 };
    assert_int_equal(rt_tok_normalize(f->s, &p), RT_OK);
    f->t->norms = NULL;
    f->t->norm_count = 0;
    return p;
}

static void test_forms(void **state)
{
    static const struct {
        const char *name;
        rt_norm_kind kind;
    } forms[] = { { "NFC", RT_NORM_NFC },   { "NFD", RT_NORM_NFD },         { "NFKC", RT_NORM_NFKC },
                  { "NFKD", RT_NORM_NFKD }, { "Lowercase", RT_NORM_LOWER }, { "StripAccents", RT_NORM_STRIP_ACCENTS },
                  { "Nmt", RT_NORM_NMT } };
    fixture *f = *state;
    for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
        uint64_t h = FNV_START;
        for (uint32_t cp = 0; cp < POINTS; cp++) {
            char text[4];
            if (surrogate(cp)) continue;
            rt_tok_piece p = normalize(f, forms[k].kind, text, rt_utf8_put(cp, text));
            if (cp > 0) h = fnv(h, "\n", 1);
            h = fnv(h, p.text, p.len);
        }
        check_number(f, "forms", forms[k].name, h);
    }
}

static void test_sequences(void **state)
{
    fixture *f = *state;
    const json_t *list = json_object_get(f->numbers, "sequences");
    assert_true(json_array_size(list) > 100);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i), *text = json_array_get(row, 0);
        for (int k = 0; k < 4; k++) {
            const json_t *want = json_array_get(row, (size_t)k + 1);
            rt_tok_piece p =
                normalize(f, (rt_norm_kind)(RT_NORM_NFC + k), json_string_value(text), json_string_length(text));
            assert_int_equal(p.len, json_string_length(want));
            assert_memory_equal(p.text, json_string_value(want), p.len);
        }
    }
}

/* A long run of marks out of order must not take time that grows with its square. */
static void test_many_marks(void **state)
{
    fixture *f = *state;
    enum { N = 400000 };
    char *text = malloc(4 * N + 1);
    text[0] = 'a';
    for (size_t i = 0; i < N; i++) memcpy(text + 1 + 4 * i, "\xCC\x81\xCC\x96", 4);
    rt_tok_piece p = normalize(f, RT_NORM_NFC, text, 4 * N + 1);
    assert_int_equal(p.len, 2 + 2 * N + 2 * (N - 1)); /* a-acute, the marks below, the other marks above */
    assert_memory_equal(p.text, "\xC3\xA1\xCC\x96\xCC\x96", 6);
    free(text);
}

/* ---- patterns -------------------------------------------------------------------------------------------------------
 */

static void compare_splits(const fixture *f, const rt_tok_pattern *ours, const rt_tok_pattern *pcre, const char *text,
                           size_t len)
{
    rt_err e = { 0 };
    rt_tok_matches a = {
        .pattern = ours, .table = f->t->table, .scratch = &f->s->regex, .text = text, .len = len, .last_end = SIZE_MAX
    };
    rt_tok_matches b = a;
    b.pattern = pcre;
    for (;;) {
        int x = rt_tok_match_next(&a, &e), y = rt_tok_match_next(&b, &e);
        assert_true(x >= 0 && y >= 0);
        if (x != y || (x && (a.start != b.start || a.end != b.end)))
            fail_msg("'%.*s': [%zu, %zu) is [%zu, %zu) to PCRE2", (int)len, text, a.start, a.end, b.start, b.end);
        if (x == 0) break;
    }
}

/* Every code point in several surroundings, then random texts of what the patterns tell apart. */
static void test_matchers(void **state)
{
    const fixture *f = *state;
    static const char *const around[][2] = { { "", "" },     { " ", "a" }, { "a", "1" },    { "'", "e" },
                                             { "\n", "\n" }, { "1", " " }, { "!", " \n x" } };
    static const char *const parts[] = { "a",
                                         "B",
                                         "'",
                                         "'s",
                                         "'S",
                                         "'RE",
                                         "'\xC5\xBF",
                                         "1",
                                         "22",
                                         " ",
                                         "  ",
                                         "\n",
                                         "\r\n",
                                         "\t",
                                         "!",
                                         "...",
                                         "\xC3\xA9",
                                         "\xCC\x81",
                                         "中",
                                         "\xC2\xA0",
                                         "\xE1\xA0\x8E",
                                         "l",
                                         "ve",
                                         "\xC2\xBD",
                                         "\xE3\x80\x80",
                                         "\xF0\x9F\x98\x80",
                                         "\xE0\xA5\xA7",
                                         "\x1C",
                                         "d",
                                         "_" };
    for (int which = RT_MATCH_GPT2; which <= RT_MATCH_QWEN35; which++) {
        const char *pattern = rt_tok_matcher_pattern((rt_tok_matcher)which);
        rt_tok_pattern ours = { 0 }, pcre = { 0 };
        rt_err e = { 0 };
        assert_int_equal(rt_tok_pattern_compile(&ours, pattern, strlen(pattern), true, "here", &e), RT_OK);
        assert_int_equal(rt_tok_pattern_compile(&pcre, pattern, strlen(pattern), false, "here", &e), RT_OK);
        assert_int_equal(ours.matcher, which);
        assert_non_null(pcre.code);
        char text[512];
        for (uint32_t cp = 0; cp < 0x32400; cp++) {
            for (size_t k = 0; k < sizeof around / sizeof around[0] && !surrogate(cp); k++) {
                size_t len = strlen(around[k][0]), tail = strlen(around[k][1]);
                memcpy(text, around[k][0], len);
                len += rt_utf8_put(cp, text + len);
                memcpy(text + len, around[k][1], tail);
                compare_splits(f, &ours, &pcre, text, len + tail);
            }
        }
        uint64_t random = 88172645463325252u;
        for (int n = 0; n < 100000; n++) {
            size_t len = 0;
            while (len < 60) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                if (random % 11 == 0) break;
                const char *part = parts[(random >> 20) % (sizeof parts / sizeof parts[0])];
                memcpy(text + len, part, strlen(part));
                len += strlen(part);
            }
            compare_splits(f, &ours, &pcre, text, len);
        }
        rt_tok_pattern_free(&ours);
        rt_tok_pattern_free(&pcre);
    }
}

static void test_translation(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to; /* to is null when it is refused */
        int status;
    } cases[] = { { "a{1,2}+b", "(?:a{1,2})+b", 0 },
                  { "a++b?+", "a++b?+", 0 },
                  { "a{,3}?", "a{0,3}?", 0 },
                  { "x{y", "x\\x{7B}y", 0 },
                  { "^a$", "^a$", 0 },
                  { "\\v\\h", "\\x{B}[0-9A-Fa-f]", 0 },
                  { "[\\u4e00-\\x{9fa5}]", "[\\x{4E00}-\\x{9FA5}]", 0 },
                  { "[^(|[.,])]", "[^\\x{28}\\x{7C}\\x{2E}\\x{2C}\\x{29}]", 0 },
                  { "(?m:.)", "(?s:.)", 0 },
                  { "(?i:'s)|(?<!a)b", "(?i:\\x{27}s)|(?<!a)b", 0 },
                  { "\\bx", NULL, RT_UNSUPPORTED },
                  { "\\Gx", NULL, RT_UNSUPPORTED },
                  { "(a)\\1", NULL, RT_UNSUPPORTED },
                  { "(?<n>a)", NULL, RT_UNSUPPORTED },
                  { "(?i:\xC3\xA9)", NULL, RT_UNSUPPORTED },
                  { "(?i:ss)", NULL, RT_UNSUPPORTED },
                  { "(?i:\\p{L})", NULL, RT_UNSUPPORTED },
                  { "[a&&b]", NULL, RT_UNSUPPORTED },
                  { "[[:alpha:]]", NULL, RT_UNSUPPORTED },
                  { "[a[^b]]", NULL, RT_UNSUPPORTED },
                  { "\\p{Han}", NULL, RT_UNSUPPORTED },
                  { "\\p{Mn}", NULL, RT_UNSUPPORTED },
                  { "\\p{C}", NULL, RT_UNSUPPORTED },
                  { "a{2}?", NULL, RT_UNSUPPORTED },
                  { "a**", NULL, RT_UNSUPPORTED },
                  { "a{3,2}", NULL, RT_UNSUPPORTED },
                  { "\\xff", NULL, RT_UNSUPPORTED },
                  { "*a", NULL, RT_FORMAT },
                  { "(a", NULL, RT_FORMAT },
                  { "a)", NULL, RT_FORMAT },
                  { "[a", NULL, RT_FORMAT },
                  { "[z-a]", NULL, RT_FORMAT },
                  { "\\", NULL, RT_FORMAT },
                  { "\\x{110000}", NULL, RT_FORMAT } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rt_str out = { 0 };
        rt_err e = { 0 };
        int rc = rt_tok_regex_translate(cases[i].from, strlen(cases[i].from), "pre_tokenizer", NULL, &out, &e);
        if (rc != cases[i].status) fail_msg("%s: %s %s", cases[i].from, rt_status_name(rc), e.text);
        if (cases[i].to)
            assert_string_equal(out.data, cases[i].to);
        else
            assert_memory_equal(e.text, "pre_tokenizer: ", 15);
        rt_str_free(&out);
    }
}

/* ---- bad files ------------------------------------------------------------------------------------------------------
 */

#define MODEL "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}"
#define TOKEN(id, text)                                                                                                \
    "{\"id\": " #id ", \"content\": \"" text "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "      \
    "\"normalized\": false, \"special\": true}"

static void test_bad_files(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
        const char *says;
    } cases[] = {
        { "{" MODEL "}", RT_OK, "" },
        { "", RT_FORMAT, "tokenizer.json: line 1" },
        { "{\n" MODEL ",\n}", RT_FORMAT, "tokenizer.json: line 3" },
        { "[]", RT_FORMAT, "expected an object" },
        { "{}", RT_FORMAT, "model: expected an object, found nothing" },
        { "{\"version\": \"2.0\", " MODEL "}", RT_UNSUPPORTED, "version: the file's version '2.0'" },
        { "{\"model\": {\"type\": \"Unigram\"}}", RT_UNSUPPORTED, "model: the model 'Unigram' is not supported" },
        { "{\"model\": {\"dropout\": 0.1}}", RT_UNSUPPORTED, "model.dropout" },
        { "{\"model\": {\"vocab\": {}}}", RT_FORMAT, "model.merges: expected a list, found nothing" },
        { "{\"model\": {\"vocab\": {\"a\": -1}, \"merges\": []}}", RT_FORMAT, "model.vocab: the id of 'a'" },
        { "{\"model\": {\"vocab\": {\"a\": 999999999}, \"merges\": []}}", RT_FORMAT, "absurd" },
        { "{\"model\": {\"vocab\": {\"a\": 1, \"b\": 1}, \"merges\": []}}", RT_FORMAT,
          "id 1 is given to 'a' and to 'b'" },
        { "{\"model\": {\"vocab\": {\"a\": 0, \"a\": 1}, \"merges\": []}}", RT_FORMAT, "duplicate" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}", RT_FORMAT,
          "model.merges[0]: the vocabulary has no token 'b'" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a a\"]}}", RT_FORMAT,
          "model.merges[0]: the vocabulary has no token 'aa'" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"aa\"]}}", RT_FORMAT,
          "model.merges[0]: expected two tokens" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]}}", RT_FORMAT,
          "model.merges[0]: expected a list of two strings" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [[\"a\", \"b\"], \"a b\"]}}", RT_FORMAT, "model.merges[0]" },
        { "{" MODEL ", \"added_tokens\": [" TOKEN(3, "<s>") "]}", RT_OK, "" },
        { "{" MODEL ", \"added_tokens\": [" TOKEN(7, "<s>") "]}", RT_FORMAT,
          "added_tokens[0]: '<s>' is listed with id 7, but has id 3" },
        { "{" MODEL ", \"added_tokens\": [{\"id\": 3, \"content\": \"x\"}]}", RT_FORMAT,
          "added_tokens[0].single_word: expected true or false" },
        { "{" MODEL ", \"normalizer\": {\"type\": \"Precompiled\"}}", RT_UNSUPPORTED,
          "normalizer: the normalizer 'Precompiled'" },
        { "{" MODEL
          ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"Bert\"}]}}",
          RT_UNSUPPORTED, "normalizer.normalizers[1]: the normalizer 'Bert' is not supported" },
        { "{" MODEL ", \"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"^\"}, \"content\": \"x\"}}",
          RT_UNSUPPORTED, "normalizer.pattern: a Replace that matches nothing" },
        { "{" MODEL ", \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}}", RT_UNSUPPORTED,
          "pre_tokenizer: the pre-tokenizer 'BertPreTokenizer'" },
        { "{" MODEL ", \"pre_tokenizer\": {\"add_prefix_space\": true}}", RT_FORMAT,
          "pre_tokenizer.type: expected a string" },
        { "{" MODEL ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\bx\"}, "
          "\"behavior\": \"Isolated\", \"invert\": false}}",
          RT_UNSUPPORTED, "pre_tokenizer.pattern.Regex: the pattern uses \\b" },
        { "{" MODEL ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"x\"}, "
          "\"behavior\": \"Odd\", \"invert\": false}}",
          RT_UNSUPPORTED, "pre_tokenizer.behavior: the behavior 'Odd'" },
        { "{" MODEL ", \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"__\"}}", RT_FORMAT,
          "pre_tokenizer.replacement: expected one character" },
        { "{" MODEL ", \"decoder\": {\"type\": \"CTC\"}}", RT_UNSUPPORTED,
          "decoder: the decoder 'CTC' is not supported" },
        { "{" MODEL ", \"post_processor\": {\"type\": \"Odd\"}}", RT_UNSUPPORTED,
          "post_processor: the post-processor 'Odd'" },
        { "{" MODEL ", \"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"x\", 9], \"cls\": [\"a\", 0]}}",
          RT_FORMAT, "post_processor: id 9 is not in the vocabulary" },
        { "{" MODEL ", \"post_processor\": {\"type\": \"TemplateProcessing\", "
          "\"single\": [{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}], \"special_tokens\": {}}}",
          RT_FORMAT, "'<s>' is not in special_tokens" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rt_err e = { 0 };
        rt_tokenizer *t = NULL;
        int rc = rt_tokenizer_from_json(&t, cases[i].text, strlen(cases[i].text), &e);
        if (rc != cases[i].status || (rc < 0 && (t || !strstr(e.text, cases[i].says))))
            fail_msg("case %zu: %s '%s', expected '%s'", i, rt_status_name(rc), e.text, cases[i].says);
        rt_tokenizer_free(t);
    }
}

/* Any beginning of a file is an error, never a crash. */
static void test_truncated(void **state)
{
    (void)state;
    static const char whole[] =
        "{" MODEL ", \"added_tokens\": [" TOKEN(3, "<s>") "], \"decoder\": {\"type\": \"Fuse\"}}";
    for (size_t len = 0; len < sizeof whole - 1; len++) {
        rt_err e = { 0 };
        rt_tokenizer *t = NULL;
        assert_int_equal(rt_tokenizer_from_json(&t, whole, len, &e), RT_FORMAT);
        assert_null(t);
        assert_true(e.text[0] != 0);
    }
}

static void test_missing_unknown(void **state)
{
    (void)state;
    static const char text[] = "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"unk_token\": \"?\"}}";
    rt_err e = { 0 };
    rt_tokenizer *t;
    rt_tok_scratch *s;
    rt_tok_ids ids = { 0 };
    assert_int_equal(rt_tokenizer_from_json(&t, text, strlen(text), &e), RT_OK);
    assert_int_equal(rt_tok_scratch_new(&s, t, &e), RT_OK);
    assert_int_equal(rt_tokenizer_encode(t, s, "aa", 2, 0, &ids, &e), RT_OK);
    assert_int_equal(rt_tokenizer_encode(t, s, "aab", 3, 0, &ids, &e), RT_INVALID);
    assert_int_equal(ids.count, 2); /* as it was */
    rt_free(ids.ids);
    rt_tok_scratch_free(s);
    rt_tokenizer_free(t);
}

/* ---- UTF-8 ----------------------------------------------------------------------------------------------------------
 */

#define BAD "\xEF\xBF\xBD"

static void test_repair(void **state)
{
    (void)state;
    /* What Python's errors="replace" makes of each. */
    static const char *const cases[][2] = { { "abc", "abc" },
                                            { "\xFF", BAD },
                                            { "a\xC3", "a" BAD },
                                            { "\xC3(", BAD "(" },
                                            { "\xE4\xBD", BAD },
                                            { "\xE4\xBDx", BAD "x" },
                                            { "\xE4\xBD\xA0", "\xE4\xBD\xA0" },
                                            { "\xED\xA0\x80", BAD BAD BAD },
                                            { "\xC0\xAF", BAD BAD },
                                            { "\xF0\x80\x80\x80", BAD BAD BAD BAD },
                                            { "\xF0\x9F\x98", BAD },
                                            { "\xF0\x9F\x98\xF0\x9F\x98\x80", BAD "\xF0\x9F\x98\x80" },
                                            { "\xF4\x90\x80\x80", BAD BAD BAD BAD },
                                            { "\xE2\x28\xA1", BAD "(" BAD } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rt_str out = { 0 };
        rt_utf8_repair(cases[i][0], strlen(cases[i][0]), &out);
        assert_string_equal(out.data, cases[i][1]);
        assert_int_equal(rt_utf8_valid(out.data, out.len), out.len);
        rt_str_free(&out);
    }
    for (unsigned b = 0; b < 256; b++) assert_int_equal(rt_char_byte(rt_byte_char((uint8_t)b)), b);
    assert_int_equal(rt_byte_char(' '), 0x120);
    assert_int_equal(rt_byte_char(0xAD), 0x143);
    assert_int_equal(rt_char_byte(0x144), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),     cmocka_unit_test(test_pattern_classes),
        cmocka_unit_test(test_forms),       cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_many_marks),  cmocka_unit_test(test_matchers),
        cmocka_unit_test(test_translation), cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_truncated),   cmocka_unit_test(test_missing_unknown),
        cmocka_unit_test(test_repair),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
