/* test_apr.c - reading APR v2: every check of the container with its message, types, metadata of other writers. */
#include "apr_case.h"

#include "base/json.h"
#include "format/apr/apr.h"

static void test_by_hand(void **state)
{
    (void)state;
    rt_err e = { 0 };
    float row[8];
    apr_make(&file, META, two, 2);
    rt_model_file *m = expect_good();
    assert_int_equal(m->container, RT_CONTAINER_APR);
    assert_true(m->has_config);
    assert_int_equal(m->config.family, rt_family_find("qwen2"));
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
    assert_int_equal(rt_model_file_check_bytes(m, NULL, &e), RT_OK);
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
        { 20, (16 << 20) + 1, 4, "16777217 is out of range (0 to 16777216)" },
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
        if (rc == RT_OK) rc = rt_model_file_check_bytes(m, NULL, &e); /* only padding is missing */
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
    assert_int_equal(m->config.family, rt_family_find("llama"));
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
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
