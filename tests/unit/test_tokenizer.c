/* test_tokenizer.c - tokenizers against golden files that the tokenizers package wrote, GGUF vocabularies against the
 * ids beside them, bad files, streams, threads, and every allocation failing in turn.
 *
 * The golden files are in tests/golden/tokenizers (tools/gen_tokenizer_golden.py); tests run from the root of the
 * repository. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "gguf_vocab.h"
#include "memory_case.h"
#include "text/tokenizer/tokenizer.h"

#include <jansson.h>
#include <pthread.h>

static const char *const kinds[] = { "gpt2",           "roberta",     "llama3",    "qwen3",  "qwen35",
                                     "deepseek-coder", "deepseek-v3", "starcoder", "gpt-4o", "falcon",
                                     "clip",           "llama2",      "mistral",   "gemma",  "metaspace-first",
                                     "unknown-fused",  "subword" };
enum { KINDS = sizeof kinds / sizeof kinds[0] };

typedef struct golden {
    json_t *root, *cases;
    rt_tokenizer *t;
    rt_tok_scratch *s;
} golden;

static rt_tokenizer *from_json_value(const json_t *value)
{
    rt_err e = { 0 };
    rt_tokenizer *t = NULL;
    char *text = json_dumps(value, JSON_COMPACT);
    assert_non_null(text);
    if (rt_tokenizer_from_json(&t, text, strlen(text), &e) < 0) fail_msg("%s", e.text);
    free(text);
    return t;
}

static golden open_golden(const char *kind)
{
    golden g;
    char path[200];
    json_error_t error;
    rt_err e = { 0 };
    snprintf(path, sizeof path, "tests/golden/tokenizers/%s.json", kind);
    g.root = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!g.root) fail_msg("%s: %s", path, error.text);
    g.cases = json_object_get(g.root, "cases");
    assert_true(json_array_size(g.cases) > 20);
    g.t = from_json_value(json_object_get(g.root, "tokenizer"));
    assert_int_equal(rt_tok_scratch_new(&g.s, g.t, &e), RT_OK);
    return g;
}

static void close_golden(golden *g)
{
    rt_tok_scratch_free(g->s);
    rt_tokenizer_free(g->t);
    json_decref(g->root);
}

/* The bytes of hexadecimal digits; free with free. */
static char *unhex(const json_t *value, size_t *len)
{
    const char *hex = json_string_value(value);
    *len = json_string_length(value) / 2;
    char *data = malloc(*len + 1);
    for (size_t i = 0; i < *len; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        data[i] = (char)byte;
    }
    return data;
}

static void check_ids(const char *what, size_t number, const rt_tok_ids *got, const json_t *want)
{
    bool same = got->count == json_array_size(want);
    for (size_t i = 0; same && i < got->count; i++) same = got->ids[i] == json_integer_value(json_array_get(want, i));
    if (!same)
        fail_msg("%s, case %zu: %u ids, expected %zu, or others", what, number, got->count, json_array_size(want));
}

static void test_encode_golden(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        golden g = open_golden(kinds[k]);
        for (size_t i = 0; i < json_array_size(g.cases); i++) {
            const json_t *c = json_array_get(g.cases, i), *special = json_array_get(c, 2);
            rt_err e = { 0 };
            rt_tok_ids ids = { 0 };
            size_t len;
            char *text = unhex(json_array_get(c, 0), &len);
            assert_int_equal(rt_tokenizer_encode(g.t, g.s, text, len, 0, &ids, &e), RT_OK);
            check_ids(kinds[k], i, &ids, json_array_get(c, 1));
            ids.count = 0;
            assert_int_equal(rt_tokenizer_encode(g.t, g.s, text, len, RT_ENCODE_SPECIAL, &ids, &e), RT_OK);
            check_ids(kinds[k], i, &ids, json_is_null(special) ? json_array_get(c, 1) : special);
            rt_free(ids.ids);
            free(text);
        }
        close_golden(&g);
    }
}

static uint32_t *ids_of(const json_t *list, size_t *count)
{
    *count = json_array_size(list);
    uint32_t *ids = malloc((*count + 1) * sizeof *ids);
    for (size_t i = 0; i < *count; i++) ids[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

static void check_text(const char *what, size_t number, const rt_str *got, const json_t *want)
{
    size_t len = json_string_length(want);
    if (got->len != len || (len && memcmp(got->data, json_string_value(want), len) != 0))
        fail_msg("%s, case %zu: '%.*s', expected '%s'", what, number, (int)got->len, got->data ? got->data : "",
                 json_string_value(want));
}

static void test_decode_golden(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        golden g = open_golden(kinds[k]);
        for (size_t i = 0; i < json_array_size(g.cases); i++) {
            const json_t *c = json_array_get(g.cases, i), *skipped = json_array_get(c, 4);
            rt_err e = { 0 };
            rt_str out = { 0 };
            size_t count;
            uint32_t *ids = ids_of(json_array_get(c, 1), &count);
            assert_int_equal(rt_tokenizer_decode(g.t, ids, count, 0, &out, &e), RT_OK);
            check_text(kinds[k], i, &out, json_array_get(c, 3));
            out.len = 0;
            assert_int_equal(rt_tokenizer_decode(g.t, ids, count, RT_DECODE_SKIP_SPECIAL, &out, &e), RT_OK);
            check_text(kinds[k], i, &out, json_is_null(skipped) ? json_array_get(c, 3) : skipped);
            rt_str_free(&out);
            free(ids);
        }
        close_golden(&g);
    }
}

static bool whole_characters(const char *data, size_t len)
{
    if (len == 0) return true;
    unsigned char last = 0;
    size_t tail = 0;
    while (tail < len && tail < 4) {
        last = (unsigned char)data[len - 1 - tail++];
        if ((last & 0xC0) != 0x80) break;
    }
    size_t need = last < 0x80 ? 1 : last < 0xE0 ? 2 : last < 0xF0 ? 3 : 4;
    return ((unsigned char)data[0] & 0xC0) != 0x80 && need == tail;
}

static void test_stream_golden(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        golden g = open_golden(kinds[k]);
        rt_tok_stream *stream = NULL;
        rt_err e = { 0 };
        assert_int_equal(rt_tok_stream_new(&stream, g.t, 0, &e), RT_OK);
        for (size_t i = 0; i < json_array_size(g.cases); i++) {
            const json_t *c = json_array_get(g.cases, i);
            rt_str out = { 0 };
            size_t count;
            uint32_t *ids = ids_of(json_array_get(c, 1), &count);
            for (size_t n = 0; n < count; n++) {
                size_t before = out.len;
                assert_int_equal(rt_tok_stream_push(stream, ids[n], &out, &e), RT_OK);
                assert_true(out.len == before || whole_characters(out.data + before, out.len - before));
            }
            assert_int_equal(rt_tok_stream_end(stream, &out, &e), RT_OK);
            if (!strstr(json_string_value(json_array_get(c, 3)), "\xEF\xBF\xBD"))
                check_text(kinds[k], i, &out, json_array_get(c, 3));
            rt_str_free(&out);
            free(ids);
        }
        rt_tok_stream_free(stream);
        close_golden(&g);
    }
}

/* Characters of byte tokens come as soon as they are complete, and not before. */
static void test_stream_waits(void **state)
{
    (void)state;
    golden g = open_golden("llama2");
    rt_err e = { 0 };
    rt_tok_stream *stream = NULL;
    rt_str out = { 0 };
    assert_int_equal(rt_tok_stream_new(&stream, g.t, 0, &e), RT_OK);
    static const char *const bytes[] = { "<0xE4>", "<0xBD>", "<0xA0>", "<0xC3>", "<0x41>" };
    static const char *const texts[] = { "", "", "\xE4\xBD\xA0", "", "\xEF\xBF\xBD\x41" };
    for (int i = 0; i < 5; i++) {
        int64_t id = rt_tokenizer_find(g.t, bytes[i], 6);
        assert_true(id >= 0);
        out.len = 0;
        assert_int_equal(rt_tok_stream_push(stream, (uint32_t)id, &out, &e), RT_OK);
        assert_int_equal(out.len, strlen(texts[i]));
        assert_memory_equal(out.data ? out.data : "", texts[i], out.len);
    }
    out.len = 0;
    assert_int_equal(rt_tok_stream_push(stream, (uint32_t)rt_tokenizer_find(g.t, "<0xF0>", 6), &out, &e), RT_OK);
    assert_int_equal(rt_tok_stream_end(stream, &out, &e), RT_OK);
    assert_int_equal(out.len, 3);
    assert_memory_equal(out.data, "\xEF\xBF\xBD", 3);
    rt_str_free(&out);
    rt_tok_stream_free(stream);
    close_golden(&g);
}

static void test_questions(void **state)
{
    (void)state;
    golden g = open_golden("llama3");
    rt_token_info info;
    uint32_t count;
    int64_t bos = rt_tokenizer_find(g.t, "<|begin_of_text|>", 17);
    assert_true(bos > 0);
    assert_true(rt_tokenizer_token(g.t, (uint32_t)bos, &info));
    assert_true(info.special && info.added);
    assert_int_equal(*rt_tokenizer_prefix(g.t, &count), bos);
    assert_int_equal(count, 1);
    rt_tokenizer_suffix(g.t, &count);
    assert_int_equal(count, 0);
    int64_t space = rt_tokenizer_find(g.t, "\xC4\xA0", 2);
    assert_true(space >= 0 && rt_tokenizer_token(g.t, (uint32_t)space, &info));
    assert_int_equal(info.bytes.len, 1);
    assert_int_equal(info.bytes.data[0], ' ');
    assert_false(info.special || info.added);
    assert_false(rt_tokenizer_token(g.t, rt_tokenizer_size(g.t), &info));
    assert_int_equal(rt_tokenizer_find(g.t, "no such token", 13), -1);
    rt_str line = { 0 };
    rt_tokenizer_describe(g.t, &line);
    assert_non_null(strstr(line.data, "BPE, byte-level, "));
    rt_str_free(&line);
    uint32_t outside = rt_tokenizer_size(g.t);
    rt_err e = { 0 };
    assert_int_equal(rt_tokenizer_decode(g.t, &outside, 1, 0, &line, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "is not in the vocabulary"));
    close_golden(&g);
}

/* Text that spells a special token is text when asked for, and only special tokens are. */
static void test_plain(void **state)
{
    (void)state;
    golden g = open_golden("qwen3");
    rt_err e = { 0 };
    rt_tok_ids ids = { 0 };
    const char text[] = "<|im_end|><think>";
    assert_int_equal(rt_tokenizer_encode(g.t, g.s, text, strlen(text), 0, &ids, &e), RT_OK);
    assert_int_equal(ids.count, 2);
    int64_t end = rt_tokenizer_find(g.t, "<|im_end|>", 10), think = rt_tokenizer_find(g.t, "<think>", 7);
    assert_int_equal(ids.ids[0], end);
    assert_int_equal(ids.ids[1], think);
    ids.count = 0;
    assert_int_equal(rt_tokenizer_encode(g.t, g.s, text, strlen(text), RT_ENCODE_PLAIN, &ids, &e), RT_OK);
    assert_true(ids.count > 2);
    for (uint32_t i = 0; i < ids.count; i++) assert_true(ids.ids[i] != end);
    assert_int_equal(ids.ids[ids.count - 1], think);
    rt_free(ids.ids);
    close_golden(&g);
}

/* ---- GGUF -----------------------------------------------------------------------------------------------------------
 */

enum { TINY = 256 + 4 };

/* A byte-level vocabulary of 256 bytes, one merge, a control token, a user-defined one and padding. */
static rt_vocab_spec tiny_spec(rt_tok_text tokens[TINY], int32_t types[TINY], char spelled[256][4])
{
    static const rt_tok_text merges[] = { { "a b", 3 } };
    unsigned next = 0;
    for (unsigned b = 0; b < 256; b++) {
        bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
        unsigned cp = itself ? b : 0x100 + next++;
        char *p = spelled[b];
        if (cp < 0x80)
            *p++ = (char)cp;
        else {
            *p++ = (char)(0xC0 | cp >> 6);
            *p++ = (char)(0x80 | (cp & 0x3F));
        }
        tokens[b] = (rt_tok_text){ spelled[b], (size_t)(p - spelled[b]) };
        types[b] = RT_VOCAB_NORMAL;
    }
    static const rt_tok_text rest[] = { { "ab", 2 }, { "<eos>", 5 }, { "<user>", 6 }, { "[PAD259]", 8 } };
    static const int32_t rest_types[] = { RT_VOCAB_NORMAL, RT_VOCAB_CONTROL, RT_VOCAB_USER_DEFINED, RT_VOCAB_UNUSED };
    memcpy(tokens + 256, rest, sizeof rest);
    memcpy(types + 256, rest_types, sizeof rest_types);
    return (rt_vocab_spec){ .model = "gpt2",
                            .pre = "gpt-2",
                            .tokens = tokens,
                            .token_count = TINY,
                            .types = types,
                            .merges = merges,
                            .merge_count = 1,
                            .bos = 257,
                            .eos = 257,
                            .add_bos = 0,
                            .add_eos = 1,
                            .add_space_prefix = -1 };
}

static void test_vocab_bpe(void **state)
{
    (void)state;
    rt_tok_text tokens[TINY];
    int32_t types[TINY];
    char spelled[256][4];
    rt_vocab_spec spec = tiny_spec(tokens, types, spelled);
    rt_err e = { 0 };
    rt_tokenizer *t;
    rt_tok_scratch *s;
    rt_tok_ids ids = { 0 };
    rt_token_info info;
    assert_int_equal(rt_tokenizer_from_vocab(&t, &spec, &e), RT_OK);
    assert_int_equal(rt_tok_scratch_new(&s, t, &e), RT_OK);
    assert_int_equal(rt_tokenizer_encode(t, s, "ab <user>a<eos>", 15, RT_ENCODE_SPECIAL, &ids, &e), RT_OK);
    static const uint32_t want[] = { 256, ' ', 258, 'a', 257, 257 };
    assert_int_equal(ids.count, 6);
    assert_memory_equal(ids.ids, want, sizeof want);
    /* A user-defined token is not special: it is found in plain text too. */
    ids.count = 0;
    assert_int_equal(rt_tokenizer_encode(t, s, "<user><eos>", 11, RT_ENCODE_PLAIN, &ids, &e), RT_OK);
    assert_int_equal(ids.count, 6);
    assert_int_equal(ids.ids[0], 258);
    assert_false(rt_tokenizer_token(t, 259, &info)); /* padding is not a token */
    assert_int_equal(rt_tokenizer_size(t), TINY);
    rt_free(ids.ids);
    rt_tok_scratch_free(s);
    rt_tokenizer_free(t);
}

static void refuse_vocab(const rt_vocab_spec *spec, int status, const char *what)
{
    rt_err e = { 0 };
    rt_tokenizer *t = (rt_tokenizer *)&e;
    assert_int_equal(rt_tokenizer_from_vocab(&t, spec, &e), status);
    assert_null(t);
    if (!strstr(e.text, what)) fail_msg("'%s' does not say '%s'", e.text, what);
}

static void test_vocab_refused(void **state)
{
    (void)state;
    rt_tok_text tokens[TINY];
    int32_t types[TINY];
    char spelled[256][4];
    rt_vocab_spec good = tiny_spec(tokens, types, spelled), spec = good;
    spec.model = "bert";
    refuse_vocab(&spec, RT_UNSUPPORTED, "tokenizer.ggml.model: the model 'bert'");
    spec = good;
    spec.pre = "nowhere";
    refuse_vocab(&spec, RT_UNSUPPORTED, "the pre-tokenizer 'nowhere'");
    spec.pre = NULL;
    refuse_vocab(&spec, RT_UNSUPPORTED, "tokenizer.ggml.pre is missing");
    spec = good;
    spec.model = "llama";
    refuse_vocab(&spec, RT_FORMAT, "tokenizer.ggml.scores is missing");
    static float scores[TINY];
    spec.scores = scores;
    scores[7] = __builtin_nanf("");
    refuse_vocab(&spec, RT_FORMAT, "tokenizer.ggml.scores[7] is not a number");
    spec = good;
    spec.eos = TINY;
    refuse_vocab(&spec, RT_FORMAT, "tokenizer.ggml.eos_token_id");
    spec = good;
    spec.token_count = 0;
    refuse_vocab(&spec, RT_FORMAT, "tokenizer.ggml.tokens is empty");
    types[3] = 9;
    refuse_vocab(&good, RT_FORMAT, "token_type[3] is 9");
    types[3] = RT_VOCAB_NORMAL;
    rt_tok_text merge = { "ab", 2 };
    spec = good;
    spec.merges = &merge;
    refuse_vocab(&spec, RT_FORMAT, "tokenizer.ggml.merges[0]: expected two tokens");
    merge = (rt_tok_text){ "a c", 3 };
    refuse_vocab(&spec, RT_FORMAT, "tokenizer.ggml.merges[0]: the vocabulary has no token 'ac'");
    tokens[258] = tokens[257];
    refuse_vocab(&good, RT_FORMAT, "tokenizer.ggml.tokens[258]: token '<eos>' occurs twice");
    tokens[258] = (rt_tok_text){ "\xC3", 1 };
    refuse_vocab(&good, RT_FORMAT, "tokenizer.ggml.tokens[258]: not valid UTF-8");
}

/* A tiny SentencePiece vocabulary: merges go by score, ties to the left, what is not there by bytes. */
static void test_vocab_scores(void **state)
{
    (void)state;
    enum { N = 3 + 256 + 6 };
    static rt_tok_text tokens[N];
    static char names[256][8];
    static float scores[N];
    static int32_t types[N];
    static const char *const rest[] = { "\xE2\x96\x81", "a", "b", "ab", "\xE2\x96\x81\x61", "ba" };
    tokens[0] = (rt_tok_text){ "<unk>", 5 };
    tokens[1] = (rt_tok_text){ "<s>", 3 };
    tokens[2] = (rt_tok_text){ "</s>", 4 };
    types[0] = RT_VOCAB_UNKNOWN;
    types[1] = types[2] = RT_VOCAB_CONTROL;
    for (int b = 0; b < 256; b++) {
        snprintf(names[b], sizeof names[b], "<0x%02X>", (unsigned)b);
        tokens[3 + b] = (rt_tok_text){ names[b], 6 };
        types[3 + b] = RT_VOCAB_BYTE;
    }
    for (int i = 0; i < 6; i++) {
        tokens[259 + i] = (rt_tok_text){ rest[i], strlen(rest[i]) };
        types[259 + i] = RT_VOCAB_NORMAL;
        scores[259 + i] = -1.0f;
    }
    scores[262] = -0.5f; /* ab */
    rt_vocab_spec spec = { .model = "llama",
                           .tokens = tokens,
                           .token_count = N,
                           .scores = scores,
                           .types = types,
                           .bos = 1,
                           .eos = 2,
                           .add_bos = -1,
                           .add_eos = -1,
                           .add_space_prefix = -1 };
    rt_err e = { 0 };
    rt_tokenizer *t;
    rt_tok_scratch *s;
    rt_tok_ids ids = { 0 };
    rt_str out = { 0 };
    assert_int_equal(rt_tokenizer_from_vocab(&t, &spec, &e), RT_OK);
    assert_int_equal(rt_tok_scratch_new(&s, t, &e), RT_OK);
    /* ▁ ab ab a; the first a goes to ab, the better pair; é has no token */
    const char text[] = "ababa \xC3\xA9</s>b";
    assert_int_equal(rt_tokenizer_encode(t, s, text, strlen(text), RT_ENCODE_SPECIAL, &ids, &e), RT_OK);
    static const uint32_t want[] = { 1, 259, 262, 262, 260, 259, 3 + 0xC3, 3 + 0xA9, 2, 259, 261 };
    assert_int_equal(ids.count, sizeof want / sizeof want[0]);
    assert_memory_equal(ids.ids, want, sizeof want);
    assert_int_equal(rt_tokenizer_decode(t, ids.ids, ids.count, RT_DECODE_SKIP_SPECIAL, &out, &e), RT_OK);
    assert_string_equal(out.data, "ababa \xC3\xA9 b");
    rt_str_free(&out);
    rt_free(ids.ids);
    rt_tok_scratch_free(s);
    rt_tokenizer_free(t);
}

/* The texts of .inp, separated by a line, and the ids of .out, a line each. */
static void check_listed(const char *name)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    char path[200];
    gguf_vocab v;
    size_t in_len, out_len, done = 0;
    snprintf(path, sizeof path, "../shared/data/tokenizers/%s.gguf", name);
    if (gguf_vocab_read(&v, path) < 0) {
        gguf_vocab_free(&v);
        skip();
    }
    rt_err e = { 0 };
    rt_tokenizer *t;
    rt_tok_scratch *s;
    if (rt_tokenizer_from_vocab(&t, &v.spec, &e) < 0) fail_msg("%s: %s", name, e.text);
    assert_int_equal(rt_tok_scratch_new(&s, t, &e), RT_OK);
    strcat(path, ".inp");
    char *in = read_whole(path, &in_len);
    memcpy(path + strlen(path) - 3, "out", 3);
    char *out = read_whole(path, &out_len), *line = out;
    assert_true(in && out);
    for (char *p = in; p && line; done++) {
        char *end = strstr(p, mark), *rest = line, *next = strchr(line, '\n');
        rt_tok_ids ids = { 0 };
        assert_int_equal(rt_tokenizer_encode(t, s, p, end ? (size_t)(end - p) : strlen(p), RT_ENCODE_PLAIN, &ids, &e),
                         RT_OK);
        for (uint32_t i = 0; i < ids.count; i++) {
            long want = strtol(rest, &rest, 10);
            if (want != (long)ids.ids[i])
                fail_msg("%s, text %zu, id %u: %u, expected %ld", name, done, i, ids.ids[i], want);
        }
        rest += strspn(rest, " ");
        assert_true(*rest == '\n' || *rest == 0); /* no more ids are listed */
        rt_free(ids.ids);
        p = end ? end + strlen(mark) : NULL;
        line = next ? next + 1 : NULL;
    }
    assert_true(done > 40);
    free(in);
    free(out);
    rt_tok_scratch_free(s);
    rt_tokenizer_free(t);
    gguf_vocab_free(&v);
}

static void test_listed_gpt2(void **state)
{
    (void)state;
    check_listed("ggml-vocab-gpt-2");
}

static void test_listed_llama(void **state)
{
    (void)state;
    check_listed("ggml-vocab-llama-spm");
}

/* ---- threads --------------------------------------------------------------------------------------------------------
 */

static void *encode_all(void *arg)
{
    const golden *g = arg;
    rt_err e = { 0 };
    rt_tok_scratch *s = NULL;
    void *bad = NULL;
    if (rt_tok_scratch_new(&s, g->t, &e) < 0) return arg;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < json_array_size(g->cases); i++) {
            const json_t *c = json_array_get(g->cases, i), *want = json_array_get(c, 1);
            rt_tok_ids ids = { 0 };
            size_t len;
            char *text = unhex(json_array_get(c, 0), &len);
            if (rt_tokenizer_encode(g->t, s, text, len, 0, &ids, &e) < 0 || ids.count != json_array_size(want))
                bad = arg;
            for (uint32_t k = 0; !bad && k < ids.count; k++)
                if (ids.ids[k] != json_integer_value(json_array_get(want, k))) bad = arg;
            rt_free(ids.ids);
            free(text);
        }
    }
    rt_tok_scratch_free(s);
    return bad;
}

static void test_threads(void **state)
{
    (void)state;
    golden g = open_golden("qwen3");
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, encode_all, &g), 0);
    for (int i = 0; i < 3; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    close_golden(&g);
}

/* ---- failing allocations --------------------------------------------------------------------------------------------
 */

static int whole_life(const char *text, size_t len, rt_err *e)
{
    rt_tokenizer *t = NULL;
    rt_tok_scratch *s = NULL;
    rt_tok_stream *stream = NULL;
    rt_tok_ids ids = { 0 };
    rt_str out = { 0 };
    static char words[3000]; /* long enough for the heap */
    memset(words, 'e', sizeof words);
    memcpy(words, "a\xCC\x81\xFF <mask> \xE2\x84\xAB ", 17);
    int rc;
    RT_TRY(rt_tokenizer_from_json(&t, text, len, e));
    RT_TRY(rt_tok_scratch_new(&s, t, e));
    RT_TRY(rt_tokenizer_encode(t, s, words, sizeof words, RT_ENCODE_SPECIAL, &ids, e));
    RT_TRY(rt_tokenizer_decode(t, ids.ids, ids.count, 0, &out, e));
    RT_TRY(rt_tok_stream_new(&stream, t, 0, e));
    for (uint32_t i = 0; i < ids.count; i++) RT_TRY(rt_tok_stream_push(stream, ids.ids[i], &out, e));
    RT_TRY(rt_tok_stream_end(stream, &out, e));
out:
    rt_free(ids.ids);
    rt_str_free(&out);
    rt_tok_stream_free(stream);
    rt_tok_scratch_free(s);
    rt_tokenizer_free(t);
    return rc;
}

static void test_allocations_fail(void **state)
{
    (void)state;
    static const char *const some[] = { "gemma", "qwen3", "deepseek-v3", "subword" };
    static const rt_allocator failing = { failing_alloc, failing_free, NULL };
    for (int k = 0; k < 4; k++) {
        golden g = open_golden(some[k]);
        char *text = json_dumps(json_object_get(g.root, "tokenizer"), JSON_COMPACT);
        close_golden(&g);
        uint64_t live = rt_alloc_live();
        rt_allocator_set(&failing);
        int rc = RT_NOMEM;
        int64_t n = 0;
        for (; rc != RT_OK; n++) {
            rt_err e = { 0 };
            allowed = n;
            rc = whole_life(text, strlen(text), &e);
            allowed = -1;
            if (rc != RT_OK) assert_int_equal(rc, RT_NOMEM);
            assert_int_equal(rt_alloc_live(), live);
            assert_true(n < 100000);
        }
        assert_true(n > 50); /* the loop did meet allocations */
        rt_allocator_set(NULL);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode_golden),    cmocka_unit_test(test_decode_golden),
        cmocka_unit_test(test_stream_golden),    cmocka_unit_test(test_stream_waits),
        cmocka_unit_test(test_questions),        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_vocab_bpe),        cmocka_unit_test(test_vocab_refused),
        cmocka_unit_test(test_vocab_scores),     cmocka_unit_test(test_listed_gpt2),
        cmocka_unit_test(test_listed_llama),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
