/* test_ref_backend.c - the driver of the reference backend and what host backends share: devices, memory, gathering and
 * scattering of every dtype and stride, `=` and `+=`, raw copies, scratch. What the ops compute is tested elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "num/quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WORK_BYTES = 1 << 20, DATA_BYTES = 1 << 16 };

typedef struct bench {
    const rt_backend *api;
    rt_dev *dev;
    rt_mem *data, *work;
    rt_bound_op op;
} bench;

static bench begin(int device)
{
    bench b = { 0 };
    rt_err e = { 0 };
    assert_int_equal(rt_backend_find("ref", &b.api, &e), RT_OK);
    assert_int_equal(b.api->open(&b.dev, device, &(rt_dev_opts){ 0 }, &e), RT_OK);
    assert_ptr_equal(b.dev->api, b.api);
    assert_int_equal(b.api->mem_new(b.dev, DATA_BYTES, RT_MEM_DEVICE, &b.data, &e), RT_OK);
    assert_int_equal(b.api->mem_new(b.dev, WORK_BYTES, RT_MEM_DEVICE, &b.work, &e), RT_OK);
    return b;
}

static void end(bench *b)
{
    b->api->mem_free(b->dev, b->data);
    b->api->mem_free(b->dev, b->work);
    b->api->close(b->dev);
    assert_int_equal(rt_alloc_live(), 0);
}

static void put(bench *b, uint64_t off, const void *host, uint64_t bytes)
{
    rt_copy c = { b->data, off, bytes, (void *)(uintptr_t)host, true };
    assert_int_equal(b->api->copy(b->dev, &c, NULL, NULL), RT_OK);
}

static void get(bench *b, uint64_t off, void *host, uint64_t bytes)
{
    rt_copy c = { b->data, off, bytes, host, false };
    assert_int_equal(b->api->copy(b->dev, &c, NULL, NULL), RT_OK);
}

static void start(bench *b, rt_op_kind kind, uint32_t nslots, rt_args args, uint32_t acc)
{
    b->op = (rt_bound_op){ .kind = kind, .nslots = nslots, .args = args, .acc = acc };
    b->op.work =
        (rt_operand){ .mem = b->work, .dtype = RT_DTYPE_U8, .rows = 1, .cols = WORK_BYTES, .stride = WORK_BYTES };
}

static void bind(bench *b, int slot, rt_dtype d, uint64_t off, uint32_t rows, uint32_t cols, uint64_t stride)
{
    b->op.slot[slot] =
        (rt_operand){ .mem = b->data, .off = off, .dtype = d, .rows = rows, .cols = cols, .stride = stride };
}

static void run(bench *b)
{
    rt_prog *g;
    rt_err e = { 0 };
    rt_ticket t = 0, next = 0;
    assert_int_equal(b->api->seal(b->dev, &b->op, 1, &g, &e), RT_OK);
    uint64_t made = rt_alloc_count();
    assert_int_equal(b->api->run(b->dev, g, &t, &e), RT_OK);
    assert_int_equal(rt_alloc_count(), made);
    assert_int_equal(b->api->wait(b->dev, t, &e), RT_OK);
    rt_copy nothing = { b->data, 0, 0, NULL, true };
    assert_int_equal(b->api->copy(b->dev, &nothing, &next, &e), RT_OK);
    assert_true(t > 0 && next > t);
    b->api->prog_free(b->dev, g);
}

static const rt_dtype floats[] = { RT_DTYPE_F32, RT_DTYPE_BF16, RT_DTYPE_F16, RT_DTYPE_F64 };
static const rt_dtype quants[] = { RT_DTYPE_Q8_0, RT_DTYPE_Q4_0, RT_DTYPE_Q4_K, RT_DTYPE_Q5_K, RT_DTYPE_Q6_K };
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- devices and memory ---- */

static void devices(void **state)
{
    (void)state;
    const rt_backend *api;
    rt_err e = { 0 };
    rt_dev_info info[2] = { 0 };
    rt_dev *d;
    char why[160] = "";
    assert_int_equal(rt_backend_find("ref", &api, &e), RT_OK);
    assert_int_equal(api->probe(NULL, info, 1, why), 2);
    assert_int_equal(info[1].name[0], 0); /* cap is kept */
    assert_int_equal(api->probe(NULL, info, 2, why), 2);
    for (int i = 0; i < 2; i++) {
        rt_dev_info opened;
        rt_str id = { 0 };
        const char *name = i == 0 ? "ref f64" : "ref f32";
        assert_string_equal(info[i].name, name);
        assert_true(info[i].memory_total > 0);
        assert_int_equal(api->open(&d, i, &(rt_dev_opts){ 0 }, &e), RT_OK);
        assert_int_equal(api->info(d, &opened, &e), RT_OK);
        assert_string_equal(opened.name, name);
        api->identity(d, &id);
        assert_non_null(strstr(id.data, name));
        rt_str_free(&id);
        api->close(d);
    }
    assert_int_equal(api->open(&d, 2, &(rt_dev_opts){ 0 }, &e), RT_NOT_FOUND);
    assert_null(d);
    assert_int_equal(api->open(&d, -1, &(rt_dev_opts){ 0 }, &e), RT_NOT_FOUND);
    api->close(NULL);
    api->mem_free(NULL, NULL);
    api->prog_free(NULL, NULL);
    assert_int_equal(rt_backend_find("tpu", &api, &e), RT_NO_BACKEND);
    assert_non_null(strstr(e.text, "tpu"));
    assert_non_null(strstr(e.text, "ref"));
    assert_int_equal(rt_alloc_live(), 0);
}

static void memory(void **state)
{
    (void)state;
    bench b = begin(0);
    rt_err e = { 0 };
    rt_mem *m;
    assert_int_equal(b.api->mem_new(b.dev, UINT64_MAX / 2 + 2, RT_MEM_DEVICE, &m, &e), RT_NOMEM);
    assert_null(m);
    assert_int_equal(b.api->mem_new(b.dev, 0, RT_MEM_DEVICE, &m, &e), RT_OK);
    b.api->mem_free(b.dev, m);
    assert_int_equal(b.api->mem_new(b.dev, 5u << 20, RT_MEM_HOST_PINNED, &m, &e), RT_OK); /* of the huge-page kind */
    uint8_t last = 9, back = 0;
    rt_copy in = { m, (5u << 20) - 1, 1, &last, true }, out = { m, (5u << 20) - 1, 1, &back, false };
    assert_int_equal(b.api->copy(b.dev, &in, NULL, &e), RT_OK);
    assert_int_equal(b.api->copy(b.dev, &out, NULL, &e), RT_OK);
    assert_int_equal(back, 9);
    in.bytes = 2;
    assert_int_equal(b.api->copy(b.dev, &in, NULL, &e), RT_INTERNAL);
    in.off = UINT64_MAX;
    assert_int_equal(b.api->copy(b.dev, &in, NULL, &e), RT_INTERNAL);
    b.api->mem_free(b.dev, m);
    end(&b);
}

/* ---- dtypes and strides ---- */

/* y (3,5) stride 7 = x (3,5) stride 6, for every pair of dtypes: each value rounded once, gaps untouched. */
static void casts_between_strided_views(void **state)
{
    (void)state;
    for (int dev = 0; dev < 2; dev++)
        for (size_t i = 0; i < COUNT(floats); i++)
            for (size_t j = 0; j < COUNT(floats); j++) {
                bench b = begin(dev);
                double x[18], y[21], got[21];
                uint8_t raw[21 * 8];
                for (int n = 0; n < 18; n++) x[n] = sin(n + 0.5) * (n % 4 ? 1 : 1000);
                for (int n = 0; n < 21; n++) y[n] = -n;
                rt_float_from_f64(raw, x, floats[i], 18);
                rt_float_to_f64(x, raw, floats[i], 18);
                put(&b, 64, raw, sizeof raw);
                rt_float_from_f64(raw, y, floats[j], 21);
                put(&b, 1024, raw, sizeof raw);
                start(&b, RT_OP_CAST, 2, (rt_args){ .rows = { .N = 3, .C = 5 } }, 0);
                bind(&b, RT_ROWS_Y, floats[j], 1024, 3, 5, 7);
                bind(&b, RT_ROWS_X, floats[i], 64, 3, 5, 6);
                run(&b);
                get(&b, 1024, raw, sizeof raw);
                rt_float_to_f64(got, raw, floats[j], 21);
                for (int r = 0; r < 3; r++)
                    for (int c = 0; c < 7; c++) {
                        double want = c < 5 ? x[r * 6 + c] : y[r * 7 + c];
                        if (dev == 1) want = (float)want; /* computed in float */
                        rt_float_from_f64(raw, &want, floats[j], 1);
                        rt_float_to_f64(&want, raw, floats[j], 1);
                        assert_true(got[r * 7 + c] == want);
                    }
                end(&b);
            }
}

/* The double device rounds a result once, from double; here by way of f32 it would be another bf16. */
static void rounds_once(void **state)
{
    (void)state;
    bench b = begin(0);
    float x[2] = { 1.0f + 0x1p-8f, 0x1p-40f }; /* half way between two bf16, and a nudge */
    uint16_t y = 0;
    put(&b, 0, x, sizeof x);
    start(&b, RT_OP_MATMUL, 4, (rt_args){ .matmul = { 1, 1, 2, 0, 1, 1 } }, 0);
    float one[2] = { 1, 1 };
    put(&b, 64, one, sizeof one);
    bind(&b, RT_MM_OUT, RT_DTYPE_BF16, 128, 1, 1, 1);
    bind(&b, RT_MM_A, RT_DTYPE_F32, 0, 1, 2, 2);
    bind(&b, RT_MM_B, RT_DTYPE_F32, 64, 1, 2, 2);
    run(&b);
    get(&b, 128, &y, 2);
    assert_true(rt_bf16_to_f32(y) == 1.0f + 0x1p-7f);
    end(&b);
}

static void blocks_in_and_out(void **state)
{
    (void)state;
    for (int dev = 0; dev < 2; dev++)
        for (size_t i = 0; i < COUNT(quants); i++) {
            enum { ROWS = 2, COLS = 512, STRIDE = 768 };
            bench b = begin(dev);
            static float x[ROWS * COLS], want[COLS], got[ROWS * COLS];
            static uint8_t blocks[ROWS * STRIDE * 2], expect[COLS * 2];
            uint64_t row = rt_dtype_bytes(quants[i], COLS);
            for (int n = 0; n < ROWS * COLS; n++) x[n] = sinf((float)n);
            put(&b, 0, x, sizeof x);
            start(&b, RT_OP_QUANT, 2, (rt_args){ .rows = { .N = ROWS, .C = COLS } }, 0);
            bind(&b, RT_ROWS_Y, quants[i], 8192, ROWS, COLS, STRIDE);
            bind(&b, RT_ROWS_X, RT_DTYPE_F32, 0, ROWS, COLS, COLS);
            run(&b);
            get(&b, 8192, blocks, sizeof blocks);
            start(&b, RT_OP_DEQUANT, 2, (rt_args){ .rows = { .N = ROWS, .C = COLS } }, 0);
            bind(&b, RT_ROWS_Y, RT_DTYPE_F32, 32768, ROWS, COLS, COLS);
            bind(&b, RT_ROWS_X, quants[i], 8192, ROWS, COLS, STRIDE);
            run(&b);
            get(&b, 32768, got, sizeof got);
            for (int r = 0; r < ROWS; r++) {
                rt_quant_from_f32(expect, x + r * COLS, quants[i], COLS);
                assert_memory_equal(blocks + (uint64_t)r * rt_dtype_bytes(quants[i], STRIDE), expect, row);
                rt_quant_to_f32(want, expect, quants[i], COLS);
                assert_memory_equal(got + r * COLS, want, sizeof want);
            }
            end(&b);
        }
}

/* Bytes that no float conversion would leave alone: signalling NaNs, and blocks that are not numbers at all. */
static void copies_look_at_no_value(void **state)
{
    (void)state;
    const rt_dtype all[] = { RT_DTYPE_F32, RT_DTYPE_F16, RT_DTYPE_F64, RT_DTYPE_I32, RT_DTYPE_U8, RT_DTYPE_Q4_K };
    for (int dev = 0; dev < 2; dev++)
        for (size_t i = 0; i < COUNT(all); i++) {
            bench b = begin(dev);
            uint32_t cols = rt_dtype_table[all[i]].block_elems * 2;
            uint64_t bytes = rt_dtype_bytes(all[i], cols);
            static uint8_t x[4096], y[4096], want[4096];
            const int32_t rows[4] = { 2, -1, 5, 2 }; /* one skipped, one outside, the last one wins */
            for (size_t n = 0; n < sizeof x; n++) x[n] = (uint8_t)(n % 4 == 2 ? 0xa0 : n % 4 == 3 ? 0x7f : n * 7);
            memset(y, 0x55, sizeof y);
            put(&b, 0, x, 4 * bytes);
            put(&b, 8192, y, sizeof y);
            put(&b, 32768, rows, sizeof rows);
            start(&b, RT_OP_COPY, 3, (rt_args){ .rows = { .N = 4, .C = cols, .R = 5 } }, 0);
            bind(&b, RT_ROWS_Y, all[i], 8192, 5, cols, cols);
            bind(&b, RT_ROWS_X, all[i], 0, 4, cols, cols);
            bind(&b, RT_ROWS_B, RT_DTYPE_I32, 32768, 4, 1, 1);
            run(&b);
            get(&b, 8192, y, sizeof y);
            memset(want, 0x55, sizeof want);
            memcpy(want + 2 * bytes, x + 3 * bytes, bytes);
            assert_memory_equal(y, want, sizeof y);
            start(&b, RT_OP_COPY, 3, (rt_args){ .rows = { .N = 4, .C = cols } }, 0);
            bind(&b, RT_ROWS_Y, all[i], 8192, 4, cols, cols);
            bind(&b, RT_ROWS_X, all[i], 0, 4, cols, cols);
            run(&b);
            get(&b, 8192, y, sizeof y);
            memcpy(want, x, 4 * bytes);
            assert_memory_equal(y, want, sizeof y);
            end(&b);
        }
}

/* ---- `=` and `+=` ---- */

static void accumulates_only_when_told(void **state)
{
    (void)state;
    for (int add = 0; add < 2; add++) {
        bench b = begin(0);
        float dy[6] = { 1, 2, 3, 4, 5, 6 }, db[3] = { add ? 10 : NAN, add ? 20 : NAN, add ? 30 : NAN };
        put(&b, 0, dy, sizeof dy);
        put(&b, 64, db, sizeof db);
        start(&b, RT_OP_BIAS_GRAD, 2, (rt_args){ .rows = { .N = 2, .C = 3 } }, add ? 1u << RT_BIASG_DB : 0);
        bind(&b, RT_BIASG_DB, RT_DTYPE_F32, 64, 1, 3, 3);
        bind(&b, RT_BIASG_DY, RT_DTYPE_F32, 0, 2, 3, 3);
        run(&b);
        get(&b, 64, db, sizeof db);
        for (int j = 0; j < 3; j++) assert_true(db[j] == (float)(5 + 2 * j + (add ? 10 * (j + 1) : 0)));
        end(&b);
    }
}

/* A sparse sum keeps the rows it does not touch. */
static void sparse_rows_stay(void **state)
{
    (void)state;
    bench b = begin(1);
    float table[6] = { 1, 2, 3, 4, 5, 6 }, dy[4] = { 10, 20, 30, 40 };
    const float want[6] = { 1, 2, 43, 64, 5, 6 };
    const int32_t ids[2] = { 1, 1 };
    put(&b, 0, dy, sizeof dy);
    put(&b, 64, ids, sizeof ids);
    put(&b, 128, table, sizeof table);
    start(&b, RT_OP_EMBED_BWD, 3, (rt_args){ .embed = { 2, 3, 2 } }, 0);
    bind(&b, RT_EMBED_DTABLE, RT_DTYPE_F32, 128, 3, 2, 2);
    bind(&b, RT_EMBED_DY, RT_DTYPE_F32, 0, 2, 2, 2);
    bind(&b, RT_EMBED_BIDS, RT_DTYPE_I32, 64, 2, 1, 1);
    run(&b);
    get(&b, 128, table, sizeof table);
    assert_memory_equal(table, want, sizeof want);
    end(&b);
}

/* In place: an output that is its own input, and a residual sum that is one of its terms. */
static void aliasing_does_not_matter(void **state)
{
    (void)state;
    bench b = begin(0);
    float x[4] = { 3, 4, 6, 8 }, res[4] = { 0, 0, 0, 0 }, w[2] = { 1, 2 }, y[4];
    put(&b, 0, x, sizeof x);
    put(&b, 64, res, sizeof res);
    put(&b, 128, w, sizeof w);
    start(&b, RT_OP_ADD_RMSNORM_FWD, 6, (rt_args){ .rmsnorm = { 2, 1, 2, 0 } }, 0);
    bind(&b, RT_ARMS_Y, RT_DTYPE_F32, 192, 2, 2, 2);
    bind(&b, RT_ARMS_H, RT_DTYPE_F32, 0, 2, 2, 2);
    bind(&b, RT_ARMS_X, RT_DTYPE_F32, 0, 2, 2, 2);
    bind(&b, RT_ARMS_RES, RT_DTYPE_F32, 64, 2, 2, 2);
    bind(&b, RT_ARMS_W, RT_DTYPE_F32, 128, 1, 2, 2);
    run(&b);
    get(&b, 192, y, sizeof y);
    for (int i = 0; i < 4; i++) {
        double rms = i < 2 ? sqrt(12.5) : sqrt(50);
        assert_true(y[i] == (float)(x[i] / rms * w[i % 2]));
    }
    end(&b);
}

/* ---- scratch ---- */

static void seal_wants_all_its_scratch(void **state)
{
    (void)state;
    bench b = begin(0);
    rt_prog *g;
    rt_err e = { 0 };
    start(&b, RT_OP_MATMUL, 4, (rt_args){ .matmul = { 2, 3, 5, 0, 1, 1 } }, 0);
    bind(&b, RT_MM_OUT, RT_DTYPE_F32, 0, 2, 3, 3);
    bind(&b, RT_MM_A, RT_DTYPE_F32, 64, 2, 5, 5);
    bind(&b, RT_MM_B, RT_DTYPE_F32, 128, 3, 5, 5);
    uint32_t need = 64 + 128 + 128 + 192; /* doubles: 6, 10, 15, and 3 + 15 of the op, in units of 64 bytes */
    b.op.work.cols = need - 1;
    assert_int_equal(b.api->seal(b.dev, &b.op, 1, &g, &e), RT_INTERNAL);
    assert_null(g);
    assert_non_null(strstr(e.text, "matmul"));
    b.op.work.cols = need;
    assert_int_equal(b.api->seal(b.dev, &b.op, 1, &g, &e), RT_OK);
    b.api->prog_free(b.dev, g);
    b.op.work.mem = NULL;
    assert_int_equal(b.api->seal(b.dev, &b.op, 1, &g, &e), RT_INTERNAL);
    assert_int_equal(b.api->seal(b.dev, NULL, 0, &g, &e), RT_OK);
    b.api->prog_free(b.dev, g);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices),
        cmocka_unit_test(memory),
        cmocka_unit_test(casts_between_strided_views),
        cmocka_unit_test(rounds_once),
        cmocka_unit_test(blocks_in_and_out),
        cmocka_unit_test(copies_look_at_no_value),
        cmocka_unit_test(accumulates_only_when_told),
        cmocka_unit_test(sparse_rows_stay),
        cmocka_unit_test(aliasing_does_not_matter),
        cmocka_unit_test(seal_wants_all_its_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
