/* vk_matmul_out.glsl - where a GEMM ends: out = or += alpha, or two scales, times a sum, + bias.
 *
 * S2 bit 0: rows of a and of b have scales (matmul_scaled). */
#ifndef VK_MATMUL_OUT_GLSL
#define VK_MATMUL_OUT_GLSL

const uint OUT = 0, A = 1, B = 2, SA = 3, SB = 4;
#define SCALED ((S2 & 1) != 0)

void finish(Slot o, uint m, uint n, float sum)
{
    if (m >= push.a.M || n >= push.a.N) return;
    float v = push.a.alpha * sum;
    if (SCALED) {
        Slot sa = slot_of(SA), sb = slot_of(SB);
        v = load_f32(sa.at, m * sa.stride) * load_f32(sb.at, n * sb.stride) * sum;
    }
    uint bias_at = SCALED ? 5 : 3;
    if (has(bias_at)) {
        Slot bias = slot_of(bias_at);
        v += get(bias, 0, n, bias.dtype);
    }
    put_sum(o, m, n, o.dtype, adds(OUT), v);
}

#endif
