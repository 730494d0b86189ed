/* test_model_text.c - what a model has for text, by every way to name it: directories, a tokenizer.json, the cache,
 * GGUF and APR; special tokens and their ids; the token that ends a turn. */
#include "apr_build.h"
#include "format_case.h"

#include "text/data/model_text.h"
#include "text/tokenizer/vocab_convert.h"

#include <jansson.h>

static rt_str byte_json, byte_config;

static void put_str(const char *name, const rt_str *s) { put_file(name, s->data, s->len); }

static rt_text_source *must_open(const char *spec, const rt_hub_env *env)
{
    rt_err e = { 0 };
    rt_text_source *s = NULL;
    if (rt_text_open(&s, spec, env, &e) < 0) fail_msg("%s: %s", spec, e.text);
    return s;
}

static const char *special(const rt_text_source *s, const char *key)
{
    return json_string_value(json_object_get(s->special, key));
}

static void encode_is(const rt_text_source *s, const char *text, const uint32_t *want, uint32_t count)
{
    rt_err e = { 0 };
    rt_tok_ids ids = { 0 };
    rt_tok_scratch *scratch = NULL;
    assert_int_equal(rt_tok_scratch_new(&scratch, s->tokenizer, &e), RT_OK);
    assert_int_equal(rt_tokenizer_encode(s->tokenizer, scratch, text, strlen(text), 0, &ids, &e), RT_OK);
    assert_int_equal(ids.count, count);
    assert_memory_equal(ids.ids, want, count * sizeof *want);
    rt_free(ids.ids);
    rt_tok_scratch_free(scratch);
}

/* ---- ways to name it ---- */

static void check_bytes_model(rt_text_source *s)
{
    static const uint32_t want[] = { 'h', 'i', 258 };
    encode_is(s, "hi<|im_end|>", want, 3);
    assert_non_null(s->chat);
    assert_int_equal(s->chat_err.status, RT_OK);
    assert_true(rt_chat_template_has_generation(s->chat));
    assert_string_equal(special(s, "eos_token"), "<|im_end|>");
    assert_string_equal(special(s, "pad_token"), "<|endoftext|>");
    assert_null(special(s, "bos_token"));
    assert_int_equal(s->eos, 258);
    assert_int_equal(s->pad, 256);
    assert_int_equal(s->bos, -1);
    assert_int_equal(s->unk, -1);
    assert_int_equal(s->end_of_turn, 258);
    assert_string_equal(s->end_of_turn_text, "<|im_end|>");
    rt_text_close(s);
}

static void test_ways(void **state)
{
    (void)state;
    rt_hub_env env = { .hf_hub_cache = test_dir };
    put_str("dir/tokenizer.json", &byte_json);
    put_str("dir/tokenizer_config.json", &byte_config);
    check_bytes_model(must_open(in_dir("dir"), NULL));
    check_bytes_model(must_open(in_dir("dir/tokenizer.json"), NULL));
    /* a config.json of an unknown family does no harm to text */
    put_text("dir/config.json", "{\"model_type\":\"unheard_of\"}");
    check_bytes_model(must_open(in_dir("dir"), NULL));
    put_text("models--org--name/refs/main", "0123456789abcdef0123456789abcdef01234567");
    put_str("models--org--name/snapshots/0123456789abcdef0123456789abcdef01234567/tokenizer.json", &byte_json);
    put_str("models--org--name/snapshots/0123456789abcdef0123456789abcdef01234567/tokenizer_config.json", &byte_config);
    check_bytes_model(must_open("org/name", &env));
    /* JSON under another name, alone */
    put_str("alone/tok", &byte_json);
    rt_text_source *s = must_open(in_dir("alone/tok"), NULL);
    assert_null(s->chat);
    assert_int_equal(s->eos, -1);
    assert_int_equal(s->end_of_turn, -1);
    assert_null(s->end_of_turn_text);
    assert_int_equal(json_object_size(s->special), 0);
    rt_text_close(s);
}

static void open_fails(const char *spec, int status, const char *words)
{
    rt_err e = { 0 };
    rt_text_source *s = NULL;
    int rc = rt_text_open(&s, spec, NULL, &e);
    if (rc != status) fail_msg("%s: status %d, expected %d: %s", spec, rc, status, e.text);
    assert_null(s);
    assert_says(&e, words);
}

static void test_open_fails(void **state)
{
    (void)state;
    open_fails(in_dir("nothing"), RT_NOT_FOUND, "nothing");
    put_text("broken/tokenizer.json", "{\"model\":");
    open_fails(in_dir("broken"), RT_FORMAT, "broken|tokenizer.json|line 1");
    put_str("config/tokenizer.json", &byte_json);
    put_text("config/tokenizer_config.json", "{\n\"eos_token\":}");
    open_fails(in_dir("config"), RT_FORMAT, "tokenizer_config.json|line 2");
    put_text("other.json", "{\"model\":{\"type\":\"Unigram\"}}");
    open_fails(in_dir("other.json"), RT_UNSUPPORTED, "other.json|Unigram");
    put_text("data.bin", "neither this nor that");
    open_fails(in_dir("data.bin"), RT_FORMAT, "data.bin");
}

static void test_no_tokenizer(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_tokenizer *t = NULL;
    rt_side_file side = { .name = "tokenizer.model", .text = { "x", 1 } };
    rt_model_text none = { .unk = -1, .pad = -1, .eot = -1 };
    assert_int_equal(rt_model_tokenizer(&t, &none, &e), RT_NOT_FOUND);
    assert_says(&e, "tokenizer.json|tokenizer.ggml.tokens|tokenizer.vocabulary");
    none.side = &side;
    none.side_count = 1;
    assert_int_equal(rt_model_tokenizer(&t, &none, &e), RT_NOT_FOUND);
    assert_says(&e, "tokenizer.model|save_pretrained");
    assert_null(t);
    put_text("empty/config.json", "{}");
    open_fails(in_dir("empty"), RT_FORMAT, "config.json");
}

/* ---- special tokens ---- */

static void test_special_tokens(void **state)
{
    (void)state;
    put_str("sp/tokenizer.json", &byte_json);
    put_text("sp/tokenizer_config.json",
             "{\"bos_token\":{\"__type\":\"AddedToken\",\"content\":\"<|im_start|>\",\"lstrip\":false},"
             "\"eos_token\":null,\"unk_token\":\"<gone>\",\"pad_token\":\"\","
             "\"additional_special_tokens\":[\"<|im_start|>\",{\"content\":\"<|im_end|>\"}],"
             "\"extra_special_tokens\":{\"image_token\":\"<|x|>\",\"messages\":\"no\"}}");
    put_text("sp/special_tokens_map.json",
             "{\"bos_token\":\"<|endoftext|>\",\"eos_token\":{\"content\":\"<|endoftext|>\"}}");
    put_text("sp/generation_config.json", "{\"eos_token_id\":[258,256]}");
    put_text("sp/chat_template.jinja", "{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}");
    rt_text_source *s = must_open(in_dir("sp"), NULL);
    assert_string_equal(special(s, "bos_token"), "<|im_start|>"); /* the config's, not the map's */
    assert_string_equal(special(s, "eos_token"), "<|endoftext|>");
    assert_string_equal(special(s, "unk_token"), "<gone>");
    assert_string_equal(special(s, "image_token"), "<|x|>");
    assert_null(special(s, "pad_token"));
    assert_null(special(s, "messages"));
    const json_t *more = json_object_get(s->special, "additional_special_tokens");
    assert_int_equal(json_array_size(more), 2);
    assert_string_equal(json_string_value(json_array_get(more, 1)), "<|im_end|>");
    assert_int_equal(s->bos, 257);
    assert_int_equal(s->eos, 256);
    assert_int_equal(s->unk, -1);          /* named, but not in the vocabulary */
    assert_int_equal(s->end_of_turn, 256); /* the template puts nothing there: eos */
    rt_text_close(s);
    /* without a word about eos, what generation stops at */
    put_text("sp/special_tokens_map.json", "{}");
    s = must_open(in_dir("sp"), NULL);
    assert_int_equal(s->eos, 258);
    rt_text_close(s);
}

/* ---- the end of a turn ---- */

static int64_t end_with(const char *template, const char **text)
{
    static char kept[64];
    rt_err e = { 0 };
    rt_text_source *s = NULL;
    rt_model_text t = { .tokenizer_json = { byte_json.data, byte_json.len },
                        .tokenizer_config = { "{\"eos_token\":\"<|endoftext|>\"}", 29 },
                        .chat_template = { template, strlen(template) },
                        .unk = -1,
                        .pad = -1,
                        .eot = -1 };
    if (rt_text_from_model(&s, &t, NULL, "here", &e) < 0) fail_msg("%s", e.text);
    int64_t id = s->end_of_turn;
    snprintf(kept, sizeof kept, "%s", s->end_of_turn_text ? s->end_of_turn_text : "");
    if (text) *text = kept;
    rt_text_close(s);
    return id;
}

static void test_end_of_turn(void **state)
{
    (void)state;
    const char *text;
    assert_int_equal(
        end_with("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}", &text),
        258);
    assert_string_equal(text, "<|im_end|>");
    /* white space before it, a trimmed message, eos by name */
    assert_int_equal(end_with("{% for m in messages %}{{ m.content | trim }} \n{{ eos_token }}{% endfor %}", NULL),
                     256);
    /* nothing behind it; other text behind it; a template that refuses; that leaves the words out: eos */
    assert_int_equal(end_with("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}", NULL), 256);
    assert_int_equal(end_with("{% for m in messages %}{{ m.content }}END<|im_end|>{% endfor %}", NULL), 256);
    assert_int_equal(end_with("{{ raise_exception('no') }}", NULL), 256);
    assert_int_equal(end_with("{{ messages | length }}<|im_end|>", NULL), 256);
}

static void test_bad_template(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_text_source *s = NULL;
    rt_model_text t = { .tokenizer_json = { byte_json.data, byte_json.len },
                        .chat_template = { "{% if %}", 8 },
                        .unk = -1,
                        .pad = -1,
                        .eot = -1 };
    /* text can be tokenized all the same; who wants the template is told */
    assert_int_equal(rt_text_from_model(&s, &t, NULL, "here", &e), RT_OK);
    assert_null(s->chat);
    assert_true(s->chat_err.status < 0 && s->chat_err.text[0]);
    rt_text_close(s);
}

/* ---- vocabularies in metadata ---- */

static void test_gguf(void **state)
{
    (void)state;
    static const char path[] = "../shared/data/tokenizers/ggml-vocab-llama-spm.gguf";
    static const uint32_t want[] = { 15043 };
    if (!rt_path_exists(path)) {
        print_message("%s is not present\n", path);
        skip();
    }
    rt_text_source *s = must_open(path, NULL);
    encode_is(s, "Hello", want, 1);
    assert_non_null(s->model);
    assert_int_equal(s->bos, 1);
    assert_int_equal(s->eos, 2);
    assert_string_equal(special(s, "bos_token"), "<s>");
    assert_string_equal(special(s, "eos_token"), "</s>");
    assert_int_equal(s->end_of_turn, 2);
    rt_text_close(s);
}

static void test_apr(void **state)
{
    (void)state;
    static apr_build file;
    static const uint32_t want[] = { 2, 3 };
    apr_make(
        &file,
        "{\"architecture\":\"qwen2\",\"hidden_size\":8,\"num_layers\":1,\"num_heads\":2,\"vocab_size\":5,"
        "\"intermediate_size\":16,\"rope_theta\":1e4,\"rms_norm_eps\":1e-6,\"chat_template\":\"{% for m in "
        "messages %}{{ m.content }}<t>{% endfor %}\",\"tokenizer.vocabulary\":[\"a\",\"b\",\"ab\",\"<s>\",\"<t>\"],"
        "\"tokenizer.merges\":[\"a b\"],\"tokenizer.eos_token_id\":3,\"retort.vocab\":{\"model\":\"gpt2\","
        "\"pre\":\"gpt-2\",\"types\":[1,1,1,3,3],\"add_bos\":0,\"add_eos\":0,\"pad\":4,\"eot\":3}}",
        NULL, 0);
    put_file("m.apr", file.bytes, file.size);
    rt_text_source *s = must_open(in_dir("m.apr"), NULL);
    encode_is(s, "ab<s>", want, 2);
    assert_int_equal(s->eos, 3);
    assert_int_equal(s->pad, 4);
    assert_string_equal(special(s, "pad_token"), "<t>");
    assert_int_equal(s->end_of_turn, 4); /* the template's, before the key's */
    rt_text_close(s);
}

/* ---- memory ---- */

static int open_close(void *ctx, rt_err *e)
{
    rt_text_source *s = NULL;
    int rc = rt_text_open(&s, ctx, NULL, e);
    rt_text_close(s);
    return rc;
}

static void test_allocations_fail(void **state)
{
    (void)state;
    static char path[512];
    rt_str_free(&byte_json);
    rt_str_free(&byte_config);
    put_text("oom/tokenizer.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a "
                                   "b\"]},\"added_tokens\":[{\"id\":3,\"content\":\"<e>\",\"single_word\":false,"
                                   "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}]}");
    put_text("oom/tokenizer_config.json",
             "{\"eos_token\":\"<e>\",\"additional_special_tokens\":[\"<e>\"],"
             "\"chat_template\":\"{% for m in messages %}{{ m.content }}<e>{% endfor %}\"}");
    put_text("oom/special_tokens_map.json", "{\"pad_token\":\"<e>\"}");
    put_text("oom/generation_config.json", "{\"eos_token_id\":3}");
    snprintf(path, sizeof path, "%s", in_dir("oom"));
    fail_each(open_close, path, 0);
}

static int set_up(void **state)
{
    rt_err e = { 0 };
    rt_json_init();
    if (rt_byte_tokenizer_json(&byte_json, 512, &e) < 0 || rt_byte_tokenizer_config(&byte_config, &e) < 0) return -1;
    return make_test_dir(state);
}

static int tear_down(void **state)
{
    rt_str_free(&byte_json);
    rt_str_free(&byte_config);
    return remove_test_dir(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_open_fails),
        cmocka_unit_test(test_no_tokenizer),
        cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_end_of_turn),
        cmocka_unit_test(test_bad_template),
        cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_apr),
        cmocka_unit_test(test_allocations_fail), /* last: it wants no memory in use */
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
