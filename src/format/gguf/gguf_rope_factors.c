/* gguf_rope_factors.c - rope scaling as GGUF has it: of llama3 a table of factors instead of its four parameters.
 *
 * Owns: both directions. Only the ratios of original context, low and high factor show in the table, so the parameters
 * are found by trying those that models are published with; another triple with the same ratios computes the same. */
#include "format/gguf/gguf.h"

#include <math.h>

#define TWO_PI 6.283185307179586476925286766559
/* The table was computed in f32 by whoever wrote it; other parameters differ by far more. */
#define SAME 1e-4

double rt_gguf_yarn_default(double factor) { return factor <= 1 ? 1 : 0.1 * log(factor) + 1; }

static double factor_at(uint32_t i, uint32_t D, const rt_rope_scaling *s)
{
    float exponent = (float)(2.0 * i) / (float)D;
    double wave = TWO_PI * pow(s->theta, exponent);
    if (wave < s->original_context / s->high_freq) return 1;
    if (wave > s->original_context / s->low_freq) return s->factor;
    double smooth = (s->original_context / wave - s->low_freq) / (s->high_freq - s->low_freq);
    return 1 / ((1 - smooth) / s->factor + smooth);
}

void rt_gguf_rope_factors(float *factors, uint32_t D, const rt_rope_scaling *s)
{
    for (uint32_t i = 0; i < D / 2; i++) factors[i] = (float)factor_at(i, D, s);
}

bool rt_gguf_rope_fits(const float *factors, uint32_t D, const rt_rope_scaling *s)
{
    for (uint32_t i = 0; i < D / 2; i++) {
        double want = factor_at(i, D, s);
        if (!(fabs((double)factors[i] - want) <= SAME * want)) return false;
    }
    return true;
}

bool rt_gguf_rope_recover(rt_rope_scaling *s, const float *factors, uint32_t D)
{
    static const double highs[] = { 4, 2, 8, 16, 32 };
    /* 8192 first, since it is nearly always that; a short table may fit more than one. */
    static const double contexts[] = { 8192, 4096,  2048,  1024,  512,    256,    128,    64,     32,
                                       16,   16384, 32768, 65536, 131072, 262144, 524288, 1048576 };
    /* The largest is the factor itself, unless no wave is long enough to be slowed by all of it. */
    double candidates[] = { 1, 8, 32, 2, 4, 16, 64 };
    double largest = 0;
    for (uint32_t i = 0; i < D / 2; i++) {
        if (!(factors[i] >= 1) || !isfinite(factors[i])) return false;
        if ((double)factors[i] > largest) largest = (double)factors[i];
    }
    if (largest <= 1 + SAME) {
        s->kind = RT_ROPE_PLAIN;
        return D >= 2;
    }
    candidates[0] = largest;
    s->kind = RT_ROPE_LLAMA3;
    s->low_freq = 1;
    for (size_t f = 0; f < sizeof candidates / sizeof candidates[0]; f++) {
        s->factor = candidates[f];
        for (size_t h = 0; h < sizeof highs / sizeof highs[0]; h++) {
            s->high_freq = highs[h];
            for (size_t c = 0; c < sizeof contexts / sizeof contexts[0]; c++) {
                s->original_context = contexts[c];
                if (rt_gguf_rope_fits(factors, D, s)) return true;
            }
        }
    }
    return false;
}
