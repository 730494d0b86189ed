/* ref_rope.c - rotary position embedding: in each head the pair (j, j + D/2) turns by pos * freq[j]. The backward
 * turns the other way, because the transpose of a rotation is its inverse. */
#include "backend/ref/ref.h"

#include <tgmath.h>

/* y, x (N,H*D); freq (1,D/2); pos (N,1); direction +1 or -1 */
static void rotate(const rt_ref_call *c, int direction)
{
    const rt_rope_args *a = &c->args->rope;
    real *y = c->s[RT_ROPE_Y];
    const real *x = c->s[RT_ROPE_X], *freq = c->s[RT_ROPE_FREQ];
    const int32_t *pos = c->s[RT_ROPE_POS];
    size_t H = a->H, D = a->D, half = D / 2;
    for (size_t i = 0; i < a->N; i++)
        for (size_t j = 0; j < half; j++) {
            real angle = pos[i] * freq[j];
            real cosine = cos(angle) * a->scale, sine = sin(angle) * a->scale * direction;
            for (size_t h = 0; h < H; h++) {
                size_t lo = (i * H + h) * D + j, hi = lo + half;
                y[lo] = x[lo] * cosine - x[hi] * sine;
                y[hi] = x[hi] * cosine + x[lo] * sine;
            }
        }
}

void REF(rope_fwd)(const rt_ref_call *c) { rotate(c, 1); }
void REF(rope_bwd)(const rt_ref_call *c) { rotate(c, -1); }
