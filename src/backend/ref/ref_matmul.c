/* ref_matmul.c - out += alpha op(a) op(b) + bias.
 *
 * One row of out at a time, adding a[i,k] times row k of op(b) in order of k, so that memory is walked in order. A b
 * that is stored (N,K) is transposed into the scratch first: N + (tb ? N*K : 0) elements. */
#include "backend/ref/ref.h"

static void transpose(real *y /* (K,N) */, const real *x /* (N,K) */, size_t N, size_t K)
{
    for (size_t n = 0; n < N; n++)
        for (size_t k = 0; k < K; k++) y[k * N + n] = x[n * K + k];
}

void REF(matmul)(const rt_ref_call *c)
{
    const rt_matmul_args *a = &c->args->matmul;
    size_t M = a->M, N = a->N, K = a->K;
    real *out = c->s[RT_MM_OUT];         /* (M,N) += */
    const real *A = c->s[RT_MM_A];       /* (M,K), or (K,M) when ta */
    const real *B = c->s[RT_MM_B];       /* (K,N), or (N,K) when tb */
    const real *bias = c->s[RT_MM_BIAS]; /* (1,N) or null */
    real *sum = c->work;                 /* (N) */
    if (a->tb) {
        real *flipped = sum + N; /* (K,N) */
        transpose(flipped, B, N, K);
        B = flipped;
    }
    for (size_t m = 0; m < M; m++) {
        for (size_t n = 0; n < N; n++) sum[n] = 0;
        for (size_t k = 0; k < K; k++) {
            real x = a->ta ? A[k * M + m] : A[m * K + k];
            for (size_t n = 0; n < N; n++) sum[n] += x * B[k * N + n];
        }
        for (size_t n = 0; n < N; n++) out[m * N + n] += a->alpha * sum[n] + (bias ? bias[n] : 0);
    }
}
