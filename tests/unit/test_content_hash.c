/* test_content_hash.c - the identity of a model: the definition, computed here a second time, and what changes it and
 * what does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/model_write.h"
#include "memory_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TENSORS = 3 };
static rt_pool *pool;
static int set_up(void **state)
{
    (void)state;
    return rt_pool_new(&pool, 3, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    rt_pool_free(pool);
    return 0;
}

static rt_hash128 hash_of(const rt_tensor *t, uint32_t n)
{
    rt_err e = { 0 };
    rt_hash128 h = { 0 };
    rt_model_file m = { .path = "memory", .tensors = (rt_tensor *)(uintptr_t)t, .tensor_count = n };
    assert_int_equal(rt_model_content_hash(&m, pool, &h, NULL, &e), RT_OK);
    return h;
}

static bool same(rt_hash128 a, rt_hash128 b) { return a.hi == b.hi && a.lo == b.lo; }

static rt_tensor matrix(const char *name, rt_dtype d, uint64_t rows, uint64_t cols, const void *data)
{
    return (rt_tensor){ .name = name,
                        .file_name = name,
                        .role = RT_ROLE_NONE,
                        .dtype = d,
                        .rank = 2,
                        .shape = { rows, cols },
                        .data = data,
                        .bytes = rt_dtype_bytes(d, rows * cols) };
}

/* ---- the definition again, the slow way: everything in one buffer ---- */

static void add(rt_str *s, const void *data, size_t n) { rt_str_append_n(s, data, n); }

static void add_hash(rt_str *s, rt_hash128 h)
{
    for (int i = 0; i < 16; i++) {
        char c = (char)((i < 8 ? h.hi : h.lo) >> (56 - 8 * (i % 8)));
        rt_str_append_n(s, &c, 1);
    }
}

static rt_hash128 by_definition(const char *name, char kind, uint32_t rank, const uint64_t *shape, const void *values,
                                size_t value_bytes, uint64_t n)
{
    enum { SEGMENT = 1 << 22 };
    rt_str s = { 0 };
    uint32_t len = (uint32_t)strlen(name);
    uint64_t segments = (n + SEGMENT - 1) / SEGMENT;
    add(&s, "retort.tensor.1\n", 16);
    add(&s, &kind, 1);
    add(&s, &len, 4);
    add(&s, name, len);
    add(&s, &rank, 4);
    add(&s, shape, rank * sizeof *shape);
    add(&s, &segments, 8);
    for (uint64_t i = 0; i < segments; i++) {
        uint64_t count = n - i * SEGMENT < SEGMENT ? n - i * SEGMENT : SEGMENT;
        add_hash(&s, rt_hash((const char *)values + i * SEGMENT * value_bytes, count * value_bytes));
    }
    rt_hash128 h = rt_hash(s.data, s.len);
    rt_str_free(&s);
    return h;
}

static rt_hash128 model_by_definition(const rt_hash128 *each, uint64_t n)
{
    rt_str s = { 0 };
    add(&s, "retort.content.1\n", 17);
    add(&s, &n, 8);
    for (uint64_t i = 0; i < n; i++) add_hash(&s, each[i]);
    rt_hash128 h = rt_hash(s.data, s.len);
    rt_str_free(&s);
    return h;
}

static void test_definition(void **state)
{
    (void)state;
    rt_err e = { 0 };
    /* More than two segments; rows that cross their ends. */
    uint64_t big[2] = { 9001, 1001 }, n = big[0] * big[1];
    float *values = malloc(n * sizeof *values);
    uint16_t *halves = malloc(n * sizeof *halves);
    for (uint64_t i = 0; i < n; i++) {
        halves[i] = (uint16_t)(i * 2654435761u >> 16);
        values[i] = rt_bf16_to_f32(halves[i]);
    }
    float few[6] = { 1, 2, 3, -0.0f, 5, INFINITY };
    uint64_t small[1] = { 6 }, none[2] = { 0, 4 };
    rt_tensor t[TENSORS] = { matrix("a", RT_DTYPE_BF16, big[0], big[1], halves), matrix("b", RT_DTYPE_F32, 6, 1, few),
                             matrix("c", RT_DTYPE_F32, 0, 4, few) };
    t[1].rank = 1;
    rt_hash128 each[TENSORS], want[TENSORS], whole;
    rt_model_file m = { .path = "memory", .tensors = t, .tensor_count = TENSORS };
    want[0] = by_definition("a", 'f', 2, big, values, 4, n);
    want[1] = by_definition("b", 'f', 1, small, few, 4, 6);
    want[2] = by_definition("c", 'f', 2, none, few, 4, 0);
    assert_int_equal(rt_model_content_hash(&m, pool, &whole, each, &e), RT_OK);
    for (int i = 0; i < TENSORS; i++) assert_true(same(each[i], want[i]));
    assert_true(same(whole, model_by_definition(want, TENSORS)));
    /* Any number of threads, and another width of the same values. */
    rt_pool *one;
    rt_hash128 again;
    assert_int_equal(rt_pool_new(&one, 1, &e), RT_OK);
    t[0] = matrix("a", RT_DTYPE_F32, big[0], big[1], values);
    assert_int_equal(rt_model_content_hash(&m, one, &again, NULL, &e), RT_OK);
    assert_true(same(whole, again));
    rt_pool_free(one);
    /* One bit of one value. */
    values[n - 1] = nextafterf(values[n - 1], 0);
    assert_false(same(whole, hash_of(t, TENSORS)));
    free(halves);
    free(values);
}

/* Changes of name, shape, order, number and zero's sign are changes. */
static void test_changes(void **state)
{
    (void)state;
    float x[4] = { 0, 1, 2, 3 };
    rt_tensor t = matrix("a", RT_DTYPE_F32, 2, 2, x), other = t;
    rt_hash128 h = hash_of(&t, 1);
    other.name = "b";
    assert_false(same(h, hash_of(&other, 1)));
    other = matrix("a", RT_DTYPE_F32, 4, 1, x);
    assert_false(same(h, hash_of(&other, 1)));
    other.rank = 1;
    assert_false(same(h, hash_of(&other, 1)));
    float zero[4] = { -0.0f, 1, 2, 3 }, turned[4] = { 0, 2, 1, 3 };
    other = matrix("a", RT_DTYPE_F32, 2, 2, zero);
    assert_false(same(h, hash_of(&other, 1)));
    other = matrix("a", RT_DTYPE_F32, 2, 2, turned);
    assert_false(same(h, hash_of(&other, 1)));
    rt_tensor both[2] = { t, t };
    both[1].name = "b";
    assert_false(same(h, hash_of(both, 2)));
    assert_false(same(h, hash_of(NULL, 0)));
    /* Where the file spells it, or which file, is no change. */
    other = t;
    other.file_name = "blk.0.a";
    other.file = 3;
    assert_true(same(h, hash_of(&other, 1)));
}

/* The rows of GGUF's llama order hash as the canonical rows do; so do the elements of a bias. */
static void test_row_order(void **state)
{
    (void)state;
    enum { HEADS = 2, D = 6, ROWS = HEADS * D, COLS = 5 };
    float canonical[ROWS][COLS], stored[ROWS][COLS], bias[ROWS], stored_bias[ROWS];
    for (int h = 0; h < HEADS; h++) {
        for (int j = 0; j < 2; j++) {
            for (int i = 0; i < D / 2; i++) {
                int from = h * D + j * (D / 2) + i, to = h * D + 2 * i + j;
                assert_int_equal(rt_swap_to_stored((uint64_t)from, ROWS, HEADS), to);
                assert_int_equal(rt_swap_to_canonical((uint64_t)to, ROWS, HEADS), from);
                for (int c = 0; c < COLS; c++) stored[to][c] = canonical[from][c] = (float)(from * 10 + c);
                stored_bias[to] = bias[from] = (float)from;
            }
        }
    }
    rt_tensor t[2] = { matrix("q.bias", RT_DTYPE_F32, ROWS, 1, bias),
                       matrix("q.weight", RT_DTYPE_F32, ROWS, COLS, canonical) };
    t[0].rank = 1;
    rt_hash128 h = hash_of(t, 2);
    t[0].data = (const uint8_t *)stored_bias;
    t[1].data = (const uint8_t *)stored;
    t[0].swap_heads = t[1].swap_heads = HEADS;
    assert_true(same(h, hash_of(t, 2)));
    float row[2][COLS], vector[ROWS];
    rt_tensor_to_f32(row[0], &t[1], 4, 2);
    assert_memory_equal(row, canonical[4], sizeof row);
    rt_tensor_to_f32(vector, &t[0], 0, 1);
    assert_memory_equal(vector, bias, sizeof bias);
    float scratch[ROWS];
    rt_tensor_to_dtype(vector, RT_DTYPE_F32, &t[0], 0, 1, scratch);
    assert_memory_equal(vector, bias, sizeof bias);
    rt_tensor_to_dtype(row, RT_DTYPE_F32, &t[1], 3, 2, scratch);
    assert_memory_equal(row, canonical[3], sizeof row);
    assert_memory_equal(rt_tensor_row(&t[1], 7, NULL), canonical[7], sizeof canonical[7]);
    double wide[ROWS][COLS];
    for (int i = 0; i < ROWS * COLS; i++) wide[i / COLS][i % COLS] = (double)stored[i / COLS][i % COLS];
    rt_tensor w = matrix("q.weight", RT_DTYPE_F64, ROWS, COLS, wide);
    w.swap_heads = HEADS;
    rt_tensor two[2] = { t[0], w };
    assert_true(same(h, hash_of(two, 2)));
    /* Sizes that no model has do not divide by zero. */
    assert_int_equal(rt_swap_to_stored(3, 4, 4), 3);
    assert_int_equal(rt_swap_to_canonical(3, 4, 9), 3);
}

/* Wider types hash as f32 when every value is one, otherwise as what they are. */
static void test_wide(void **state)
{
    (void)state;
    uint64_t shape[2] = { 2, 2 };
    float x[4] = { 1.5f, -0.0f, 3e38f, 0x1p-149f };
    double d[4] = { 1.5, -0.0, (double)3e38f, 0x1p-149 };
    rt_tensor a = matrix("a", RT_DTYPE_F32, 2, 2, x), b = matrix("a", RT_DTYPE_F64, 2, 2, d);
    assert_true(same(hash_of(&a, 1), hash_of(&b, 1)));
    d[2] = 3e38; /* not an f32 */
    rt_hash128 want = by_definition("a", 'd', 2, shape, d, 8, 4);
    assert_true(same(hash_of(&b, 1), model_by_definition(&want, 1)));
    float y[4] = { 1, -2, 0, 16777216 };
    int32_t i32[4] = { 1, -2, 0, 16777216 };
    int64_t i64[4] = { 1, -2, 0, 16777216 };
    int16_t i16[4] = { 1, -2, 0, 3 };
    a = matrix("a", RT_DTYPE_F32, 2, 2, y);
    b = matrix("a", RT_DTYPE_I32, 2, 2, i32);
    assert_true(same(hash_of(&a, 1), hash_of(&b, 1)));
    b = matrix("a", RT_DTYPE_I64, 2, 2, i64);
    assert_true(same(hash_of(&a, 1), hash_of(&b, 1)));
    i64[3] = i32[3] = 16777217;
    want = by_definition("a", 'i', 2, shape, i64, 8, 4);
    assert_true(same(hash_of(&b, 1), model_by_definition(&want, 1)));
    b = matrix("a", RT_DTYPE_I32, 2, 2, i32);
    assert_true(same(hash_of(&b, 1), model_by_definition(&want, 1)));
    i64[3] = INT64_MAX; /* rounds to 2^63, which is no i64 */
    b = matrix("a", RT_DTYPE_I64, 2, 2, i64);
    want = by_definition("a", 'i', 2, shape, i64, 8, 4);
    assert_true(same(hash_of(&b, 1), model_by_definition(&want, 1)));
    y[3] = 3;
    b = matrix("a", RT_DTYPE_I16, 2, 2, i16);
    assert_true(same(hash_of(&a, 1), hash_of(&b, 1)));
}

/* APR's own types, whose blocks run over the rows, and blocks that do not. */
static void test_apr_types(void **state)
{
    (void)state;
    enum { ROWS = 3, COLS = 27, N = ROWS * COLS };
    uint8_t q4[(N + 31) / 32 * 18], q8[4 + N];
    float x[N], part[COLS];
    uint64_t live = 0;
    for (int i = 0; i < N; i++) {
        int q = (i * 5 + i / 7) % 16;
        uint16_t scale = rt_f16_from_f32(0.5f * (float)(1 + i / 32));
        memcpy(q4 + i / 32 * 18, &scale, 2);
        uint8_t *byte = q4 + i / 32 * 18 + 2 + i % 32 / 2;
        *byte = (uint8_t)(i % 2 ? (*byte & 15) | q << 4 : q);
        x[i] = 0.5f * (float)(1 + i / 32) * (float)(q - 8);
    }
    rt_tensor a = matrix("a", RT_DTYPE_F32, ROWS, COLS, x), b = a;
    b.store = RT_STORE_APR_Q4;
    b.data = q4;
    b.bytes = sizeof q4;
    assert_true(rt_tensor_expected_bytes(&b, &live));
    assert_int_equal(live, sizeof q4);
    assert_true(same(hash_of(&a, 1), hash_of(&b, 1)));
    for (uint64_t r = 0; r < ROWS; r++) {
        rt_tensor_to_f32(part, &b, r, 1);
        assert_memory_equal(part, x + r * COLS, sizeof part);
    }
    float scale = 0.25f;
    memcpy(q8, &scale, 4);
    for (int i = 0; i < N; i++) {
        q8[4 + i] = (uint8_t)(int8_t)(i * 3 - 120);
        x[i] = 0.25f * (float)(i * 3 - 120);
    }
    b.store = RT_STORE_APR_Q8;
    b.data = q8;
    b.bytes = sizeof q8;
    assert_true(rt_tensor_expected_bytes(&b, &live));
    assert_int_equal(live, sizeof q8);
    assert_true(same(hash_of(&a, 1), hash_of(&b, 1)));
    rt_tensor_to_f32(part, &b, 2, 1);
    assert_memory_equal(part, x + 2 * COLS, sizeof part);
    uint16_t half[COLS];
    rt_tensor_to_dtype(half, RT_DTYPE_BF16, &b, 1, 1, part);
    for (int i = 0; i < COLS; i++) assert_int_equal(half[i], rt_bf16_from_f32(x[COLS + i]));
}

static void put_file(char *path, const char *text)
{
    strcpy(path, "/tmp/retort-test-hash-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void test_file_hash(void **state)
{
    (void)state;
    char one[64], two[64];
    rt_err e = { 0 };
    rt_model_file m = { .path = "files" };
    uint32_t part;
    rt_hash128 h;
    put_file(one, "some bytes");
    put_file(two, "others");
    assert_int_equal(rt_model_add_part(&m, one, &part, &e), RT_OK);
    assert_int_equal(rt_model_file_hash(&m, pool, &h, &e), RT_OK);
    assert_true(same(h, rt_hash("some bytes", 10)));
    assert_int_equal(rt_model_add_part(&m, two, &part, &e), RT_OK);
    assert_int_equal(part, 1);
    rt_str s = { 0 };
    add_hash(&s, rt_hash("some bytes", 10));
    add_hash(&s, rt_hash("others", 6));
    assert_int_equal(rt_model_file_hash(&m, pool, &h, &e), RT_OK);
    assert_true(same(h, rt_hash(s.data, s.len)));
    rt_str_free(&s);
    for (uint32_t i = 0; i < m.part_count; i++) rt_map_close(&m.parts[i].map);
    rt_arena_free(&m.arena);
    unlink(one);
    unlink(two);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    rt_err e;
    rt_hash128 h;
    uint16_t x[4] = { 1, 2, 3, 4 };
    double d[4] = { 1, 2, 3, 4 };
    rt_tensor t[2] = { matrix("a", RT_DTYPE_F16, 2, 2, x), matrix("b", RT_DTYPE_F64, 2, 2, d) };
    rt_model_file m = { .path = "memory", .tensors = t, .tensor_count = 2 };
    rt_pool *one;
    assert_int_equal(rt_pool_new(&one, 1, NULL), RT_OK);
    uint64_t live = rt_alloc_live();
    rt_allocator_set(&(rt_allocator){ failing_alloc, failing_free, NULL });
    int n = 0, rc = RT_NOMEM;
    for (; n < 100 && rc != RT_OK; n++) {
        e = (rt_err){ 0 };
        allowed = n;
        rc = rt_model_content_hash(&m, one, &h, NULL, &e);
        allowed = -1;
        if (rc != RT_OK) assert_int_equal(rc, RT_NOMEM);
        assert_int_equal(e.status, rc);
        assert_int_equal(rt_alloc_live(), live);
    }
    rt_allocator_set(NULL);
    assert_in_range(n, 5, 99);
    rt_pool_free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definition),    cmocka_unit_test(test_changes),   cmocka_unit_test(test_row_order),
        cmocka_unit_test(test_wide),          cmocka_unit_test(test_apr_types), cmocka_unit_test(test_file_hash),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
