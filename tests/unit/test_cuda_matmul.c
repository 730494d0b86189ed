/* test_cuda_matmul.c - the host side of our own products on CUDA: which kernel a product gets, how its work is cut, how
 * much scratch it asks for. Nothing is run: numbers are proved by `retort verify --backend cuda --cublaslt none`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cuda/cuda_matmul_own.h"
#include "backend/cuda/kernels/cuda_matmul.h"
#include "base/rng.h"

static const rt_cuda_caps h200 = { 90, 132, 232448, 0, 0 }, a100 = { 80, 108, 166912, 0, 0 },
                          ada = { 89, 128, 101376, 0, 0 }, turing = { 75, 40, 65536, 0, 0 };

static rt_cuda_side side(rt_dtype d, uint64_t stride, uint32_t align)
{
    return (rt_cuda_side){ true, d, stride, align };
}

/* nt, dense but for what the strides say. */
static rt_cuda_own own(const rt_cuda_caps *c, rt_dtype d, uint32_t M, uint32_t N, uint32_t K, uint64_t stride,
                       uint32_t align)
{
    rt_cuda_side s[4] = { 0 };
    s[RT_MM_OUT] = side(d, N, 256);
    s[RT_MM_A] = side(d, stride, align);
    s[RT_MM_B] = side(d, K, 256);
    return rt_cuda_own_choose(c, &(rt_matmul_args){ M, N, K, 0, 1, 1.0f }, s);
}

static void aligned_operands_of_16_bits_take_tensor_cores(void **state)
{
    (void)state;
    assert_int_equal(own(&h200, RT_DTYPE_BF16, 512, 512, 512, 512, 256).stages, 4);
    assert_int_equal(own(&h200, RT_DTYPE_F16, 512, 512, 512, 512, 16).stages, 4);
    assert_int_equal(own(&a100, RT_DTYPE_BF16, 512, 512, 512, 512, 256).stages, 3); /* by its shared memory */
    assert_int_equal(own(&ada, RT_DTYPE_BF16, 512, 512, 512, 512, 256).stages, 2);
    assert_int_equal(own(&h200, RT_DTYPE_F32, 512, 512, 512, 512, 256).stages, 0); /* true f32 */
    assert_int_equal(own(&turing, RT_DTYPE_F16, 512, 512, 512, 512, 256).stages, 0);
    assert_int_equal(own(&h200, RT_DTYPE_BF16, 512, 512, 512, 516, 256).stages, 0); /* a stride of 1032 bytes */
    assert_int_equal(own(&h200, RT_DTYPE_BF16, 512, 512, 512, 512, 8).stages, 0);
    assert_int_equal(own(&h200, RT_DTYPE_BF16, 3, 5, 7, 8, 16).stages, 0); /* b has a stride of 14 bytes */
    assert_string_equal(own(&h200, RT_DTYPE_BF16, 8, 8, 8, 8, 16).text, "own tiles 256x128, tensor cores");
    assert_string_equal(own(&h200, RT_DTYPE_F32, 8, 8, 8, 8, 16).text, "own tiles 128x128");
}

static void what_is_left_for_a_last_wave_is_cut(void **state)
{
    rt_cuda_own o;
    (void)state;
    o = own(&h200, RT_DTYPE_BF16, 4864, 896, 8192, 8192, 256); /* 19 x 7 tiles: one more than there are processors */
    assert_int_equal(o.whole, 132);
    assert_int_equal(o.parts, 16);
    assert_int_equal(o.part_K, 512);
    assert_int_equal(o.blocks, 132 + 16);
    assert_int_equal(o.work_bytes, 16ull * 256 * 128 * 4);
    o = own(&h200, RT_DTYPE_BF16, 256, 128, 2312, 2312, 256); /* one tile; parts of no less than 512 */
    assert_int_equal(o.whole, 0);
    assert_int_equal(o.parts, 4);
    assert_int_equal(o.part_K, 640);
    o = own(&h200, RT_DTYPE_BF16, 8192, 4864, 896, 896, 256); /* too short to be cut */
    assert_int_equal(o.parts, 1);
    assert_int_equal(o.blocks, 32 * 38);
    assert_int_equal(o.work_bytes, 0);
    o = own(&h200, RT_DTYPE_BF16, 8192, 896, 8192, 8192, 256); /* 92 left: no cut saves what it costs */
    assert_int_equal(o.parts, 1);
    assert_int_equal(o.whole, 32 * 7);
    o = own(&h200, RT_DTYPE_BF16, 4096, 896, 151936, 151936, 256); /* 112 of 132 processors, or six waves of sevenths */
    assert_int_equal(o.parts, 7);
    assert_int_equal(o.blocks, 112 * 7);
    o = own(&h200, RT_DTYPE_BF16, 132 * 256, 128, 8192, 8192, 256); /* a whole wave */
    assert_int_equal(o.parts, 1);
    assert_int_equal(o.whole, 132);
    o = own(&turing, RT_DTYPE_F32, 128, 128, 8192, 8192, 256); /* two blocks at a time on each processor */
    assert_int_equal(o.parts, 16);
}

/* Every part has something to do, all parts together are K, and every tile is either whole or cut. */
static void parts_are_the_whole(void **state)
{
    const rt_cuda_caps *const all[] = { &h200, &a100, &ada, &turing };
    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        rt_rng4 r = rt_philox(7, 0, i);
        uint32_t M = 1 + r.v[0] % 9000, N = 1 + r.v[1] % 9000, K = 1 + r.v[2] % 20000;
        rt_cuda_own o = own(all[i % 4], i % 3 ? RT_DTYPE_BF16 : RT_DTYPE_F32, M, N, K, (K + 7) / 8 * 8, 256);
        uint64_t tiles = (uint64_t)o.tiles_m * o.tiles_n, cut = tiles - o.whole;
        assert_true(o.tiles_m * o.tile_m >= M && (o.tiles_m - 1) * o.tile_m < M);
        assert_true(o.tiles_n * o.tile_n >= N && (o.tiles_n - 1) * o.tile_n < N);
        assert_true(o.parts >= 1 && o.parts <= 16 && o.whole <= tiles);
        assert_true((uint64_t)o.parts * o.part_K >= K && (uint64_t)(o.parts - 1) * o.part_K < K);
        assert_true(o.parts == 1 || (o.part_K % RT_MMA_STEP == 0 && o.part_K >= 512));
        assert_int_equal(o.blocks, o.whole + cut * o.parts);
        assert_int_equal(o.work_bytes, cut * o.parts * o.tile_m * o.tile_n * 4);
        assert_true(o.parts > 1 || cut == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_operands_of_16_bits_take_tensor_cores),
        cmocka_unit_test(what_is_left_for_a_last_wave_is_cut),
        cmocka_unit_test(parts_are_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
