/* test_vocab_convert.c - a vocabulary in its two forms gives the same ids: tokenizer.json to lists and back, over texts
 * of many scripts; what the other form cannot say is refused by name; the byte-level tokenizer of tiny models.
 *
 * Golden files are in tests/golden/tokenizers; vocabularies of real models are tried where they are present. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "gguf_vocab.h"
#include "text/jinja/chat_template.h"
#include "text/tokenizer/vocab_convert.h"

#include <jansson.h>

enum { GENERATED = 400 };

/* ---- texts ---- */

static uint32_t draw(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*state >> 8) * below >> 24);
}

/* Pieces that pre-tokenizers and byte fallback care about; put together at random. */
static const char *const pieces[] = {
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "a",
    "aa",
    "aaa",
    "the",
    " The",
    "Hello",
    "world",
    "it's",
    "I'LL",
    "don't",
    "1",
    "23",
    "456789",
    "3.14",
    "!",
    "?!...",
    "--",
    "(x)",
    "{};",
    "_a_b",
    "def f",
    "return",
    "http://",
    "é",
    "Ünïcode",
    "привет",
    "мир",
    "你好",
    "世界",
    "こん",
    "한국어",
    "ไทย",
    "العربية",
    "नमस्ते",
    "😀",
    "👩‍👩‍👧",
    "\u2581",
    "\u2581\u2581",
    "\u00a0",
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|endoftext|>",
    "<0x0A>",
    "½",
    "Ⅷ",
    "\x01",
    "\x7f",
    "ﬁ",
    "İ",
    "ß",
    "∑",
    "€",
    "\xff",
    "\xc3(",
};
enum { PIECES = sizeof pieces / sizeof pieces[0] };

static size_t make_text(char *out, size_t room, uint32_t seed)
{
    uint32_t state = seed * 2654435761u + 12345;
    size_t len = 0;
    for (uint32_t n = 1 + draw(&state, 12); n > 0; n--) {
        const char *p = pieces[draw(&state, PIECES)];
        if (len + strlen(p) >= room) break;
        memcpy(out + len, p, strlen(p));
        len += strlen(p);
    }
    return len;
}

typedef struct both {
    rt_tokenizer *a, *b;
    rt_tok_scratch *sa, *sb;
} both;

static both pair_of(rt_tokenizer *a, rt_tokenizer *b)
{
    rt_err e = { 0 };
    both p = { .a = a, .b = b };
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(rt_tok_scratch_new(&p.sa, a, &e), RT_OK);
    assert_int_equal(rt_tok_scratch_new(&p.sb, b, &e), RT_OK);
    return p;
}

static void free_pair(both *p)
{
    rt_tok_scratch_free(p->sa);
    rt_tok_scratch_free(p->sb);
    rt_tokenizer_free(p->a);
    rt_tokenizer_free(p->b);
}

/* Ids with every combination of flags, and the text of the ids. */
static void compare_text(const char *what, both *p, const char *text, size_t len)
{
    for (unsigned flags = 0; flags < 4; flags++) {
        rt_err e = { 0 };
        rt_tok_ids x = { 0 }, y = { 0 };
        rt_str dx = { 0 }, dy = { 0 };
        assert_int_equal(rt_tokenizer_encode(p->a, p->sa, text, len, flags, &x, &e), RT_OK);
        assert_int_equal(rt_tokenizer_encode(p->b, p->sb, text, len, flags, &y, &e), RT_OK);
        if (x.count != y.count || (x.count && memcmp(x.ids, y.ids, x.count * sizeof *x.ids) != 0)) {
            for (uint32_t i = 0; i < x.count; i++) print_error("%u ", x.ids[i]);
            print_error("| ");
            for (uint32_t i = 0; i < y.count; i++) print_error("%u ", y.ids[i]);
            fail_msg("%s: other ids for '%.*s' (flags %u)", what, (int)len, text, flags);
        }
        assert_int_equal(rt_tokenizer_decode(p->a, x.ids, x.count, 0, &dx, &e), RT_OK);
        assert_int_equal(rt_tokenizer_decode(p->b, x.ids, x.count, 0, &dy, &e), RT_OK);
        if (dx.len != dy.len || (dx.len && memcmp(dx.data, dy.data, dx.len) != 0))
            fail_msg("%s: other text for the ids of '%.*s'", what, (int)len, text);
        rt_str_free(&dx);
        rt_str_free(&dy);
        rt_free(x.ids);
        rt_free(y.ids);
    }
}

static void compare(const char *what, both *p)
{
    char text[512];
    for (uint32_t i = 0; i < GENERATED; i++) compare_text(what, p, text, make_text(text, sizeof text, i));
    assert_true(rt_tokenizer_size(p->a) > 0);
}

static bool same_hash(const both *p)
{
    rt_hash128 x = rt_tokenizer_hash(p->a), y = rt_tokenizer_hash(p->b);
    return x.hi == y.hi && x.lo == y.lo;
}

/* ---- tokenizer.json to lists, and back ---- */

static json_t *golden(const char *kind)
{
    char path[200];
    json_error_t error;
    snprintf(path, sizeof path, "tests/golden/tokenizers/%s.json", kind);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!root) fail_msg("%s: %s", path, error.text);
    json_t *t = json_incref(json_object_get(root, "tokenizer"));
    json_decref(root);
    return t;
}

static rt_tokenizer *from_text(rt_span text)
{
    rt_err e = { 0 };
    rt_tokenizer *t = NULL;
    if (rt_tokenizer_from_json(&t, text.data, text.len, &e) < 0) fail_msg("%s", e.text);
    return t;
}

static rt_tokenizer *from_lists(const rt_vocab_spec *v)
{
    rt_err e = { 0 };
    rt_tokenizer *t = NULL;
    if (rt_tokenizer_from_vocab(&t, v, &e) < 0) fail_msg("%s", e.text);
    return t;
}

static void test_byte_level(void **state)
{
    static const struct {
        const char *kind, *pre;
        bool loses_nfc;
    } cases[] = { { "gpt2", "gpt-2", false },
                  { "llama3", "llama-bpe", false },
                  { "qwen3", "qwen2", true },
                  { "qwen35", "qwen35", true },
                  { "deepseek-coder", "deepseek-coder", false },
                  { "deepseek-v3", "deepseek-v3", false },
                  { "starcoder", "starcoder", false },
                  { "gpt-4o", "gpt-4o", false } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *t = golden(cases[i].kind);
        rt_arena a = { 0 };
        rt_err e = { 0 };
        rt_str notes = { 0 }, back = { 0 };
        rt_vocab_spec v;
        char *text = json_dumps(t, JSON_COMPACT);
        rt_span span = { text, strlen(text) };
        uint32_t size = 1000;
        if (rt_vocab_from_json(&v, &a, span, size, &notes, &e) < 0) fail_msg("%s: %s", cases[i].kind, e.text);
        assert_string_equal(v.model, "gpt2");
        assert_string_equal(v.pre, cases[i].pre);
        assert_int_equal(v.token_count, size);
        assert_int_equal(v.types[size - 1], RT_VOCAB_UNUSED);
        assert_memory_equal(v.tokens[size - 1].data, "[PAD999]", 8);
        assert_int_equal(notes.data && strstr(notes.data, "NFC"), cases[i].loses_nfc);
        if (cases[i].loses_nfc) { /* all else is the same */
            json_object_set_new(t, "normalizer", json_null());
            rt_free(text);
            text = json_dumps(t, JSON_COMPACT);
            span = (rt_span){ text, strlen(text) };
        }
        both p = pair_of(from_text(span), from_lists(&v));
        compare(cases[i].kind, &p);
        free_pair(&p);
        assert_int_equal(rt_vocab_from_json(&v, &a, span, 0, NULL, &e), RT_OK);
        p = pair_of(from_text(span), from_lists(&v));
        if (!same_hash(&p)) fail_msg("%s: the form changes the identity", cases[i].kind);
        free_pair(&p);
        /* and back */
        if (rt_vocab_to_json(&v, &back, &e) < 0) fail_msg("%s: %s", cases[i].kind, e.text);
        p = pair_of(from_text((rt_span){ back.data, back.len }), from_lists(&v));
        compare(cases[i].kind, &p);
        assert_true(same_hash(&p));
        free_pair(&p);
        rt_str_free(&notes);
        rt_str_free(&back);
        rt_arena_free(&a);
        rt_free(text);
        json_decref(t);
    }
}

static void expect_refusal(const char *kind, const char *path, const char *json, const char *word)
{
    json_t *t = golden(kind);
    rt_arena a = { 0 };
    rt_err e = { 0 };
    rt_vocab_spec v;
    if (path) assert_int_equal(json_object_set_new(t, path, json_loads(json, JSON_DECODE_ANY, NULL)), 0);
    char *text = json_dumps(t, JSON_COMPACT);
    if (rt_vocab_from_json(&v, &a, (rt_span){ text, strlen(text) }, 0, NULL, &e) != RT_UNSUPPORTED)
        fail_msg("%s is not refused: %s", kind, e.text);
    if (!strstr(e.text, word)) fail_msg("%s: '%s' does not say '%s'", kind, e.text, word);
    rt_arena_free(&a);
    rt_free(text);
    json_decref(t);
}

static void test_refused(void **state)
{
    (void)state;
    expect_refusal("falcon", NULL, NULL, "Punctuation");
    expect_refusal("roberta", NULL, NULL, "add_prefix_space");
    expect_refusal("gemma", NULL, NULL, "pre_tokenizer 'Split'");
    expect_refusal("subword", NULL, NULL, "no equal in GGUF");
    expect_refusal("qwen3", "normalizer", "{\"type\":\"Lowercase\"}", "normalizer 'Lowercase'");
    expect_refusal("qwen3", "pre_tokenizer",
                   "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"own\"},"
                   "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                   "\"trim_offsets\":true,\"use_regex\":false}]}",
                   "the first is own");
    expect_refusal("qwen3", "pre_tokenizer",
                   "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"own\"},"
                   "\"behavior\":\"Removed\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                   "\"trim_offsets\":true,\"use_regex\":false}]}",
                   "behavior 'Removed'");
}

static void test_too_many_ids(void **state)
{
    (void)state;
    json_t *t = golden("gpt2");
    rt_arena a = { 0 };
    rt_err e = { 0 };
    rt_vocab_spec v;
    char *text = json_dumps(t, JSON_COMPACT);
    assert_int_equal(rt_vocab_from_json(&v, &a, (rt_span){ text, strlen(text) }, 300, NULL, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "300 rows"));
    rt_arena_free(&a);
    rt_free(text);
    json_decref(t);
}

/* ---- vocabularies with scores ---- */

/* Bytes, single characters, and joined pieces whose scores fall in order. */
static const char *const spm_pieces[] = { "\u2581",
                                          "a",
                                          "b",
                                          "c",
                                          "d",
                                          "e",
                                          "h",
                                          "l",
                                          "o",
                                          "r",
                                          "w",
                                          "t",
                                          "é",
                                          "你",
                                          "<",
                                          "s",
                                          ">",
                                          "/",
                                          "\u2581\u2581",
                                          "he",
                                          "ll",
                                          "\u2581a",
                                          "or",
                                          "\u2581t",
                                          "hell",
                                          "\u2581w",
                                          "hello",
                                          "\u2581hello",
                                          "\u2581wor",
                                          "ld",
                                          "\u2581world",
                                          "aa",
                                          "aaaa",
                                          "the",
                                          "\u2581the",
                                          "\u2581\u2581\u2581\u2581" };
enum { SPM_PIECES = sizeof spm_pieces / sizeof spm_pieces[0], SPM_TOKENS = 3 + 256 + SPM_PIECES + 2 };

typedef struct spm {
    rt_tok_text tokens[SPM_TOKENS];
    float scores[SPM_TOKENS];
    int32_t types[SPM_TOKENS];
    char bytes[256][8];
    rt_vocab_spec spec;
} spm;

static void make_spm(spm *s, int prefix)
{
    static const char *const control[] = { "<unk>", "<s>", "</s>" };
    memset(s, 0, sizeof *s);
    for (int i = 0; i < SPM_TOKENS; i++) {
        const char *text;
        if (i < 3) {
            text = control[i];
            s->types[i] = i == 0 ? RT_VOCAB_UNKNOWN : RT_VOCAB_CONTROL;
            s->scores[i] = -1000;
        } else if (i < 259) {
            snprintf(s->bytes[i - 3], sizeof s->bytes[0], "<0x%02X>", i - 3);
            text = s->bytes[i - 3];
            s->types[i] = RT_VOCAB_BYTE;
        } else if (i < 259 + SPM_PIECES) {
            text = spm_pieces[i - 259];
            s->types[i] = RT_VOCAB_NORMAL;
            s->scores[i] = (float)-(i - 259);
        } else {
            text = i == 259 + SPM_PIECES ? "[PAD295]" : "<|im_start|>";
            s->types[i] = i == 259 + SPM_PIECES ? RT_VOCAB_UNUSED : RT_VOCAB_USER_DEFINED;
            s->scores[i] = -1000;
        }
        s->tokens[i] = (rt_tok_text){ text, strlen(text) };
    }
    s->spec = (rt_vocab_spec){ .model = "llama",
                               .tokens = s->tokens,
                               .token_count = SPM_TOKENS,
                               .scores = s->scores,
                               .types = s->types,
                               .bos = 1,
                               .eos = 2,
                               .add_bos = -1,
                               .add_eos = -1,
                               .add_space_prefix = prefix };
}

static void check_spm(const char *what, const rt_vocab_spec *spec)
{
    rt_err e = { 0 };
    rt_arena a = { 0 };
    rt_str json = { 0 }, notes = { 0 };
    rt_vocab_spec again;
    if (rt_vocab_to_json(spec, &json, &e) < 0) fail_msg("%s: %s", what, e.text);
    rt_span text = { json.data, json.len };
    both p = pair_of(from_lists(spec), from_text(text));
    compare(what, &p);
    assert_true(same_hash(&p));
    free_pair(&p);
    if (rt_vocab_from_json(&again, &a, text, spec->token_count, &notes, &e) < 0) fail_msg("%s: %s", what, e.text);
    assert_string_equal(again.model, "llama");
    assert_int_equal(again.bos, spec->bos);
    assert_int_equal(again.add_bos, 1);
    assert_int_equal(again.add_space_prefix, spec->add_space_prefix != 0);
    assert_null(notes.data);
    for (uint32_t i = 0; i < spec->token_count; i++)
        if (again.types[i] != spec->types[i]) fail_msg("%s: token %u is of type %d", what, i, again.types[i]);
    p = pair_of(from_lists(&again), from_text(text));
    compare(what, &p);
    free_pair(&p);
    rt_str_free(&json);
    rt_str_free(&notes);
    rt_arena_free(&a);
}

static void test_scores(void **state)
{
    (void)state;
    static spm s;
    make_spm(&s, -1);
    check_spm("scores", &s.spec);
    make_spm(&s, 0);
    check_spm("scores without a space before", &s.spec);
}

static void test_metaspace(void **state)
{
    (void)state;
    static spm s;
    rt_err e = { 0 };
    rt_arena a = { 0 };
    rt_str json = { 0 }, notes = { 0 };
    rt_vocab_spec v;
    make_spm(&s, 1);
    assert_int_equal(rt_vocab_to_json(&s.spec, &json, &e), RT_OK);
    json_t *root = json_loadb(json.data, json.len, 0, NULL);
    json_object_set_new(root, "normalizer", json_null());
    json_object_set_new(root, "pre_tokenizer",
                        json_pack("{s:s,s:s,s:s,s:b}", "type", "Metaspace", "replacement", "\u2581", "prepend_scheme",
                                  "first", "split", 0));
    char *text = json_dumps(root, JSON_COMPACT);
    assert_int_equal(rt_vocab_from_json(&v, &a, (rt_span){ text, strlen(text) }, 0, &notes, &e), RT_OK);
    assert_int_equal(v.add_space_prefix, 1);
    assert_non_null(strstr(notes.data, "Metaspace"));
    /* Where there is no space at the start and no special token inside, the ids are the same. */
    both p = pair_of(from_lists(&v), from_text((rt_span){ text, strlen(text) }));
    compare_text("metaspace", &p, "hello world  a the", 18);
    free_pair(&p);
    rt_free(text);
    json_decref(root);
    rt_str_free(&json);
    rt_str_free(&notes);
    rt_arena_free(&a);
}

/* Merges that a list of scores cannot say. */
static void test_open_merges(void **state)
{
    (void)state;
    static spm s;
    rt_err e = { 0 };
    rt_arena a = { 0 };
    rt_str json = { 0 };
    rt_vocab_spec v;
    make_spm(&s, 1);
    assert_int_equal(rt_vocab_to_json(&s.spec, &json, &e), RT_OK);
    json_t *root = json_loadb(json.data, json.len, 0, NULL);
    json_t *merges = json_object_get(json_object_get(root, "model"), "merges");
    assert_string_equal(json_string_value(json_array_get(merges, 1)), "h e");
    json_array_remove(merges, 1);
    char *text = json_dumps(root, JSON_COMPACT);
    assert_int_equal(rt_vocab_from_json(&v, &a, (rt_span){ text, strlen(text) }, 0, NULL, &e), RT_UNSUPPORTED);
    assert_non_null(strstr(e.text, "'h' and 'e'"));
    rt_free(text);
    json_decref(root);
    rt_str_free(&json);
    rt_arena_free(&a);
}

static void check_listed(const char *name)
{
    gguf_vocab g;
    char path[200];
    snprintf(path, sizeof path, "../shared/data/tokenizers/%s.gguf", name);
    if (gguf_vocab_read(&g, path) < 0) {
        print_message("%s is not present\n", path);
        gguf_vocab_free(&g);
        skip();
    }
    if (strcmp(g.model, "llama") == 0) {
        check_spm(name, &g.spec);
    } else {
        rt_err e = { 0 };
        rt_str json = { 0 };
        rt_arena a = { 0 };
        rt_vocab_spec again;
        assert_int_equal(rt_vocab_to_json(&g.spec, &json, &e), RT_OK);
        both p = pair_of(from_lists(&g.spec), from_text((rt_span){ json.data, json.len }));
        compare(name, &p);
        assert_true(same_hash(&p));
        free_pair(&p);
        assert_int_equal(rt_vocab_from_json(&again, &a, (rt_span){ json.data, json.len }, 0, NULL, &e), RT_OK);
        assert_string_equal(again.pre, g.pre);
        assert_int_equal(again.merge_count, g.spec.merge_count);
        p = pair_of(from_lists(&g.spec), from_lists(&again));
        compare(name, &p);
        assert_true(same_hash(&p));
        free_pair(&p);
        rt_arena_free(&a);
        rt_str_free(&json);
    }
    gguf_vocab_free(&g);
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

/* ---- whole outputs ---- */

static void test_text_for(void **state)
{
    (void)state;
    static spm s;
    rt_err e = { 0 };
    rt_arena a = { 0 };
    rt_model_text t = { .has_vocab = true, .unk = 0, .pad = -1, .eot = -1 }, hf, lists;
    static const char chat[] = "{% for m in messages %}{{ m['content'] }}{{ eos_token }}{% endfor %}";
    make_spm(&s, 1);
    t.vocab = s.spec;
    t.chat_template = (rt_span){ chat, sizeof chat - 1 };
    if (rt_model_text_for(&hf, &t, RT_CONTAINER_HF, SPM_TOKENS, &a, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_non_null(hf.tokenizer_json.data);
    json_t *config = json_loadb(hf.tokenizer_config.data, hf.tokenizer_config.len, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(config, "bos_token")), "<s>");
    assert_string_equal(json_string_value(json_object_get(config, "eos_token")), "</s>");
    assert_string_equal(json_string_value(json_object_get(config, "unk_token")), "<unk>");
    assert_null(json_object_get(config, "pad_token"));
    assert_string_equal(json_string_value(json_object_get(config, "chat_template")), chat);
    json_decref(config);
    /* and back, from the files alone, for a larger embedding */
    hf.has_vocab = false;
    if (rt_model_text_for(&lists, &hf, RT_CONTAINER_GGUF, 400, &a, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_true(lists.has_vocab);
    assert_int_equal(lists.vocab.token_count, 400);
    assert_int_equal(lists.vocab.bos, 1);
    assert_int_equal(lists.vocab.eos, 2);
    assert_int_equal(lists.unk, 0);
    assert_int_equal(lists.pad, -1);
    assert_int_equal(lists.eot, -1); /* the template ends turns with eos */
    assert_int_equal(lists.vocab.types[399], RT_VOCAB_UNUSED);
    /* lists that are too short are filled up, those that are too long refused */
    if (rt_model_text_for(&lists, &t, RT_CONTAINER_APR, 400, &a, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(lists.vocab.token_count, 400);
    assert_int_equal(rt_model_text_for(&lists, &t, RT_CONTAINER_APR, 100, &a, NULL, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "100 rows"));
    /* what lists cannot say is refused for GGUF, and stays a file in APR */
    json_t *falcon = golden("falcon");
    rt_str notes = { 0 };
    char *text = json_dumps(falcon, JSON_COMPACT);
    rt_model_text other = { .tokenizer_json = { text, strlen(text) }, .unk = -1, .pad = -1, .eot = -1 };
    assert_int_equal(rt_model_text_for(&lists, &other, RT_CONTAINER_GGUF, 0, &a, &notes, &e), RT_UNSUPPORTED);
    assert_int_equal(rt_model_text_for(&lists, &other, RT_CONTAINER_APR, 0, &a, &notes, &e), RT_OK);
    assert_false(lists.has_vocab);
    assert_ptr_equal(lists.tokenizer_json.data, text);
    assert_non_null(strstr(notes.data, "Punctuation"));
    rt_str_free(&notes);
    rt_free(text);
    json_decref(falcon);
    /* without a tokenizer nothing is made up */
    rt_model_text none = { .unk = -1, .pad = -1, .eot = -1 };
    assert_int_equal(rt_model_text_for(&lists, &none, RT_CONTAINER_GGUF, 400, &a, NULL, &e), RT_OK);
    assert_false(lists.has_vocab);
    assert_int_equal(rt_model_text_for(&hf, &none, RT_CONTAINER_HF, 400, &a, NULL, &e), RT_OK);
    assert_null(hf.tokenizer_json.data);
    rt_arena_free(&a);
}

/* ---- the byte-level tokenizer ---- */

static void test_bytes(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_arena a = { 0 };
    rt_str json = { 0 }, config = { 0 };
    rt_vocab_spec v;
    rt_tok_ids ids = { 0 };
    assert_int_equal(rt_byte_tokenizer_json(&json, 258, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "259"));
    assert_int_equal(rt_byte_tokenizer_json(&json, 512, &e), RT_OK);
    assert_int_equal(rt_byte_tokenizer_config(&config, &e), RT_OK);
    rt_span text = { json.data, json.len };
    both p = pair_of(from_text(text), from_text(text));
    assert_int_equal(rt_tokenizer_size(p.a), RT_BYTE_TOKENS);
    for (int b = 0; b < 256; b++) { /* every byte that is text by itself */
        char c = (char)b;
        ids.count = 0;
        assert_int_equal(rt_tokenizer_encode(p.a, p.sa, &c, 1, RT_ENCODE_SPECIAL, &ids, &e), RT_OK);
        if (b < 128) assert_true(ids.count == 1 && ids.ids[0] == (uint32_t)b);
        rt_token_info info;
        assert_true(rt_tokenizer_token(p.a, (uint32_t)b, &info));
        assert_int_equal(info.bytes.len, 1);
        assert_int_equal((uint8_t)info.bytes.data[0], b);
    }
    ids.count = 0;
    assert_int_equal(rt_tokenizer_encode(p.a, p.sa, "é<|im_end|>", 12, 0, &ids, &e), RT_OK);
    assert_int_equal(ids.count, 3);
    assert_int_equal(ids.ids[0], 0xC3);
    assert_int_equal(ids.ids[1], 0xA9);
    assert_int_equal(ids.ids[2], 258);
    free_pair(&p);
    /* as lists too */
    assert_int_equal(rt_vocab_from_json(&v, &a, text, 512, NULL, &e), RT_OK);
    assert_string_equal(v.pre, "gpt-2");
    p = pair_of(from_text(text), from_lists(&v));
    compare("bytes", &p);
    free_pair(&p);
    rt_free(ids.ids);
    rt_str_free(&json);
    rt_str_free(&config);
    rt_arena_free(&a);
}

static void test_bytes_template(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_str config = { 0 };
    rt_chat_template *t = NULL;
    rt_jinja_result r = { 0 };
    rt_json_init();
    assert_int_equal(rt_byte_tokenizer_config(&config, &e), RT_OK);
    json_t *root = json_loadb(config.data, config.len, 0, NULL);
    const char *text = json_string_value(json_object_get(root, "chat_template"));
    assert_non_null(text);
    assert_int_equal(rt_chat_template_new(&t, text, strlen(text), &e), RT_OK);
    assert_true(rt_chat_template_has_generation(t));
    json_t *chat = json_loads("[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"U\"},"
                              "{\"role\":\"assistant\",\"content\":\"A\"},{\"role\":\"user\",\"content\":\"V\"},"
                              "{\"role\":\"assistant\",\"content\":\"B\"}]",
                              0, NULL);
    rt_chat_options o = { 0 };
    if (rt_chat_mask(t, chat, &o, &r, &e) < 0) fail_msg("%s", e.text);
    assert_string_equal(r.text.data, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"
                                     "<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n"
                                     "<|im_start|>assistant\nB<|im_end|>\n");
    assert_int_equal(r.n_ranges, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(r.ranges[i].end - r.ranges[i].begin, 11);
        assert_memory_equal(r.text.data + r.ranges[i].begin, i == 0 ? "A<|im_end|>" : "B<|im_end|>", 11);
    }
    o.add_generation_prompt = true;
    assert_int_equal(rt_chat_render(t, chat, &o, &r, &e), RT_OK);
    assert_string_equal(r.text.data + r.text.len - 22, "<|im_start|>assistant\n");
    rt_jinja_result_free(&r);
    rt_chat_template_free(t);
    json_decref(chat);
    json_decref(root);
    rt_str_free(&config);
}

/* ---- memory ---- */

static int64_t allowed = -1;

static void *fail_alloc(void *ctx, size_t bytes, size_t align)
{
    (void)ctx;
    if (allowed == 0) return NULL;
    if (allowed > 0) allowed--;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void fail_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static int there_and_back(rt_span json, const rt_vocab_spec *spec, rt_err *e)
{
    rt_arena a = { 0 };
    rt_str out = { 0 }, notes = { 0 };
    rt_vocab_spec v;
    rt_model_text t = { .tokenizer_json = json, .unk = -1, .pad = -1, .eot = -1 }, made;
    int rc;
    RT_TRY(rt_vocab_from_json(&v, &a, json, 300, &notes, e));
    RT_TRY(rt_vocab_to_json(&v, &out, e));
    RT_TRY(rt_vocab_to_json(spec, &out, e));
    RT_TRY(rt_model_text_for(&made, &t, RT_CONTAINER_GGUF, 300, &a, &notes, e));
    made.tokenizer_json = (rt_span){ 0 };
    RT_TRY(rt_model_text_for(&t, &made, RT_CONTAINER_HF, 300, &a, &notes, e));
    RT_TRY(rt_byte_tokenizer_config(&out, e));
out:
    if (notes.failed && rc == RT_OK) rc = RT_NOMEM;
    rt_str_free(&out);
    rt_str_free(&notes);
    rt_arena_free(&a);
    return rc;
}

static void test_allocations_fail(void **state)
{
    (void)state;
    static spm s;
    static const rt_allocator failing = { fail_alloc, fail_free, NULL };
    rt_str json = { 0 };
    rt_err e = { 0 };
    make_spm(&s, -1);
    assert_int_equal(rt_byte_tokenizer_json(&json, 300, &e), RT_OK);
    char *copy = malloc(json.len);
    memcpy(copy, json.data, json.len);
    rt_span span = { copy, json.len };
    rt_str_free(&json);
    uint64_t live = rt_alloc_live();
    rt_allocator_set(&failing);
    int rc = RT_NOMEM;
    int64_t n = 0;
    /* The first allocations are those of reading JSON, which are many and alike: not each of them is tried. */
    for (; rc != RT_OK; n += n < 200 ? 1 : 7) {
        e = (rt_err){ 0 };
        allowed = n;
        rc = there_and_back(span, &s.spec, &e);
        allowed = -1;
        if (rc != RT_OK && rc != RT_NOMEM) fail_msg("allocation %lld: %d, %s", (long long)n, rc, e.text);
        if (rt_alloc_live() != live) fail_msg("allocation %lld: something is left", (long long)n);
        assert_true(n < 1000000);
    }
    assert_true(n > 100);
    rt_allocator_set(NULL);
    free(copy);
}

int main(void)
{
    rt_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_level),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_many_ids),   cmocka_unit_test(test_scores),
        cmocka_unit_test(test_metaspace),      cmocka_unit_test(test_open_merges),
        cmocka_unit_test(test_listed_gpt2),    cmocka_unit_test(test_listed_llama),
        cmocka_unit_test(test_text_for),       cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_bytes_template), cmocka_unit_test(test_allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
