/* test_safetensors.c - headers that are read, headers that are refused and why, values of every type, and what the
 * layout for writing promises. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/sys.h"
#include "format/hf/hf.h"
#include "format/model_file.h"
#include "memory_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];
static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/retort-test-st-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0) return -1;
    close(fd);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

static void put_bytes(const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* A file of this header (with ` for the quotes) and `bytes` bytes 0, 1, 2... */
static void put_file(const char *header, size_t bytes)
{
    size_t n = strlen(header);
    unsigned char *all = calloc(1, 8 + n + bytes);
    for (int i = 0; i < 8; i++) all[i] = (unsigned char)((uint64_t)n >> 8 * i);
    for (size_t i = 0; i < n; i++) all[8 + i] = (unsigned char)(header[i] == '`' ? '"' : header[i]);
    for (size_t i = 0; i < bytes; i++) all[8 + n + i] = (unsigned char)i;
    put_bytes(all, 8 + n + bytes);
    free(all);
}

static int open_model(rt_model_file *m, rt_span *config, rt_err *e)
{
    int rc;
    uint32_t part;
    *m = (rt_model_file){ 0 };
    RT_TRY(rt_model_add_part(m, path, &part, e));
    RT_TRY(rt_safetensors_read(m, part, config, e));
out:
    return rc;
}

static void close_model(rt_model_file *m)
{
    for (uint32_t i = 0; i < m->part_count; i++) rt_map_close(&m->parts[i].map);
    rt_arena_free(&m->arena);
}

static void expect_refused(const char *header, size_t bytes, int status, const char *a, const char *b)
{
    rt_err e = { 0 };
    rt_model_file m;
    put_file(header, bytes);
    int rc = open_model(&m, NULL, &e);
    close_model(&m);
    if (rc != status) fail_msg("%s: %s '%s', expected %s", header, rt_status_name(rc), e.text, rt_status_name(status));
    if (!strstr(e.text, path) || !strstr(e.text, a) || !strstr(e.text, b))
        fail_msg("%s: '%s' should name the file, '%s' and '%s'", header, e.text, a, b);
}

static const rt_tensor *find(const rt_model_file *m, const char *name)
{
    for (uint32_t i = 0; i < m->tensor_count; i++)
        if (strcmp(m->tensors[i].name, name) == 0) return &m->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

#define T(name, dtype, shape, from, to)                                                                                \
    "`" name "`:{`dtype`:`" dtype "`,`shape`:[" shape "],`data_offsets`:[" #from "," #to "]}"

static void test_read(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_model_file m;
    rt_span config;
    put_file("{`__metadata__`:{`format`:`pt`,`retort.config`:`{\\n\\`x\\`: 1}`},"
             /* out of order, with an empty one and a scalar */
             T("z", "F32", "", 24, 28) "," T("model.layers.3.self_attn.q_proj.weight", "BF16", "2,3", 0, 12) "," T(
                 "norm.weight", "F16", "6", 12, 24) "," T("void", "I64", "3,0,2", 24, 24) "}   ",
             28);
    assert_int_equal(open_model(&m, &config, &e), RT_OK);
    assert_true(rt_safetensors_is(&m.parts[0].map));
    assert_int_equal(config.len, strlen("{\n\"x\": 1}"));
    assert_memory_equal(config.data, "{\n\"x\": 1}", config.len);
    assert_int_equal(m.tensor_count, 4);
    const rt_tensor *t = find(&m, "model.layers.3.self_attn.q_proj.weight");
    assert_int_equal(t->role, RT_ROLE_Q);
    assert_int_equal(t->layer, 3);
    assert_int_equal(t->dtype, RT_DTYPE_BF16);
    assert_int_equal(t->rank, 2);
    assert_int_equal(rt_tensor_rows(t), 2);
    assert_int_equal(rt_tensor_cols(t), 3);
    assert_int_equal(t->bytes, 12);
    assert_int_equal(t->data[0], 0);
    assert_int_equal(t->data[11], 11);
    /* Saved without the head: "model." is missing in front. */
    t = find(&m, "model.norm.weight");
    assert_string_equal(t->file_name, "norm.weight");
    assert_int_equal(t->role, RT_ROLE_FINAL_NORM);
    assert_int_equal(t->data[0], 12);
    t = find(&m, "z");
    assert_int_equal(t->role, RT_ROLE_NONE);
    assert_int_equal(t->rank, 0);
    assert_int_equal(rt_tensor_elems(t), 1);
    assert_int_equal(t->data[0], 24);
    t = find(&m, "void");
    assert_int_equal(rt_tensor_elems(t), 0);
    close_model(&m);

    put_file("{}", 0);
    assert_int_equal(open_model(&m, &config, &e), RT_OK);
    assert_int_equal(m.tensor_count, 0);
    assert_null(config.data);
    close_model(&m);
}

static void test_refused(void **state)
{
    (void)state;
    static const char name[] = "a.weight";
#define A(dtype, shape, from, to) T("a.weight", dtype, shape, from, to)
    expect_refused("{" A("F32", "2", 0, 8) "}", 9, RT_FORMAT, "1 bytes at the end", "get it again");
    expect_refused("{" A("F32", "2", 0, 8) "}", 7, RT_FORMAT, name, "cut short");
    expect_refused("{" A("F32", "3", 0, 8) "}", 8, RT_FORMAT, name, "12 bytes");
    expect_refused("{" A("F32", "1", 0, 8) "}", 8, RT_FORMAT, name, "4 bytes");
    expect_refused("{" A("F32", "1", 4, 8) "}", 8, RT_FORMAT, name, "4 bytes before");
    expect_refused("{" A("F32", "1", 0, 4) "," T("b", "F32", "1", 8, 12) "}", 12, RT_FORMAT, "'b'", "4 bytes before");
    expect_refused("{" A("F32", "2", 0, 8) "," T("b", "F32", "1", 4, 8) "}", 8, RT_FORMAT, name, "'b' overlap");
    expect_refused("{" A("F32", "1", 0, 4) "," T("b", "F32", "1", 0, 4) "}", 4, RT_FORMAT, name, "overlap");
    expect_refused("{" A("F32", "1", 0, 4) "," A("F32", "1", 4, 8) "}", 8, RT_FORMAT, "duplicate", name);
    expect_refused("{" A("F32", "2", 8, 0) "}", 8, RT_FORMAT, name, "not a range");
    expect_refused("{" A("F32", "2", -8, 0) "}", 8, RT_FORMAT, name, "not a range");
    expect_refused("{" A("F8_E4M3", "8", 0, 8) "}", 8, RT_UNSUPPORTED, name, "F8_E4M3");
    expect_refused("{" A("F32", "1,1,1,1,1,1,1,1,2", 0, 8) "}", 8, RT_UNSUPPORTED, name, "9 dimensions");
    expect_refused("{" A("F32", "-2", 0, 8) "}", 8, RT_FORMAT, name, "no size");
    expect_refused("{" A("F32", "2.0", 0, 8) "}", 8, RT_FORMAT, name, "no size");
    expect_refused("{" A("U8", "9223372036854775807,9223372036854775807", 0, 8) "}", 8, RT_FORMAT, name, "impossible");
    expect_refused("{" A("U8", "4294967296,4294967296,0", 0, 0) "}", 0, RT_FORMAT, name, "impossible");
    expect_refused("{" A("U8", "99999999999999999999", 0, 8) "}", 8, RT_FORMAT, "too big integer", "header, byte");
    expect_refused("{`a.weight`:3}", 0, RT_FORMAT, name, "not an object");
    expect_refused("{`a.weight`:{`shape`:[],`data_offsets`:[0,0]}}", 0, RT_FORMAT, name, "dtype");
    expect_refused("{`a.weight`:{`dtype`:`U8`,`data_offsets`:[0,0]}}", 0, RT_FORMAT, name, "shape");
    expect_refused("{`a.weight`:{`dtype`:`U8`,`shape`:[0]}}", 0, RT_FORMAT, name, "data_offsets");
    expect_refused("{`a.weight`:{`dtype`:`U8`,`shape`:[0],`data_offsets`:[0]}}", 0, RT_FORMAT, name, "data_offsets");
    expect_refused("{`a\\u0000b`:{`dtype`:`U8`,`shape`:[0],`data_offsets`:[0,0]}}", 0, RT_FORMAT, "NUL",
                   "header, byte");
    expect_refused("{`__metadata__`:{`x`:1}}", 0, RT_FORMAT, "__metadata__", "'x'");
    expect_refused("{`__metadata__`:[]}", 0, RT_FORMAT, "__metadata__", "not an object");
    expect_refused("{`a", 0, RT_FORMAT, "header, byte", "get it again");
    expect_refused("{,}", 0, RT_FORMAT, "header, byte 9", "string expected");
    expect_refused("{`a`{}}", 0, RT_FORMAT, "header, byte 12", "':' expected");
    expect_refused("{`a`:}", 0, RT_FORMAT, "header, byte 13", "value expected");
    expect_refused("{`a`: {`dtype`:}}", 0, RT_FORMAT, "header, byte 2", "get it again");
    expect_refused("{`a`:{`dtype`:[}]}", 0, RT_FORMAT, "header, byte", "get it again");
    expect_refused("{" A("U8", "0", 0, 0) " `b`:{}}", 0, RT_FORMAT, "header, byte", "',' or '}' expected");
    expect_refused("{" A("U8", "0", 0, 0) ",}", 0, RT_FORMAT, "header, byte", "string expected");
    expect_refused("{" A("U8", "0", 0, 0) "} x", 0, RT_FORMAT, "header, byte", "end of file expected");
    expect_refused("{`__metadata__`:{`x`:`\\q`}}", 0, RT_FORMAT, "header, byte", "get it again");
    expect_refused("{`__metadata__`:{`x`:`y`", 0, RT_FORMAT, "header, byte", "get it again");
    expect_refused(" {}", 0, RT_FORMAT, "not a safetensors", "'{'");
    expect_refused("[]", 0, RT_FORMAT, "not a safetensors", "'{'");
}

static void expect_bytes_refused(const void *data, size_t n, bool is, const char *says)
{
    rt_err e = { 0 };
    rt_model_file m;
    put_bytes(data, n);
    assert_int_equal(open_model(&m, NULL, &e), RT_FORMAT);
    assert_int_equal(rt_safetensors_is(&m.parts[0].map), is);
    if (!strstr(e.text, says) || !strstr(e.text, path)) fail_msg("'%s' should say '%s'", e.text, says);
    close_model(&m);
}

static void test_lengths(void **state)
{
    (void)state;
    expect_bytes_refused("", 0, false, "too short");
    expect_bytes_refused("\2\0\0\0\0\0\0", 7, false, "too short");
    expect_bytes_refused("\2\0\0\0\0\0\0\0{", 9, false, "cut short");
    expect_bytes_refused("\3\0\0\0\0\0\0\0{}", 10, true, "cut short");
    expect_bytes_refused("\1\0\0\0\0\0\0\0{}", 10, false, "out of range (2 to 100000000)");
    expect_bytes_refused("\1\341\365\5\0\0\0\0{}", 10, false, "out of range (2 to 100000000)"); /* 100,000,001 */
    expect_bytes_refused("\0\341\365\5\0\0\0\0{}", 10, true, "cut short");
    expect_bytes_refused("\377\377\377\377\377\377\377\377{}", 10, false, "out of range (2 to 100000000)");
}

/* Every truncation of a good file is refused. */
static void test_truncated(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_model_file m;
    rt_str whole = { 0 };
    put_file("{" T("a", "F32", "1", 0, 4) "," T("b", "F32", "1", 4, 8) "}", 8);
    assert_int_equal(rt_file_read(path, 1000, &whole, &e), RT_OK);
    assert_int_equal(open_model(&m, NULL, &e), RT_OK);
    close_model(&m);
    for (size_t n = 0; n < whole.len; n++) {
        put_bytes(whole.data, n);
        assert_int_equal(open_model(&m, NULL, &e), RT_FORMAT);
        close_model(&m);
    }
    rt_str_free(&whole);
}

static void expect_values(const char *dtype, const void *data, size_t bytes, const float *want, uint64_t n)
{
    rt_err e = { 0 };
    rt_model_file m;
    char header[128];
    float got[8];
    snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,%zu]}}", dtype, (int)n,
             bytes);
    size_t len = strlen(header);
    unsigned char all[256] = { 0 };
    all[0] = (unsigned char)len;
    memcpy(all + 8, header, len);
    memcpy(all + 8 + len, data, bytes);
    put_bytes(all, 8 + len + bytes);
    assert_int_equal(open_model(&m, NULL, &e), RT_OK);
    rt_tensor_to_f32(got, &m.tensors[0], 0, 1);
    for (uint64_t i = 0; i < n; i++)
        if (rt_f32_bits(got[i]) != rt_f32_bits(want[i]))
            fail_msg("%s value %d: %g, expected %g", dtype, (int)i, (double)got[i], (double)want[i]);
    /* To bf16 from the stored values, rounded once. */
    uint16_t half[8], want_half;
    float scratch[8];
    rt_tensor_to_dtype(half, RT_DTYPE_BF16, &m.tensors[0], 0, 1, scratch);
    for (uint64_t i = 0; i < n; i++) {
        want_half = rt_bf16_from_f32(want[i]);
        assert_int_equal(half[i], want_half);
    }
    close_model(&m);
}

static void test_values(void **state)
{
    (void)state;
    static const float small[] = { 0, 1, -1, 127, -128 };
    expect_values("I8", (int8_t[]){ 0, 1, -1, 127, -128 }, 5, small, 5);
    expect_values("I16", (int16_t[]){ 0, 1, -1, 127, -128 }, 10, small, 5);
    expect_values("I32", (int32_t[]){ 0, 1, -1, 127, -128 }, 20, small, 5);
    expect_values("I64", (int64_t[]){ 0, 1, -1, 127, -128 }, 40, small, 5);
    expect_values("F32", small, 20, small, 5);
    expect_values("F64", (double[]){ 0, 1, -1, 127, -128 }, 40, small, 5);
    expect_values("U8", (uint8_t[]){ 0, 200 }, 2, (float[]){ 0, 200 }, 2);
    expect_values("BOOL", (uint8_t[]){ 0, 1 }, 2, (float[]){ 0, 1 }, 2);
    expect_values("U32", (uint32_t[]){ 4294967295u }, 4, (float[]){ 4294967296.0f }, 1);
    expect_values("I64", (int64_t[]){ INT64_MIN, 16777217 }, 16, (float[]){ -0x1p63f, 16777216.0f }, 2);
    expect_values("F16", (uint16_t[]){ 0x3c00, 0x8001 }, 4, (float[]){ 1, -0x1p-24f }, 2);
    expect_values("BF16", (uint16_t[]){ 0x3f80, 0xc000 }, 4, (float[]){ 1, -2 }, 2);
}

/* A double just above the middle of two bf16 values rounds up, which it would not after a stop at f32. */
static void test_rounded_once(void **state)
{
    (void)state;
    double x = 1.0 + 0x1p-8 + 0x1p-40;
    uint16_t y;
    float scratch;
    rt_tensor t = { .dtype = RT_DTYPE_F64, .rank = 1, .shape = { 1 }, .data = (const uint8_t *)&x, .bytes = 8 };
    rt_tensor_to_dtype(&y, RT_DTYPE_BF16, &t, 0, 1, &scratch);
    assert_int_equal(y, 0x3f81);
    int64_t i = (INT64_C(1) << 40) + (INT64_C(1) << 32) + 1;
    t.dtype = RT_DTYPE_I64;
    t.data = (const uint8_t *)&i;
    rt_tensor_to_dtype(&y, RT_DTYPE_BF16, &t, 0, 1, &scratch);
    assert_int_equal(y, rt_bf16_from_f32(0x1p40f) + 1);
}

/* F32 rows that begin at any byte of the file. */
static void test_unaligned(void **state)
{
    (void)state;
    static const float x[4] = { 1, -2, 3.5f, 1e30f };
    uint8_t bytes[sizeof x + 8];
    uint16_t half[2];
    float scratch[2];
    for (uint32_t shift = 0; shift < 8; shift++) {
        memcpy(bytes + shift, x, sizeof x);
        rt_tensor t = { .dtype = RT_DTYPE_F32, .rank = 2, .shape = { 2, 2 }, .data = bytes + shift, .bytes = sizeof x };
        rt_tensor_to_dtype(half, RT_DTYPE_BF16, &t, 1, 1, scratch);
        for (int i = 0; i < 2; i++) assert_int_equal(half[i], rt_bf16_from_f32(x[2 + i]));
    }
}

static rt_model_config tiny_config(void)
{
    rt_model_config c = { .family = rt_family_find("qwen2"),
                          .layers = 2,
                          .width = 6,
                          .heads = 3,
                          .kv_heads = 1,
                          .head_dim = 2,
                          .hidden = 5,
                          .vocab = 7,
                          .context = 16,
                          .qkv_bias = true,
                          .norm_eps = 1e-6,
                          .init_range = 0.02,
                          .bos = -1,
                          .pad = -1 };
    c.rope.theta = 10000;
    return c;
}

/* What the layout says is what the reader sees; mixed types begin where their elements may. */
static void test_layout(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_arena a = { 0 };
    rt_model_config c = tiny_config();
    uint32_t count = rt_param_count(&c);
    rt_out_tensor *t = rt_arena_alloc(&a, count * sizeof *t);
    for (uint32_t i = 0; i < count; i++) {
        rt_param_at(&c, i, &t[i].role, &t[i].layer);
        t[i].dtype = i % 3 == 0 ? RT_DTYPE_F32 : i % 3 == 1 ? RT_DTYPE_BF16 : RT_DTYPE_F16;
    }
    rt_model_out o = { .to = RT_CONTAINER_SAFETENSORS, .path = "x", .config = &c, .tensors = t, .tensor_count = count };
    rt_file_layout l;
    assert_int_equal(rt_safetensors_layout(&o, 0, count, &a, &l, &e), RT_OK);
    assert_int_equal(l.head.len % 64, 0);
    assert_false(l.footer_crc);
    assert_int_equal(l.extra.len, 0);
    char *all = calloc(1, l.size);
    memcpy(all, l.head.data, l.head.len);
    put_bytes(all, l.size);
    free(all);
    rt_model_file m;
    rt_span config;
    assert_int_equal(open_model(&m, &config, &e), RT_OK);
    assert_int_equal(m.tensor_count, count);
    for (uint32_t i = 0; i < count; i++) {
        char name[RT_NAME_BYTES];
        uint64_t shape[2];
        const rt_tensor *got = find(&m, rt_role_hf_name(name, t[i].role, t[i].layer));
        assert_int_equal(got->dtype, t[i].dtype);
        assert_int_equal(got->rank, rt_role_shape(&c, t[i].role, shape));
        for (uint32_t d = 0; d < got->rank; d++) assert_int_equal(got->shape[d], shape[d]);
        assert_int_equal(got->data - m.parts[0].map.data, l.offset[i]);
        assert_int_equal(l.offset[i] % rt_dtype_bytes(t[i].dtype, 1), 0);
    }
    /* The configuration travels in a lone file, and reads back as the same. */
    rt_model_config back;
    assert_non_null(config.data);
    assert_int_equal(rt_config_from_json(&back, config.data, config.len, "metadata", &a, &e), RT_OK);
    assert_int_equal(back.family, c.family);
    assert_int_equal(back.vocab, c.vocab);
    close_model(&m);
    rt_str_free(&l.head);

    /* Not in the files of a directory; those have only their own tensors. */
    o.to = RT_CONTAINER_HF;
    assert_int_equal(rt_safetensors_layout(&o, 3, 2, &a, &l, &e), RT_OK);
    assert_null(strstr(l.head.data + 8, "retort.config"));
    assert_non_null(strstr(l.head.data + 8, "\"format\":\"pt\""));
    assert_non_null(strstr(l.head.data + 8, rt_role_hf_name((char[RT_NAME_BYTES]){ 0 }, t[4].role, t[4].layer)));
    assert_null(strstr(l.head.data + 8, rt_role_hf_name((char[RT_NAME_BYTES]){ 0 }, t[5].role, t[5].layer)));
    rt_str_free(&l.head);

    t[1].dtype = RT_DTYPE_Q8_0;
    assert_int_equal(rt_safetensors_layout(&o, 0, count, &a, &l, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "q8_0"));
    rt_arena_free(&a);
}

/* Thousands of tensors take milliseconds: a limit that only something quadratic breaks. */
static void test_many(void **state)
{
    (void)state;
    enum { N = 20000 };
    rt_err e = { 0 };
    rt_model_file m;
    rt_str s = { 0 };
    rt_str_append(&s, "{");
    for (int i = 0; i < N; i++)
        rt_str_printf(&s, "%s`model.layers.%d.mlp.x.%d`:{`dtype`:`U8`,`shape`:[1],`data_offsets`:[%d,%d]}",
                      i ? "," : "", i % 100, i, N - 1 - i, N - i);
    rt_str_append(&s, "}");
    put_file(s.data, N);
    rt_str_free(&s);
    double start = rt_now();
    assert_int_equal(open_model(&m, NULL, &e), RT_OK);
    double took = rt_now() - start;
    assert_int_equal(m.tensor_count, N);
    assert_int_equal(m.tensors[7].data[0], (uint8_t)(N - 1 - 7));
    close_model(&m);
    if (took > 5) fail_msg("%d tensors took %.3f s", N, took);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_model_file m;
    rt_span config;
    put_file("{`__metadata__`:{`retort.config`:`{}`}," T("a", "F32", "1", 0, 4) "," T("b", "F32", "1", 4, 8) "}", 8);
    uint64_t live = rt_alloc_live();
    rt_allocator_set(&(rt_allocator){ failing_alloc, failing_free, NULL });
    int n = 0, rc = RT_NOMEM;
    for (; n < 1000 && rc != RT_OK; n++) {
        e = (rt_err){ 0 };
        allowed = n;
        rc = open_model(&m, &config, &e);
        allowed = -1;
        close_model(&m);
        if (rc != RT_OK) assert_int_equal(rc, RT_NOMEM);
        assert_int_equal(e.status, rc);
        assert_int_equal(rt_alloc_live(), live);
    }
    rt_allocator_set(NULL);
    assert_in_range(n, 10, 999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),          cmocka_unit_test(test_refused), cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_truncated),     cmocka_unit_test(test_values),  cmocka_unit_test(test_rounded_once),
        cmocka_unit_test(test_unaligned),     cmocka_unit_test(test_layout),  cmocka_unit_test(test_many),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
