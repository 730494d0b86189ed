/* test_model_file.c - whatever a user may name as a model: folders with one file or shards, lone files, names of the
 * local cache; what is left out of the tensors, and every way in which files may not fit together. */
#include "format_case.h"

#include "format/model_file.h"

#define CONFIG                                                                                                         \
    "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":4,\"num_attention_heads\":2,"                   \
    "\"num_key_value_heads\":1,\"intermediate_size\":6,\"vocab_size\":5,\"tie_word_embeddings\":%s}"

/* ---- making files ---- */

typedef struct entry {
    const char *name, *shape; /* "5,4" */
    float first;              /* values count up from it */
    bool bf16;
} entry;

static const entry layer_entries[] = {
    { "model.embed_tokens.weight", "5,4", 1, false },
    { "model.layers.0.input_layernorm.weight", "4", 2, false },
    { "model.layers.0.self_attn.q_proj.weight", "4,4", 3, false },
    { "model.layers.0.self_attn.k_proj.weight", "2,4", 4, false },
    { "model.layers.0.self_attn.v_proj.weight", "2,4", 5, false },
    { "model.layers.0.self_attn.o_proj.weight", "4,4", 6, false },
    { "model.layers.0.post_attention_layernorm.weight", "4", 7, false },
    { "model.layers.0.mlp.gate_proj.weight", "6,4", 8, false },
    { "model.layers.0.mlp.up_proj.weight", "6,4", 9, false },
    { "model.layers.0.mlp.down_proj.weight", "4,6", 10, false },
    { "model.norm.weight", "4", 11, false },
};
enum { LAYER_ENTRIES = sizeof layer_entries / sizeof layer_entries[0] };

/* A safetensors file of these entries; extra: more text for its header, such as metadata. */
static void put_safetensors(const char *path, const entry *t, size_t n, const char *extra)
{
    rt_str head = { 0 }, data = { 0 };
    rt_str_printf(&head, "{%s", extra ? extra : "");
    for (size_t i = 0; i < n; i++) {
        unsigned rows = 1, cols = 1;
        if (sscanf(t[i].shape, "%u,%u", &rows, &cols) < 2) cols = 1;
        size_t begin = data.len;
        for (unsigned k = 0; k < rows * cols; k++) {
            float v = t[i].first + (float)k;
            uint16_t half = rt_bf16_from_f32(v);
            rt_str_append_n(&data, t[i].bf16 ? (char *)&half : (char *)&v, t[i].bf16 ? 2 : 4);
        }
        rt_str_printf(&head, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                      head.len > 1 ? "," : "", t[i].name, t[i].bf16 ? "BF16" : "F32", t[i].shape, begin, data.len);
    }
    rt_str_append(&head, "}");
    rt_str file = { 0 };
    uint64_t len = head.len;
    rt_str_append_n(&file, (char *)&len, 8);
    rt_str_append_n(&file, head.data, head.len);
    if (data.len) rt_str_append_n(&file, data.data, data.len);
    put_file(path, file.data, file.len);
    rt_str_free(&file);
    rt_str_free(&head);
    rt_str_free(&data);
}

static void put_config(const char *path, bool tied)
{
    char text[400];
    snprintf(text, sizeof text, CONFIG, tied ? "true" : "false");
    put_text(path, text);
}

/* All entries of the tied model, and one more. */
static void put_with(const char *path, entry more)
{
    entry all[LAYER_ENTRIES + 1];
    memcpy(all, layer_entries, sizeof layer_entries);
    all[LAYER_ENTRIES] = more;
    put_safetensors(path, all, LAYER_ENTRIES + 1, NULL);
}

static rt_model_file *opened(const char *spec)
{
    rt_err e = { 0 };
    rt_model_file *m;
    rt_hub_env env = { .hf_home = test_dir };
    if (rt_model_file_open(&m, spec, &env, &e) < 0) fail_msg("%s: %s", spec, e.text);
    return m;
}

static void refused(const char *spec, int status, const char *words)
{
    rt_err e = { 0 };
    rt_model_file *m;
    rt_hub_env env = { .hf_home = test_dir };
    int rc = rt_model_file_open(&m, spec, &env, &e);
    if (rc != status) fail_msg("%s: status %d, not %d: %s", spec, rc, status, e.text);
    assert_null(m);
    assert_says(&e, words);
}

static void check_refuses(const char *spec, int status, const char *words)
{
    rt_err e = { 0 };
    rt_model_file *m = opened(spec);
    int rc = rt_model_file_check(m, &e);
    if (rc != status) fail_msg("%s: status %d, not %d: %s", spec, rc, status, e.text);
    assert_says(&e, words);
    rt_model_file_close(m);
}

static bool has_note(const rt_model_file *m, const char *words)
{
    for (uint32_t i = 0; i < m->note_count; i++) {
        if (strstr(m->notes[i], words)) return true;
    }
    return false;
}

/* ---- folders ---- */

static void a_folder_with_one_file(void **state)
{
    (void)state;
    rt_err e = { 0 };
    put_config("my-model/config.json", true);
    put_safetensors("my-model/model.safetensors", layer_entries, LAYER_ENTRIES, NULL);
    put_text("my-model/tokenizer.json", "{\"x\":1}");
    put_text("my-model/generation_config.json", "{}");
    put_text("my-model/vocab.json", "{}");
    put_text("my-model/merges.txt", "");
    put_text("my-model/tokenizer_config.json", "{\"model_max_length\":1000000000000000019884624838656,"
                                               "\"chat_template\":\"{{ a }}\"}");
    rt_model_file *m = opened(in_dir("my-model/"));
    assert_int_equal(m->container, RT_CONTAINER_HF);
    assert_string_equal(m->name, "my-model");
    assert_true(m->has_config && m->config.layers == 1 && m->config.tied);
    assert_int_equal(m->tensor_count, LAYER_ENTRIES);
    for (uint32_t i = 1; i < m->tensor_count; i++) assert_true(strcmp(m->tensors[i - 1].name, m->tensors[i].name) < 0);
    if (rt_model_file_check(m, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_model_file_parameters(m), 20 + 4 + 16 + 8 + 8 + 16 + 4 + 24 + 24 + 24 + 4);
    const rt_tensor *t = rt_model_file_find(m, "model.layers.0.mlp.down_proj.weight");
    assert_non_null(t);
    assert_int_equal(t->role, RT_ROLE_DOWN);
    float row[6];
    rt_tensor_to_f32(row, t, 1, 1);
    assert_true(row[0] == 16 && row[5] == 21);
    assert_null(rt_model_file_find(m, "lm_head.weight"));
    assert_int_equal(m->text.tokenizer_json.len, 7);
    assert_string_equal(m->text.chat_template.data, "{{ a }}");
    assert_non_null(m->text.generation_config.data);
    assert_int_equal(m->text.side_count, 2);
    assert_string_equal(m->text.side[1].name, "merges.txt");
    assert_true(m->text.side[1].text.data && m->text.side[1].text.len == 0);
    assert_true(m->text.unk == -1 && m->text.pad == -1 && m->text.eot == -1 && !m->text.has_vocab);
    assert_int_equal(m->note_count, 0);
    rt_model_file_close(m);
    rt_model_file_close(NULL);
}

static void chat_templates(void **state)
{
    (void)state;
    put_config("chat/config.json", true);
    put_safetensors("chat/weights.safetensors", layer_entries, LAYER_ENTRIES, NULL); /* any one name will do */
    put_text("chat/tokenizer_config.json",
             "{\"chat_template\":[{\"name\":\"tools\",\"template\":\"T\"},{\"name\":\"default\",\"template\":\"D\"}]}");
    rt_model_file *m = opened(in_dir("chat"));
    assert_string_equal(m->text.chat_template.data, "D");
    rt_model_file_close(m);
    put_text("chat/tokenizer_config.json", "{\"chat_template\":[{\"name\":\"tools\",\"template\":\"T\"}]}");
    m = opened(in_dir("chat"));
    assert_null(m->text.chat_template.data);
    assert_true(has_note(m, "chat template"));
    rt_model_file_close(m);
    put_text("chat/tokenizer_config.json", "{\"chat_template\":5}");
    refused(in_dir("chat"), RT_FORMAT, "tokenizer_config.json|chat_template");
    put_text("chat/tokenizer_config.json", "{\"chat_template\":");
    refused(in_dir("chat"), RT_FORMAT, "tokenizer_config.json|line 1");
    put_text("chat/chat_template.jinja", "J"); /* it wins, and the other is not looked at */
    m = opened(in_dir("chat"));
    assert_string_equal(m->text.chat_template.data, "J");
    rt_model_file_close(m);
}

static void put_index(const char *folder, const char *first_file, const char *second_file, const char *more)
{
    rt_str s = { 0 };
    char path[100];
    rt_str_append(&s, "{\"metadata\":{\"total_size\":1},\"weight_map\":{");
    for (size_t i = 0; i < LAYER_ENTRIES; i++)
        rt_str_printf(&s, "%s\"%s\":\"%s\"", i ? "," : "", layer_entries[i].name, i < 5 ? first_file : second_file);
    rt_str_printf(&s, "%s}}", more);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    put_file(path, s.data, s.len);
    rt_str_free(&s);
}

static void shards(void **state)
{
    (void)state;
    rt_err e = { 0 };
    put_config("shards/config.json", true);
    put_safetensors("shards/a.safetensors", layer_entries, 5, NULL);
    put_safetensors("shards/b.safetensors", layer_entries + 5, LAYER_ENTRIES - 5, NULL);
    refused(in_dir("shards"), RT_INVALID, "2 safetensors|a.safetensors|index");
    put_index("shards", "a.safetensors", "b.safetensors", "");
    rt_model_file *m = opened(in_dir("shards"));
    assert_int_equal(m->part_count, 2);
    if (rt_model_file_check(m, &e) < 0) fail_msg("%s", e.text);
    assert_true(rt_model_file_find(m, "model.norm.weight")->file == 1);
    rt_model_file_close(m);
    put_index("shards", "a.safetensors", "c.safetensors", "");
    refused(in_dir("shards"), RT_NOT_FOUND, "c.safetensors|missing");
    put_index("shards", "b.safetensors", "a.safetensors", "");
    refused(in_dir("shards"), RT_FORMAT, "is in b.safetensors|says it is in a.safetensors");
    put_index("shards", "a.safetensors", "b.safetensors", ",\"extra\":\"b.safetensors\"");
    refused(in_dir("shards"), RT_FORMAT, "'extra'|b.safetensors|does not hold it");
    put_index("shards", "a.safetensors", "../b.safetensors", "");
    refused(in_dir("shards"), RT_FORMAT, "plain file name");
    put_text("shards/model.safetensors.index.json", "{}");
    refused(in_dir("shards"), RT_FORMAT, "weight_map");
    put_text("shards/model.safetensors.index.json", "[1");
    refused(in_dir("shards"), RT_FORMAT, "index.json|line 1");
    put_index("shards", "a.safetensors", "b.safetensors", "");
    put_with("shards/b.safetensors", (entry){ "more", "2", 0, false });
    refused(in_dir("shards"), RT_FORMAT, "index.json");
    entry many[LAYER_ENTRIES - 5 + 1];
    memcpy(many, layer_entries + 5, (LAYER_ENTRIES - 5) * sizeof *many);
    many[LAYER_ENTRIES - 5] = (entry){ "more", "2", 0, false };
    put_safetensors("shards/b.safetensors", many, LAYER_ENTRIES - 4, NULL);
    refused(in_dir("shards"), RT_FORMAT, "'more'|b.safetensors|does not name it");
}

static void folders_that_are_no_models(void **state)
{
    (void)state;
    put_text("none/readme.txt", "x");
    refused(in_dir("none"), RT_NOT_FOUND, "none|safetensors");
    put_text("torch/config.json", "{\"model_type\":\"llama\"}");
    put_text("torch/pytorch_model.bin", "x");
    refused(in_dir("torch"), RT_UNSUPPORTED, "pytorch_model.bin|safetensors|save_pretrained");
    put_text("gg/model-q4.gguf", "x");
    refused(in_dir("gg"), RT_NOT_FOUND, "model-q4.gguf|name that file");
    put_safetensors("noconf/model.safetensors", layer_entries, LAYER_ENTRIES, NULL);
    refused(in_dir("noconf"), RT_NOT_FOUND, "noconf|config.json");
    put_config("lora/config.json", true);
    put_text("lora/adapter_config.json", "{}");
    put_safetensors("lora/adapter_model.safetensors", layer_entries, 1, NULL);
    refused(in_dir("lora"), RT_UNSUPPORTED, "lora/adapter_config.json|type (none)");
    put_text("badconf/config.json", "{\"model_type\":\"gpt2\"}");
    refused(in_dir("badconf"), RT_UNSUPPORTED, "badconf/config.json|gpt2");
    put_config("empty/config.json", true);
    refused(in_dir("empty"), RT_NOT_FOUND, "no weights");
}

/* ---- lone files ---- */

static void lone_files(void **state)
{
    (void)state;
    rt_err e = { 0 };
    put_safetensors("lone.v1.safetensors", layer_entries, LAYER_ENTRIES, NULL);
    rt_model_file *m = opened(in_dir("lone.v1.safetensors"));
    assert_int_equal(m->container, RT_CONTAINER_SAFETENSORS);
    assert_string_equal(m->name, "lone.v1");
    assert_false(m->has_config);
    assert_int_equal(rt_model_file_check(m, &e), RT_INVALID);
    assert_says(&e, "lone.v1.safetensors|config.json");
    rt_model_file_close(m);
    /* The configuration beside it, or its own, which is nearer. */
    put_safetensors("beside/w.safetensors", layer_entries, LAYER_ENTRIES, NULL);
    put_config("beside/config.json", true);
    put_text("beside/tokenizer.json", "{}");
    m = opened(in_dir("beside/w.safetensors"));
    assert_true(m->has_config && m->text.tokenizer_json.data);
    assert_int_equal(rt_model_file_check(m, &e), RT_OK);
    rt_model_file_close(m);
    put_safetensors("beside/w.safetensors", layer_entries, LAYER_ENTRIES,
                    "\"__metadata__\":{\"retort.config\":\"{\\\"model_type\\\":\\\"qwen3\\\"}\"}");
    m = opened(in_dir("beside/w.safetensors"));
    assert_true(m->has_config && m->config.family == rt_family_find("qwen3"));
    rt_model_file_close(m);
    put_text("beside/config.json", "{");
    put_safetensors("beside/w.safetensors", layer_entries, LAYER_ENTRIES, NULL);
    refused(in_dir("beside/w.safetensors"), RT_FORMAT, "beside/config.json|line 1");
}

static void files_that_are_no_models(void **state)
{
    (void)state;
    put_text("a.bin", "PK\3\4zip");
    refused(in_dir("a.bin"), RT_UNSUPPORTED, "a.bin|PyTorch|safetensors");
    put_text("b.json", "{\"a\":1}");
    refused(in_dir("b.json"), RT_FORMAT, "b.json|JSON|folder");
    put_text("c", "");
    refused(in_dir("c"), RT_FORMAT, "empty");
    put_text("d.gguf", "hello world, this is no model at all");
    refused(in_dir("d.gguf"), RT_FORMAT, "d.gguf|neither a safetensors");
    put_text("e.safetensors", "GGUF");
    refused(in_dir("e.safetensors"), RT_FORMAT, "e.safetensors");
    put_text("f.apr", "APRN and more");
    refused(in_dir("f.apr"), RT_UNSUPPORTED, "f.apr|APR");
}

/* ---- what is left out ---- */

static void a_tied_head_is_left_out(void **state)
{
    (void)state;
    rt_err e = { 0 };
    static const struct {
        entry head;
        const char *note;
    } cases[] = { { { "lm_head.weight", "5,4", 1, false }, "equal to it" },
                  { { "lm_head.weight", "5,4", 1, true }, "equal to it" }, /* the same values in another type */
                  { { "lm_head.weight", "5,4", 2, false }, "values differ" },
                  { { "lm_head.weight", "5,4", 2, true }, "values differ" },
                  { { "lm_head.weight", "4,4", 1, false }, "values differ" } };
    put_config("tied/config.json", true);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_with("tied/model.safetensors", cases[i].head);
        rt_model_file *m = opened(in_dir("tied"));
        assert_null(rt_model_file_find(m, "lm_head.weight"));
        if (!has_note(m, cases[i].note) || !has_note(m, "lm_head.weight")) fail_msg("case %zu: %s", i, m->notes[0]);
        if (rt_model_file_check(m, &e) < 0) fail_msg("%s", e.text);
        rt_model_file_close(m);
    }
    put_config("tied/config.json", false);
    put_with("tied/model.safetensors", cases[0].head);
    rt_model_file *m = opened(in_dir("tied"));
    assert_non_null(rt_model_file_find(m, "lm_head.weight"));
    assert_int_equal(m->note_count, 0);
    assert_int_equal(rt_model_file_check(m, &e), RT_OK);
    rt_model_file_close(m);
}

static void rope_frequencies_are_left_out(void **state)
{
    (void)state;
    rt_err e = { 0 };
    put_config("inv/config.json", true);
    put_with("inv/model.safetensors", (entry){ "model.layers.0.self_attn.rotary_emb.inv_freq", "1", 1, false });
    rt_model_file *m = opened(in_dir("inv"));
    assert_int_equal(m->tensor_count, LAYER_ENTRIES);
    assert_true(has_note(m, "left out 1 tensors *.rotary_emb.inv_freq"));
    assert_int_equal(rt_model_file_check(m, &e), RT_OK);
    rt_model_file_close(m);
}

static void tensors_that_do_not_fit(void **state)
{
    (void)state;
    entry t[LAYER_ENTRIES];
    put_config("misfit/config.json", false);
    put_safetensors("misfit/model.safetensors", layer_entries, LAYER_ENTRIES, NULL);
    check_refuses(in_dir("misfit"), RT_FORMAT, "misfit|'lm_head.weight' is missing");
    put_config("misfit/config.json", true);
    put_with("misfit/model.safetensors", (entry){ "model.layers.0.self_attn.q_proj.bias", "4", 1, false });
    check_refuses(in_dir("misfit"), RT_FORMAT, "q_proj.bias|not one of a llama");
    put_with("misfit/model.safetensors", (entry){ "model.layers.1.mlp.up_proj.weight", "6,4", 1, false });
    check_refuses(in_dir("misfit"), RT_FORMAT, "model.layers.1.mlp.up_proj.weight|1 layers");
    put_with("misfit/model.safetensors", (entry){ "vision.weight", "6,4", 1, false });
    check_refuses(in_dir("misfit"), RT_FORMAT, "vision.weight");
    memcpy(t, layer_entries, sizeof t);
    t[2].shape = "4,5";
    put_safetensors("misfit/model.safetensors", t, LAYER_ENTRIES, NULL);
    check_refuses(in_dir("misfit"), RT_FORMAT, "q_proj.weight|[4, 5]|[4, 4]");
    t[2] = layer_entries[2];
    t[1].shape = "4,1";
    put_safetensors("misfit/model.safetensors", t, LAYER_ENTRIES, NULL);
    check_refuses(in_dir("misfit"), RT_FORMAT, "input_layernorm.weight|[4, 1]|[4]");
    /* Two spellings of one tensor. */
    put_with("misfit/model.safetensors", (entry){ "norm.weight", "4", 1, false });
    refused(in_dir("misfit"), RT_FORMAT, "model.norm.weight|twice");
}

/* ---- names ---- */

/* What config.json says it was loaded from, where that is a name on the hub, and the folder's. */
static void names_in_the_configuration(void **state)
{
    (void)state;
    static const struct {
        const char *said, *hub;
    } cases[] = { { "\"org/said-1.5B\"", "org/said-1.5B" },
                  { "\"https://huggingface.co/org/said-1.5B\"", "org/said-1.5B" },
                  { "\"org/what-it-was-trained-from\"", NULL },
                  { "\"/home/me/org/said-1.5B\"", NULL },
                  { "\"./org/said-1.5B\"", NULL },
                  { "\"said-1.5B\"", NULL },
                  { "\"org/said-1.5B@main\"", NULL },
                  { "\"\"", NULL },
                  { "7", NULL } };
    put_safetensors("said-1.5B/model.safetensors", layer_entries, LAYER_ENTRIES, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[500];
        snprintf(text, sizeof text, CONFIG, "true");
        snprintf(text + strlen(text) - 1, 90, ",\"_name_or_path\":%s}", cases[i].said);
        put_text("said-1.5B/config.json", text);
        rt_model_file *m = opened(in_dir("said-1.5B/"));
        assert_string_equal(m->name, "said-1.5B");
        assert_string_equal(m->hub ? m->hub : "none", cases[i].hub ? cases[i].hub : "none");
        rt_model_file_close(m);
    }
}

static void names_of_the_cache(void **state)
{
    (void)state;
    put_config("hub/models--org--m/snapshots/s1/config.json", true);
    put_safetensors("hub/models--org--m/snapshots/s1/model.safetensors", layer_entries, LAYER_ENTRIES, NULL);
    rt_model_file *m = opened("org/m");
    assert_string_equal(m->name, "org/m");
    assert_string_equal(m->spec, "org/m");
    assert_true(rt_path_ends(m->path, "hub/models--org--m/snapshots/s1"));
    rt_model_file_close(m);
    m = opened("org/m@s1");
    assert_string_equal(m->name, "org/m");
    assert_string_equal(m->hub, "org/m");
    rt_model_file_close(m);
    refused("org/absent", RT_NOT_FOUND,
            "'org/absent' is neither a file nor a folder|local Hugging Face cache|hf download");
    refused("absent", RT_NOT_FOUND, "'absent'|neither a file nor a folder|org/name");
    refused("/a/b/c", RT_NOT_FOUND, "'/a/b/c'|neither|org/name");
    refused("./absent.gguf", RT_NOT_FOUND, "absent.gguf");
    refused("", RT_NOT_FOUND, "neither");
}

static void container_names(void **state)
{
    (void)state;
    for (int i = 0; i <= RT_CONTAINER_APR; i++) {
        rt_container c;
        assert_true(rt_container_parse(rt_container_name((rt_container)i), &c));
        assert_int_equal(c, i);
    }
    rt_container c;
    assert_false(rt_container_parse("onnx", &c));
}

/* ---- memory ---- */

static int open_and_check(void *ctx, rt_err *e)
{
    rt_model_file *m;
    rt_hub_env env = { .hf_home = test_dir };
    int rc = rt_model_file_open(&m, ctx, &env, e);
    if (rc == RT_OK) rc = rt_model_file_check(m, e);
    rt_model_file_close(m);
    return rc;
}

static void out_of_memory(void **state)
{
    (void)state;
    char one[400], two[400];
    put_config("oom/config.json", true);
    put_with("oom/model.safetensors", (entry){ "lm_head.weight", "5,4", 1, true });
    put_text("oom/tokenizer_config.json", "{\"chat_template\":\"x\"}");
    put_text("oom/tokenizer.json", "{}");
    put_config("hub/models--org--oom/snapshots/s1/config.json", true);
    put_safetensors("hub/models--org--oom/snapshots/s1/a.safetensors", layer_entries, 5, NULL);
    put_safetensors("hub/models--org--oom/snapshots/s1/b.safetensors", layer_entries + 5, LAYER_ENTRIES - 5, NULL);
    put_index("hub/models--org--oom/snapshots/s1", "a.safetensors", "b.safetensors", "");
    snprintf(one, sizeof one, "%s", in_dir("oom"));
    snprintf(two, sizeof two, "org/oom");
    fail_each(open_and_check, one, 2);
    fail_each(open_and_check, two, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_with_one_file),
        cmocka_unit_test(chat_templates),
        cmocka_unit_test(shards),
        cmocka_unit_test(folders_that_are_no_models),
        cmocka_unit_test(lone_files),
        cmocka_unit_test(files_that_are_no_models),
        cmocka_unit_test(a_tied_head_is_left_out),
        cmocka_unit_test(rope_frequencies_are_left_out),
        cmocka_unit_test(tensors_that_do_not_fit),
        cmocka_unit_test(names_of_the_cache),
        cmocka_unit_test(names_in_the_configuration),
        cmocka_unit_test(container_names),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
