/* test_apr.c - APR v2: what we write we read back, every check of the container with its message, metadata of other
 * writers, types, the footer, and every allocation failing in turn. */
#include "apr_build.h"
#include "format_case.h"

#include "format/format_internal.h"
#include "format/json_text.h"

#include <jansson.h>

#include <math.h>

/* ---- files by hand ---- */

#define META_HEAD                                                                                                      \
    "{\"architecture\":\"qwen2\",\"hidden_size\":8,\"num_layers\":1,\"num_heads\":2,\"num_kv_heads\":1,"               \
    "\"vocab_size\":4,\"intermediate_size\":16,\"rope_theta\":1000000.0,\"rms_norm_eps\":1e-6"
#define META META_HEAD "}"

static const float embed[32] = { 0, 1, 2, 3, 4, 5, 6, 7, -1, -2.5f, 0.125f };

static const apr_build_tensor two[] = {
    { "model.embed_tokens.weight", 0, 2, { 4, 8 }, embed, sizeof embed },
    { "model.norm.weight", 0, 1, { 8 }, embed + 8, 32 },
};

static apr_build file;

static void save(const char *name) { put_file(name, file.bytes, file.size); }

static int open_saved(const char *name, rt_model_file **m, rt_err *e)
{
    *e = (rt_err){ 0 };
    save(name);
    return rt_model_file_open(m, in_dir(name), NULL, e);
}

static void expect_bad(int status, const char *words)
{
    rt_model_file *m = NULL;
    rt_err e;
    int rc = open_saved("bad.apr", &m, &e);
    if (rc != status) fail_msg("status %d, expected %d: %s", rc, status, e.text);
    assert_null(m);
    assert_says(&e, words);
    assert_says(&e, "bad.apr");
}

static rt_model_file *expect_good(void)
{
    rt_model_file *m = NULL;
    rt_err e;
    if (open_saved("good.apr", &m, &e) < 0) fail_msg("%s", e.text);
    return m;
}

static void test_by_hand(void **state)
{
    (void)state;
    rt_err e = { 0 };
    float row[8];
    apr_make(&file, META, two, 2);
    rt_model_file *m = expect_good();
    assert_int_equal(m->container, RT_CONTAINER_APR);
    assert_true(m->has_config);
    assert_int_equal(m->config.family, RT_FAMILY_QWEN2);
    assert_int_equal(m->config.width, 8);
    assert_int_equal(m->config.layers, 1);
    assert_int_equal(m->config.heads, 2);
    assert_int_equal(m->config.kv_heads, 1);
    assert_int_equal(m->config.hidden, 16);
    assert_true(m->config.tied && m->config.qkv_bias);
    assert_true(m->config.rope.theta == 1e6 && m->config.norm_eps == 1e-6);
    assert_int_equal(m->tensor_count, 2);
    const rt_tensor *t = rt_model_file_find(m, "model.embed_tokens.weight");
    assert_non_null(t);
    assert_int_equal(t->role, RT_ROLE_EMBED);
    rt_tensor_to_f32(row, t, 1, 1);
    assert_true(row[0] == -1 && row[1] == -2.5f);
    assert_false(m->text.has_vocab);
    assert_int_equal(rt_apr_check_footer(m, NULL, &e), RT_OK);
    rt_model_file_close(m);
}

/* ---- the container ---- */

static void set_header(size_t at, uint64_t value, unsigned bytes)
{
    apr_put(file.bytes + at, value, bytes);
    apr_fix_header(file.bytes);
}

static void test_header_refused(void **state)
{
    (void)state;
    apr_make(&file, META, two, 2);
    file.bytes[9] ^= 1;
    expect_bad(RT_FORMAT, "CRC|damaged");
    apr_make(&file, META, two, 2);
    file.bytes[50] ^= 1; /* the reserved bytes count */
    expect_bad(RT_FORMAT, "CRC|damaged");
    apr_make(&file, META, two, 2);
    file.size = 60;
    expect_bad(RT_FORMAT, "60 bytes are too few");
    file.size = 67;
    expect_bad(RT_FORMAT, "67 bytes are too few");
    apr_make(&file, META, two, 2);
    memcpy(file.bytes, "APRN", 4);
    expect_bad(RT_UNSUPPORTED, "version 1|APRN|convert it");
    file.size = 5; /* even cut short it is known for what it is */
    expect_bad(RT_UNSUPPORTED, "APRN");
    apr_make(&file, META, two, 2);
    set_header(4, 3, 1);
    expect_bad(RT_UNSUPPORTED, "version 3.0");
    static const struct {
        uint16_t flag;
        const char *words;
    } flags[] = { { 0x001, "LZ4|compressed" },
                  { 0x002, "zstd" },
                  { 0x004, "encrypted|decrypt" },
                  { 0x010, "shard|join" },
                  { 0x800, "column|by row" } };
    for (int i = 0; i < 5; i++) {
        apr_make(&file, META, two, 2);
        set_header(6, 0x400u | flags[i].flag, 2);
        expect_bad(RT_UNSUPPORTED, flags[i].words);
    }
    apr_make(&file, META, two, 2);
    set_header(6, 0, 2); /* without a word about rows they are by row; signed files and the like are fine */
    rt_model_file_close(expect_good());
    set_header(6, 0x4C8, 2);
    rt_model_file_close(expect_good());
}

static void test_sections_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint64_t value;
        unsigned bytes;
        const char *words;
    } cases[] = {
        { 12, 63, 8, "not in this order" },
        { 12, UINT64_MAX, 8, "not in this order" },
        { 12, UINT64_MAX - 100, 8, "not in this order" },
        { 20, (16 << 20) + 1, 4, "16777217 bytes|16 MiB" },
        { 20, 5000, 4, "not in this order" },
        { 24, 0, 8, "not in this order" },
        { 24, UINT64_MAX, 8, "not in this order" },
        { 32, 64, 8, "not in this order" },
        { 32, UINT64_MAX - 63, 8, "not in this order" },
        { 32, UINT64_MAX, 8, "not in this order" },
        { 8, 3, 4, "index of tensors ends inside entry 2" },
        { 8, 1000, 4, "1000 tensors do not fit" },
        { 8, UINT32_MAX, 4, "4294967295 tensors do not fit" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        apr_make(&file, META, two, 2);
        if (cases[i].at == 8 && cases[i].value == 3) { /* the index ends where the data begin */
            file.bytes[file.index + 128] = 1;
        }
        set_header(cases[i].at, cases[i].value, cases[i].bytes);
        if (cases[i].at == 8 && cases[i].value == 3)
            expect_bad(RT_FORMAT, "tensor 2|0 bytes"); /* padding read as an entry */
        else
            expect_bad(RT_FORMAT, cases[i].words);
    }
    apr_make(&file, META, two, 2);
    set_header(32, file.data + 8, 8);
    expect_bad(RT_FORMAT, "multiple of 64");
    /* cut short at every length: never more than an error */
    apr_make(&file, META, two, 2);
    size_t whole = file.size;
    for (size_t size = 4; size < whole; size += size < 80 ? 1 : 13) {
        rt_model_file *m = NULL;
        rt_err e;
        file.size = size;
        int rc = open_saved("cut.apr", &m, &e);
        if (rc == RT_OK) rc = rt_apr_check_footer(m, NULL, &e); /* only padding is missing */
        rt_model_file_close(m);
        assert_int_equal(rc, RT_FORMAT);
        assert_says(&e, "cut.apr");
    }
}

/* One tensor, of which a test changes one thing. */
static void one_tensor(const char *name, uint8_t type, uint8_t rank, uint64_t d0, uint64_t d1, uint64_t bytes)
{
    apr_build_tensor t = { name, type, rank, { d0, d1, 1, 1, 1, 1, 1, 1 }, NULL, bytes };
    apr_make(&file, META, &t, 1);
}

static void test_entries_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t type, rank;
        uint64_t d0, d1, bytes;
        const char *words;
    } cases[] = {
        { 0, 2, 4, 8, 127, "'x'|128 bytes|127" },
        { 0, 2, 4, 8, 129, "'x'|128 bytes|129" },
        { 2, 2, 4, 8, 128, "'x'|type 2" },
        { 13, 2, 4, 256, 176, "'x'|type 13" },
        { 255, 2, 4, 8, 128, "'x'|type 255" },
        { 12, 2, 1, 128, 72, "'x'|blocks of 256" },
        { 14, 2, 2, 128, 210, "'x'|blocks of 256" },
        { 0, 2, 0, 8, 0, "'x'|dimension of 0" },
        { 0, 2, UINT64_MAX, UINT64_MAX, 4, "'x'|impossible shape" },
        { 0, 2, (uint64_t)1 << 33, (uint64_t)1 << 33, 0, "'x'|impossible shape" },
        { 129, 2, 4, 8, 32, "'x'|36 bytes|32" },
        { 128, 1, 48, 1, 27, "'x'" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        one_tensor("x", cases[i].type, cases[i].rank, cases[i].d0, cases[i].d1, cases[i].bytes);
        expect_bad(RT_FORMAT, cases[i].words);
    }
    one_tensor("x", 0, 1, 8, 1, 32);
    file.bytes[file.index + 4] = 9; /* rank */
    expect_bad(RT_FORMAT, "'x'|9 dimensions");
    one_tensor("x", 0, 1, 8, 1, 32);
    apr_put(file.bytes + file.index + 13, 32, 8);
    expect_bad(RT_FORMAT, "'x'|multiple of 64");
    one_tensor("x", 0, 1, 8, 1, 32);
    apr_put(file.bytes + file.index + 13, 64, 8);
    expect_bad(RT_FORMAT, "'x'|past the end");
    one_tensor("x", 0, 1, 8, 1, 32);
    apr_put(file.bytes + file.index + 13, UINT64_MAX - 63, 8);
    expect_bad(RT_FORMAT, "'x'|past the end");
    one_tensor("x", 0, 1, 16, 1, 64);
    file.size -= 1; /* its last byte would be the footer's */
    expect_bad(RT_FORMAT, "'x'|past the end");
    one_tensor("x", 0, 1, 8, 1, 32);
    apr_put(file.bytes + file.index, 0, 2);
    expect_bad(RT_FORMAT, "name of tensor 0 has 0 bytes");
    apr_put(file.bytes + file.index, 257, 2);
    expect_bad(RT_FORMAT, "name of tensor 0 has 257 bytes");
    one_tensor("\xff", 0, 1, 8, 1, 32);
    expect_bad(RT_FORMAT, "name of tensor 0|UTF-8");
    one_tensor("x", 0, 1, 8, 1, 32);
    file.bytes[file.index + 2] = 0;
    expect_bad(RT_FORMAT, "name of tensor 0");
}

static void test_order_refused(void **state)
{
    (void)state;
    apr_build_tensor swapped[2] = { two[1], two[0] }, twice[2] = { two[0], two[0] };
    apr_make(&file, META, swapped, 2);
    expect_bad(RT_FORMAT, "not sorted|'model.embed_tokens.weight' follows 'model.norm.weight'");
    apr_make(&file, META, twice, 2);
    expect_bad(RT_FORMAT, "names one twice");
    apr_make(&file, META, two, 2);
    /* the second entry's offset: back onto the first */
    size_t at = file.index + 2 + strlen(two[0].name) + 2 + 32 + 2 + strlen(two[1].name) + 2 + 8;
    apr_put(file.bytes + at, 64, 8);
    expect_bad(RT_FORMAT, "overlap|model.embed_tokens.weight|model.norm.weight");
}

/* ---- types ---- */

static void test_types(void **state)
{
    (void)state;
    uint8_t data[2048] = { 0 };
    static const struct {
        uint8_t id;
        rt_dtype dtype;
        rt_store store;
        uint64_t bytes;
    } cases[] = { { 0, RT_DTYPE_F32, RT_STORE_PLAIN, 1024 },   { 1, RT_DTYPE_F16, RT_STORE_PLAIN, 512 },
                  { 30, RT_DTYPE_BF16, RT_STORE_PLAIN, 512 },  { 3, RT_DTYPE_F64, RT_STORE_PLAIN, 2048 },
                  { 4, RT_DTYPE_I32, RT_STORE_PLAIN, 1024 },   { 5, RT_DTYPE_I64, RT_STORE_PLAIN, 2048 },
                  { 6, RT_DTYPE_I8, RT_STORE_PLAIN, 256 },     { 7, RT_DTYPE_U8, RT_STORE_PLAIN, 256 },
                  { 12, RT_DTYPE_Q4_K, RT_STORE_PLAIN, 144 },  { 14, RT_DTYPE_Q6_K, RT_STORE_PLAIN, 210 },
                  { 128, RT_DTYPE_F32, RT_STORE_APR_Q4, 144 }, { 8, RT_DTYPE_F32, RT_STORE_APR_Q4, 144 },
                  { 129, RT_DTYPE_F32, RT_STORE_APR_Q8, 260 }, { 9, RT_DTYPE_F32, RT_STORE_APR_Q8, 260 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        apr_build_tensor t = { "x", cases[i].id, 2, { 1, 256 }, data, cases[i].bytes };
        apr_make(&file, META, &t, 1);
        rt_model_file *m = expect_good();
        assert_int_equal(m->tensors[0].dtype, cases[i].dtype);
        assert_int_equal(m->tensors[0].store, cases[i].store);
        assert_int_equal(m->tensors[0].bytes, cases[i].bytes);
        assert_int_equal(m->tensors[0].role, RT_ROLE_NONE);
        rt_model_file_close(m);
    }
}

static void test_own_types_values(void **state)
{
    (void)state;
    float y[32];
    uint8_t q4[18] = { 0x00, 0x38 }, q8[4 + 32]; /* f16 0.5 */
    for (int i = 0; i < 16; i++) q4[2 + i] = (uint8_t)(i | (15 - i) << 4);
    float scale = 0.25f;
    memcpy(q8, &scale, 4);
    for (int i = 0; i < 32; i++) q8[4 + i] = (uint8_t)(i - 16);
    apr_build_tensor t[] = { { "a", 128, 2, { 1, 32 }, q4, sizeof q4 }, { "b", 129, 2, { 4, 8 }, q8, sizeof q8 } };
    apr_make(&file, META, t, 2);
    rt_model_file *m = expect_good();
    rt_tensor_to_f32(y, rt_model_file_find(m, "a"), 0, 1);
    for (int i = 0; i < 16; i++) {
        assert_true(y[2 * i] == 0.5f * (float)(i - 8));
        assert_true(y[2 * i + 1] == 0.5f * (float)(15 - i - 8));
    }
    rt_tensor_to_f32(y, rt_model_file_find(m, "b"), 1, 2);
    for (int i = 0; i < 16; i++) assert_true(y[i] == 0.25f * (float)(8 + i - 16));
    rt_model_file_close(m);
}

/* ---- metadata ---- */

static rt_model_file *with_meta(const char *meta)
{
    apr_make(&file, meta, two, 2);
    return expect_good();
}

static void bad_meta(const char *meta, int status, const char *words)
{
    apr_make(&file, meta, two, 2);
    expect_bad(status, words);
}

static void test_aliases(void **state)
{
    (void)state;
    rt_model_file *m = with_meta("{\"hf_architecture\":\"LlamaForCausalLM\",\"d_model\":8,\"n_layers\":2,\"n_heads\":4,"
                                 "\"n_kv_heads\":2,\"n_vocab\":4,\"ffn_dim\":24,\"n_ctx\":77,\"norm_eps\":1e-5,"
                                 "\"rope_theta\":10000,\"head_dim\":6}");
    assert_int_equal(m->config.family, RT_FAMILY_LLAMA);
    assert_int_equal(m->config.width, 8);
    assert_int_equal(m->config.layers, 2);
    assert_int_equal(m->config.heads, 4);
    assert_int_equal(m->config.kv_heads, 2);
    assert_int_equal(m->config.hidden, 24);
    assert_int_equal(m->config.context, 77);
    assert_int_equal(m->config.head_dim, 6);
    assert_true(m->config.norm_eps == 1e-5);
    assert_false(m->config.qkv_bias);
    rt_model_file_close(m);
    /* both names: the last counts, null counts for nothing; numbers may have a point */
    m = with_meta("{\"model_type\":\"qwen2\",\"hidden_dim\":9,\"hidden_size\":8.0,\"n_embd\":null,\"num_layers\":5,"
                  "\"num_hidden_layers\":1,\"num_heads\":2,\"vocab_size\":4,\"intermediate_size\":16,"
                  "\"rope_theta\":1,\"rope_theta\":20000.5,\"layer_norm_eps\":1e-3,\"rms_norm_eps\":null}");
    assert_int_equal(m->config.width, 8);
    assert_int_equal(m->config.layers, 1);
    assert_true(m->config.rope.theta == 20000.5 && m->config.norm_eps == 1e-3);
    rt_model_file_close(m);
    m = with_meta(META_HEAD ",\"name\":\"a model\",\"chat_template\":\"{{ messages }}\",\"description\":null}");
    assert_string_equal(m->name, "a model");
    assert_int_equal(m->text.chat_template.len, 14);
    rt_model_file_close(m);
    m = with_meta(META_HEAD ",\"name\":\"/home/somebody/x\"}");
    assert_string_equal(m->name, "good");
    rt_model_file_close(m);
}

static void test_metadata_refused(void **state)
{
    (void)state;
    bad_meta("{\"architecture\":\"qwen2\",\"num_heads\":2,\"vocab_size\":null}", RT_FORMAT,
             "lack hidden_size, num_layers, vocab_size, intermediate_size, rms_norm_eps, rope_theta|convert it again");
    bad_meta("{\"hidden_size\":8}", RT_FORMAT, "family|architecture");
    bad_meta("{\"architecture\":\"gpt_neox\",\"hidden_size\":8}", RT_UNSUPPORTED, "architecture 'gpt_neox'|qwen3");
    bad_meta("[1]", RT_FORMAT, "object");
    bad_meta("{\"a\":", RT_FORMAT, "JSON|line 1");
    bad_meta("{\"a\":\"\xff\"}", RT_FORMAT, "JSON");
    bad_meta(META_HEAD ",\"num_experts\":8}", RT_UNSUPPORTED, "num_experts");
    bad_meta(META_HEAD ",\"rope_type\":1}", RT_UNSUPPORTED, "rope_type");
    bad_meta(META_HEAD ",\"rope_type\":0}", RT_UNSUPPORTED, "rope_type is 0|qwen2|halves");
    bad_meta(META_HEAD ",\"chat_template\":5}", RT_FORMAT, "\"chat_template\"|string");
    bad_meta(META_HEAD ",\"retort.config\":\"{}\"}", RT_FORMAT, "retort.config|model_type");
    bad_meta("{\"architecture\":\"qwen2\",\"hidden_size\":\"8\",\"num_layers\":1,\"num_heads\":2,\"vocab_size\":4,"
             "\"intermediate_size\":16,\"rope_theta\":1,\"rms_norm_eps\":1}",
             RT_FORMAT, "hidden_size|whole number");
    bad_meta(META_HEAD ",\"hidden_size\":7}", RT_INVALID, "bad.apr");
    bad_meta(META_HEAD ",\"tokenizer.vocabulary\":7}", RT_FORMAT, "tokenizer.vocabulary");
    bad_meta(META_HEAD ",\"tokenizer.vocabulary\":[7]}", RT_FORMAT, "tokenizer.vocabulary|strings");
    bad_meta(META_HEAD ",\"tokenizer.vocabulary\":[\"a\"],\"tokenizer.merges\":[[\"a\"]]}", RT_FORMAT,
             "tokenizer.merges");
    bad_meta(META_HEAD ",\"tokenizer.vocabulary\":[\"a\"],\"retort.vocab\":{\"model\":\"gpt2\",\"types\":[1,1]}}",
             RT_FORMAT, "retort.vocab.types|each token");
    bad_meta(META_HEAD ",\"tokenizer.vocabulary\":[\"a\"],\"retort.vocab\":{\"model\":\"gpt2\",\"types\":[9]}}",
             RT_FORMAT, "retort.vocab.types|1 to 6");
}

/* Rows of q as GGUF orders them, when the file says that it was made from one. */
static void test_rope_type(void **state)
{
#define LLAMA_META                                                                                                     \
    "{\"architecture\":\"llama\",\"hidden_size\":8,\"num_layers\":1,\"num_heads\":2,\"num_kv_heads\":1,"               \
    "\"vocab_size\":4,\"intermediate_size\":16,\"rope_theta\":1e4,\"rms_norm_eps\":1e-6,\"rope_type\":"
    (void)state;
    float q[64], row[8];
    for (int i = 0; i < 64; i++) q[i] = (float)(i / 8);
    const apr_build_tensor t[] = { { "model.layers.0.self_attn.q_proj.weight", 0, 2, { 8, 8 }, q, sizeof q } };
    const apr_build_tensor g[] = { { "blk.0.attn_q.weight", 0, 2, { 8, 8 }, q, sizeof q } };
    static const char *const made_from[] = { LLAMA_META "0,\"original_format\":\"GGUF Q4_K\"}",
                                             LLAMA_META "0,\"original_format\":\"safetensors\"}", LLAMA_META "2}" };
    for (int i = 0; i < 3; i++) {
        apr_make(&file, made_from[i], i == 0 ? g : t, 1);
        rt_model_file *m = expect_good();
        const rt_tensor *x = rt_model_file_find(m, "model.layers.0.self_attn.q_proj.weight");
        assert_non_null(x);
        assert_int_equal(m->note_count > 0, i < 2);
        for (uint64_t r = 0; r < 8; r++) { /* a head of four rows: 0 2 1 3 */
            static const float gguf[8] = { 0, 2, 1, 3, 4, 6, 5, 7 };
            rt_tensor_to_f32(row, x, r, 1);
            assert_true(row[0] == (i == 0 ? gguf[r] : (float)r));
        }
        rt_model_file_close(m);
    }
    apr_make(&file, LLAMA_META "0}", t, 1);
    expect_bad(RT_UNSUPPORTED, "rope_type is 0|original_format|convert the model again");
    const apr_build_tensor odd[] = { { "model.layers.0.self_attn.q_proj.weight", 0, 2, { 6, 8 }, q, 192 } };
    apr_make(&file, made_from[0], odd, 1);
    expect_bad(RT_FORMAT, "6 rows");
}

static void test_vocabulary(void **state)
{
    (void)state;
    rt_model_file *m = with_meta(
        META_HEAD ",\"tokenizer.vocabulary\":[\"a\",\"b\",\"ab\",\"<s>\"],\"tokenizer.merges\":[[\"a\",\"b\"]],"
                  "\"tokenizer.bos_token_id\":3,\"tokenizer.eos_token_id\":99,\"retort.vocab\":{\"model\":\"gpt2\","
                  "\"pre\":\"qwen2\",\"types\":[1,1,1,3],\"add_bos\":1,\"pad\":2}}");
    const rt_vocab_spec *v = &m->text.vocab;
    assert_true(m->text.has_vocab);
    assert_string_equal(v->model, "gpt2");
    assert_string_equal(v->pre, "qwen2");
    assert_int_equal(v->token_count, 4);
    assert_int_equal(v->merge_count, 1);
    assert_int_equal(v->merges[0].len, 3);
    assert_memory_equal(v->merges[0].data, "a b", 3);
    assert_int_equal(v->types[3], RT_VOCAB_CONTROL);
    assert_int_equal(v->bos, 3);
    assert_int_equal(v->eos, -1); /* not one of its tokens */
    assert_int_equal(v->add_bos, 1);
    assert_int_equal(m->text.pad, 2);
    rt_model_file_close(m);
    /* of another writer: nothing is guessed */
    m = with_meta(META_HEAD ",\"tokenizer.vocabulary\":[\"a\",\"b\",\"ab\"],\"tokenizer.merges\":[\"a b\"]}");
    assert_false(m->text.has_vocab);
    assert_int_equal(m->note_count, 1);
    assert_non_null(strstr(m->notes[0], "3 tokens"));
    rt_model_file_close(m);
}

/* A vocabulary that shows by its tokens that it is Qwen's. */
static void test_qwen_vocabulary(void **state)
{
    (void)state;
    rt_str meta = { 0 };
    rt_err e = { 0 };
    rt_model_file *m = NULL;
    rt_str_append(&meta, META_HEAD ",\"tokenizer.merges\":[\"a b\"],\"tokenizer.vocabulary\":[");
    for (int i = 0; i < 151643; i++) rt_str_printf(&meta, "\"%d\",", i);
    rt_str_append(&meta, "\"<|endoftext|>\",\"<|im_start|>\",\"<|im_end|>\",\"<tool_call>\",\"[PAD151647]\"]}");
    uint8_t header[64] = "APR\0\2";
    size_t end = (64 + meta.len + 63) / 64 * 64;
    uint8_t *bytes = calloc(1, end + 4);
    apr_put(header + 12, 64, 8);
    apr_put(header + 20, meta.len, 4);
    apr_put(header + 24, end, 8);
    apr_put(header + 32, end, 8);
    apr_fix_header(header);
    memcpy(bytes, header, 64);
    memcpy(bytes + 64, meta.data, meta.len);
    put_file("qwen.apr", bytes, end + 4);
    if (rt_model_file_open(&m, in_dir("qwen.apr"), NULL, &e) < 0) fail_msg("%s", e.text);
    assert_true(m->text.has_vocab);
    assert_string_equal(m->text.vocab.pre, "qwen2");
    assert_int_equal(m->text.vocab.types[151642], RT_VOCAB_NORMAL);
    assert_int_equal(m->text.vocab.types[151643], RT_VOCAB_CONTROL);
    assert_int_equal(m->text.vocab.types[151646], RT_VOCAB_USER_DEFINED);
    assert_int_equal(m->text.vocab.types[151647], RT_VOCAB_UNUSED);
    rt_model_file_close(m);
    free(bytes);
    rt_str_free(&meta);
}

/* ---- what we write ---- */

static rt_model_config config;
static rt_out_tensor tensors[128];

static float value_at(uint32_t i, uint64_t k) { return (float)((i * 131 + k * 7) % 251) / 64 - 2; }

static int give_rows(void *ctx, uint32_t i, uint64_t row, uint64_t rows, void *dst, uint32_t worker, rt_err *e)
{
    (void)ctx, (void)worker, (void)e;
    uint64_t shape[2] = { 1, 1 };
    uint32_t rank = rt_role_shape(&config, tensors[i].role, shape);
    uint64_t cols = shape[rank - 1];
    for (uint64_t k = 0; k < rows * cols; k++) {
        float x = value_at(i, row * cols + k);
        rt_float_from_f32((uint8_t *)dst + k * rt_dtype_bytes(tensors[i].dtype, 1), &x, tensors[i].dtype, 1);
    }
    return RT_OK;
}

static void describe(rt_model_out *o, const char *preset, rt_dtype matrices, const rt_model_text *text)
{
    memset(&config, 0, sizeof config);
    rt_preset_find(preset)->fill(&config);
    uint32_t count = rt_param_count(&config);
    assert_true(count <= 128);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t shape[2];
        assert_true(rt_param_at(&config, i, &tensors[i].role, &tensors[i].layer));
        tensors[i].dtype = rt_role_shape(&config, tensors[i].role, shape) == 2 ? matrices : RT_DTYPE_F32;
    }
    *o = (rt_model_out){ .to = RT_CONTAINER_APR,
                         .path = in_dir("out.apr"),
                         .name = "a \"name\"",
                         .config = &config,
                         .text = text,
                         .tensors = tensors,
                         .tensor_count = count,
                         .replace = true };
}

static const rt_tok_text tokens[] = { { "a", 1 }, { "b\"\n", 3 }, { "\xC4\xA0", 2 }, { "<|x|>", 5 } };
static const rt_tok_text merges[] = { { "a b\"\n", 5 } };
static const int32_t kinds[] = { 1, 1, 1, 3 };
static const float scores[] = { 0, -1.5f, 3.4e-8f, -16777216 };

static rt_model_text some_text(void)
{
    static const char json[] = "{ \"version\": \"1.0\" }\n", conf[] = "{\"eos_token\": \"<|x|>\"}", gen[] = "{}",
                      chat[] = "{{ 'é\\n' }}";
    return (rt_model_text){ .tokenizer_json = { json, sizeof json - 1 },
                            .tokenizer_config = { conf, sizeof conf - 1 },
                            .generation_config = { gen, sizeof gen - 1 },
                            .chat_template = { chat, sizeof chat - 1 },
                            .has_vocab = true,
                            .vocab = { .model = "gpt2",
                                       .pre = "qwen2",
                                       .tokens = tokens,
                                       .token_count = 4,
                                       .types = kinds,
                                       .scores = scores,
                                       .merges = merges,
                                       .merge_count = 1,
                                       .bos = -1,
                                       .eos = 3,
                                       .add_bos = 0,
                                       .add_eos = -1,
                                       .add_space_prefix = -1 },
                            .unk = -1,
                            .pad = 0,
                            .eot = 3 };
}

static void same_span(rt_span a, rt_span b)
{
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
}

static void check_text(const rt_model_text *got, const rt_model_text *want)
{
    same_span(got->tokenizer_json, want->tokenizer_json);
    same_span(got->tokenizer_config, want->tokenizer_config);
    same_span(got->generation_config, want->generation_config);
    same_span(got->chat_template, want->chat_template);
    assert_true(got->has_vocab);
    assert_int_equal(got->vocab.token_count, 4);
    for (int i = 0; i < 4; i++) {
        same_span(got->vocab.tokens[i], tokens[i]);
        assert_int_equal(got->vocab.types[i], kinds[i]);
        assert_true(got->vocab.scores[i] == scores[i]);
    }
    same_span(got->vocab.merges[0], merges[0]);
    assert_string_equal(got->vocab.model, "gpt2");
    assert_string_equal(got->vocab.pre, "qwen2");
    assert_int_equal(got->vocab.bos, -1);
    assert_int_equal(got->vocab.eos, 3);
    assert_int_equal(got->vocab.add_bos, 0);
    assert_int_equal(got->vocab.add_eos, -1);
    assert_int_equal(got->pad, 0);
    assert_int_equal(got->eot, 3);
}

static void check_values(const rt_model_file *m, rt_dtype matrices)
{
    for (uint32_t i = 0; i < rt_param_count(&config); i++) {
        char name[RT_NAME_BYTES];
        const rt_tensor *t = rt_model_file_find(m, rt_role_hf_name(name, tensors[i].role, tensors[i].layer));
        assert_non_null(t);
        uint64_t rows = rt_tensor_rows(t), cols = rt_tensor_cols(t);
        float *y = malloc(rows * cols * sizeof *y);
        rt_tensor_to_f32(y, t, 0, rows);
        for (uint64_t k = 0; k < rows * cols; k++) {
            float x = value_at(i, k);
            if (t->rank == 2 && matrices == RT_DTYPE_BF16) x = rt_bf16_to_f32(rt_bf16_from_f32(x));
            assert_true(y[k] == x);
        }
        assert_int_equal((t->data - m->parts[0].map.data) % 64, 0);
        free(y);
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    static const char *const presets[] = { "tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-mistral", "tiny-smollm3" };
    rt_model_text text = some_text();
    rt_pool *pool = NULL;
    rt_err e = { 0 };
    assert_int_equal(rt_pool_new(&pool, 2, &e), RT_OK);
    for (int p = 0; p < 5; p++) {
        rt_dtype matrices = p % 2 ? RT_DTYPE_F32 : RT_DTYPE_BF16;
        rt_model_out o;
        rt_model_file *m = NULL;
        rt_model_write_calls calls = { .rows = give_rows };
        describe(&o, presets[p], matrices, p == 4 ? NULL : &text);
        if (rt_model_write(&o, &calls, pool, &e) < 0) fail_msg("%s", e.text);
        if (rt_model_file_open(&m, in_dir("out.apr"), NULL, &e) < 0) fail_msg("%s", e.text);
        if (rt_model_file_check(m, &e) < 0) fail_msg("%s", e.text);
        if (rt_apr_check_footer(m, pool, &e) < 0) fail_msg("%s", e.text);
        if (rt_apr_check_footer(m, NULL, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(m->config.family, config.family);
        assert_int_equal(m->config.layers, config.layers);
        assert_int_equal(m->config.head_dim, config.head_dim);
        assert_int_equal(m->config.window, config.window);
        assert_memory_equal(m->config.layer_flags, config.layer_flags, sizeof config.layer_flags);
        assert_true(m->config.rope.theta == config.rope.theta && m->config.norm_eps == config.norm_eps);
        assert_int_equal(m->config.tied, config.tied);
        assert_int_equal(m->config.o_bias, config.o_bias);
        assert_string_equal(m->name, "a \"name\"");
        assert_int_equal(m->note_count, 0);
        check_values(m, matrices);
        if (o.text)
            check_text(&m->text, &text);
        else
            assert_false(m->text.has_vocab || m->text.tokenizer_json.data);
        /* row-major; a vocabulary where there is one */
        assert_int_equal(m->parts[0].map.data[6], 0);
        assert_int_equal(m->parts[0].map.data[7], o.text ? 0x06 : 0x04);
        rt_model_file_close(m);
    }
    rt_pool_free(pool);
}

/* Each concept once: no name and alias together, no key twice. */
static void test_keys_once(void **state)
{
    (void)state;
    static const char *const aliases[] = { "hidden_dim",
                                           "d_model",
                                           "n_embd",
                                           "num_hidden_layers",
                                           "num_attention_heads",
                                           "n_layers",
                                           "n_head",
                                           "num_key_value_heads",
                                           "n_vocab",
                                           "max_seq_len",
                                           "norm_eps",
                                           "layer_norm_eps" };
    rt_model_text text = some_text();
    rt_model_out o;
    rt_layout l = { 0 };
    rt_arena a = { 0 };
    rt_err e = { 0 };
    describe(&o, "tiny-llama", RT_DTYPE_F32, &text);
    if (rt_apr_layout(&o, &a, &l, &e) < 0) fail_msg("%s", e.text);
    assert_true(l.footer_crc);
    assert_int_equal(l.head.len % 64, 0);
    assert_int_equal(l.size % 64, 0);
    size_t n = (uint8_t)l.head.data[20] | (size_t)(uint8_t)l.head.data[21] << 8;
    json_t *meta = json_loadb(l.head.data + 64, n, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(meta);
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) assert_null(json_object_get(meta, aliases[i]));
    assert_int_equal(json_integer_value(json_object_get(meta, "rope_type")), 2);
    assert_int_equal(json_integer_value(json_object_get(meta, "hidden_size")), config.width);
    assert_string_equal(json_string_value(json_object_get(meta, "hf_architecture")), "LlamaForCausalLM");
    uint64_t parameters;
    assert_true(rt_config_parameters(&config, &parameters));
    assert_int_equal(json_integer_value(json_object_get(meta, "param_count")), parameters);
    json_decref(meta);
    rt_str_free(&l.head);
    rt_arena_free(&a);
}

static void expect_no_layout(const rt_model_out *o, int status, const char *words)
{
    rt_layout l = { 0 };
    rt_arena a = { 0 };
    rt_err e = { 0 };
    int rc = rt_apr_layout(o, &a, &l, &e);
    if (rc != status) fail_msg("%d: %s", rc, e.text);
    assert_says(&e, words);
    rt_str_free(&l.head);
    rt_arena_free(&a);
}

static void test_layout_refused(void **state)
{
    (void)state;
    rt_model_text text = some_text();
    rt_model_out o;
    describe(&o, "tiny-llama", RT_DTYPE_Q8_0, &text);
    expect_no_layout(&o, RT_INVALID, "q8_0|q4_k and q6_k|out.apr");
    describe(&o, "tiny-llama", RT_DTYPE_Q4_K, &text);
    expect_no_layout(&o, RT_INVALID, "whole blocks of q4_k");
    describe(&o, "tiny-llama", RT_DTYPE_F32, &text);
    text.chat_template = (rt_span){ "\xff", 1 };
    expect_no_layout(&o, RT_INVALID, "chat_template|UTF-8");
    text = some_text();
    static const rt_tok_text bad[] = { { "a", 1 }, { "\xC3", 1 } };
    text.vocab.tokens = bad;
    text.vocab.token_count = 2;
    expect_no_layout(&o, RT_INVALID, "entry 1|tokenizer.vocabulary|UTF-8");
    text = some_text();
    float infinite[4] = { INFINITY };
    text.vocab.scores = infinite;
    expect_no_layout(&o, RT_INVALID, "score of token 0");
}

static size_t layout_has(const rt_model_out *o, const char *word)
{
    rt_layout l = { 0 };
    rt_arena a = { 0 };
    rt_err e = { 0 };
    if (rt_apr_layout(o, &a, &l, &e) < 0) fail_msg("%s", e.text);
    size_t n = memmem(l.head.data, l.head.len, word, strlen(word)) ? l.head.len : 0;
    rt_str_free(&l.head);
    rt_arena_free(&a);
    return n;
}

/* What is left out when 16 MiB are too few. */
static void test_cap(void **state)
{
    (void)state;
    enum { BIG = 17 << 20 };
    rt_model_text text = some_text();
    rt_model_out o;
    describe(&o, "tiny-llama", RT_DTYPE_F32, &text);
    char *json = malloc(BIG);
    /* mostly white space: written without it */
    memset(json, ' ', BIG);
    json[0] = '{';
    memcpy(json + BIG - 9, "\"a\": [1]}", 9);
    text.tokenizer_json = (rt_span){ json, BIG };
    assert_true(layout_has(&o, "\"retort.tokenizer_json\":\"{\\\"a\\\":[1]}\"") > 0);
    /* no white space: left out, the vocabulary stays */
    memset(json, 'x', BIG);
    memcpy(json, "{\"a\":\"", 6);
    memcpy(json + BIG - 2, "\"}", 2);
    assert_int_equal(layout_has(&o, "retort.tokenizer_json"), 0);
    assert_true(layout_has(&o, "tokenizer.vocabulary") > 0);
    text.has_vocab = false;
    expect_no_layout(&o, RT_INVALID, "17825792|16777216|without the tokenizer");
    /* a vocabulary that is too large by itself */
    rt_tok_text huge[4] = { { json, BIG }, tokens[0], tokens[1], tokens[2] };
    text = some_text();
    text.vocab.tokens = huge;
    expect_no_layout(&o, RT_INVALID, "4 tokens|16777216|without the tokenizer");
    free(json);
}

/* Text and numbers as JSON reads them back. */
static void test_json_text(void **state)
{
    (void)state;
    static const char all[] = "q\" b\\ s/ \n\r\t\b\f \x01\x1f\x7f \xC3\xA9 \xF0\x9F\x98\x80 \0z";
    static const double numbers[] = {
        0, 1, -1.5, 1e-6, 1e22, 0.1, 1.0 / 3, 1e-300, 1000000, 5e-324, 1.7976931348623157e308
    };
    static const char *const bad[] = { "\xff", "\xC0\x80",      "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                       "\xC3", "ok\xF0\x9F\x98" };
    rt_str s = { 0 };
    assert_true(rt_json_put_text(&s, all, sizeof all - 1));
    json_t *v = json_loadb(s.data, s.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_int_equal(json_string_length(v), sizeof all - 1);
    assert_memory_equal(json_string_value(v), all, sizeof all - 1);
    json_decref(v);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t before = s.len;
        assert_false(rt_json_put_text(&s, bad[i], strlen(bad[i])));
        assert_int_equal(s.len, before);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        s.len = 0;
        rt_json_put_double(&s, numbers[i]);
        v = json_loadb(s.data, s.len, JSON_DECODE_ANY, NULL);
        assert_true(json_is_real(v) && json_real_value(v) == numbers[i]);
        json_decref(v);
        s.len = 0;
        rt_json_put_float(&s, (float)numbers[i]);
        if (isfinite((float)numbers[i])) assert_true(strtof(s.data, NULL) == (float)numbers[i]);
    }
    s.len = 0;
    rt_json_put_double(&s, 0.1);
    assert_string_equal(s.data, "0.1");
    rt_str_free(&s);
}

/* ---- footer ---- */

static void test_footer(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_model_file *m = NULL;
    rt_pool *pool = NULL;
    apr_make(&file, META, two, 2);
    file.bytes[file.data + 5] ^= 1;
    m = expect_good(); /* opening does not read the whole file */
    assert_int_equal(rt_apr_check_footer(m, NULL, &e), RT_FORMAT);
    assert_says(&e, "good.apr|footer|CRC|damaged|copy it again");
    rt_model_file_close(m);
    /* several pieces whose sums are put together */
    enum { LARGE = 21 << 20 };
    apr_build_tensor t = { "x", 7, 1, { LARGE - 4096 }, NULL, 64 };
    apr_make(&file, META, &t, 1);
    uint8_t *bytes = calloc(1, LARGE);
    memcpy(bytes, file.bytes, file.data);
    apr_put(bytes + file.index + 2 + 1 + 2 + 8 + 8, LARGE - 4096, 8);
    for (size_t i = file.data; i < LARGE; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 24);
    apr_fix_footer(bytes, LARGE);
    put_file("large.apr", bytes, LARGE);
    assert_int_equal(rt_pool_new(&pool, 2, &e), RT_OK);
    if (rt_model_file_open(&m, in_dir("large.apr"), NULL, &e) < 0) fail_msg("%s", e.text);
    if (rt_apr_check_footer(m, pool, &e) < 0) fail_msg("%s", e.text);
    rt_model_file_close(m);
    bytes[LARGE - 5] ^= 0x80;
    put_file("large.apr", bytes, LARGE);
    assert_int_equal(rt_model_file_open(&m, in_dir("large.apr"), NULL, &e), RT_OK);
    assert_int_equal(rt_apr_check_footer(m, pool, &e), RT_FORMAT);
    m->container = RT_CONTAINER_GGUF;
    assert_int_equal(rt_apr_check_footer(m, pool, &e), RT_INVALID);
    rt_model_file_close(m);
    rt_pool_free(pool);
    free(bytes);
}

/* ---- memory ---- */

static int read_all(void *ctx, rt_err *e)
{
    rt_model_file *m = NULL;
    int rc = rt_model_file_open(&m, ctx, NULL, e);
    if (rc == RT_OK) rc = rt_apr_check_footer(m, NULL, e);
    rt_model_file_close(m);
    return rc;
}

static int lay_out(void *ctx, rt_err *e)
{
    rt_layout l = { 0 };
    rt_arena a = { 0 };
    int rc = rt_apr_layout(ctx, &a, &l, e);
    rt_str_free(&l.head);
    rt_arena_free(&a);
    return rc;
}

static void test_allocations_fail(void **state)
{
    (void)state;
    apr_make(&file,
             META_HEAD ",\"name\":\"n\",\"chat_template\":\"c\",\"tokenizer.vocabulary\":[\"a\",\"b\",\"ab\"],"
                       "\"tokenizer.merges\":[\"a b\"],\"retort.vocab\":{\"model\":\"gpt2\",\"pre\":\"gpt-2\","
                       "\"types\":[1,1,1],\"scores\":[1,2,3]}}",
             two, 2);
    save("oom.apr");
    static char path[512];
    snprintf(path, sizeof path, "%s", in_dir("oom.apr"));
    fail_each(read_all, path, 0);
    rt_model_text text = some_text();
    rt_model_out o;
    describe(&o, "tiny-llama", RT_DTYPE_F32, &text);
    o.path = path;
    fail_each(lay_out, &o, 0);
}

int main(void)
{
    rt_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),          cmocka_unit_test(test_header_refused),
        cmocka_unit_test(test_sections_refused), cmocka_unit_test(test_entries_refused),
        cmocka_unit_test(test_order_refused),    cmocka_unit_test(test_types),
        cmocka_unit_test(test_own_types_values), cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_metadata_refused), cmocka_unit_test(test_rope_type),
        cmocka_unit_test(test_vocabulary),       cmocka_unit_test(test_qwen_vocabulary),
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_keys_once),
        cmocka_unit_test(test_layout_refused),   cmocka_unit_test(test_cap),
        cmocka_unit_test(test_json_text),        cmocka_unit_test(test_footer),
        cmocka_unit_test(test_allocations_fail),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
