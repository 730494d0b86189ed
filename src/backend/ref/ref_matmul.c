/* ref_matmul.c - out += alpha op(a) op(b) + bias, and the same of codes: with a scale for each row, or for each block.
 *
 * One row of out at a time, adding a[i,k] times row k of op(b) in order of k, so that memory is walked in order: four
 * of k in one walk over n, each added to what those before it have left. A b that is stored (N,K) is transposed into
 * the scratch first: N + (tb ? N*K : 0) elements. */
#include "backend/ref/ref.h"

static void transpose(real *y /* (K,N) */, const real *x /* (N,K) */, size_t N, size_t K)
{
    for (size_t n = 0; n < N; n++)
        for (size_t k = 0; k < K; k++) y[k * N + n] = x[n * K + k];
}

/* sum (N) += x[0] b[0] + ... + x[3] b[3] in that order, rows of b (4,N). */
static void add_four(real *restrict sum, const real *x, const real *restrict b, size_t N)
{
    const real x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
    for (size_t n = 0; n < N; n++)
        sum[n] = (((sum[n] + x0 * b[n]) + x1 * b[N + n]) + x2 * b[2 * N + n]) + x3 * b[3 * N + n];
}

static void add_one(real *restrict sum, real x, const real *restrict b, size_t N)
{
    for (size_t n = 0; n < N; n++) sum[n] += x * b[n];
}

/* sum (N) = row x of op(a), whose elements are `next` apart, times B (K,N) */
static void row_times(real *sum, const real *x, size_t next, const real *B, size_t N, size_t K)
{
    size_t k = 0;
    for (size_t n = 0; n < N; n++) sum[n] = 0;
    for (; k + 4 <= K; k += 4, x += 4 * next)
        add_four(sum, (const real[]){ x[0], x[next], x[2 * next], x[3 * next] }, B + k * N, N);
    for (; k < K; k++, x += next) add_one(sum, *x, B + k * N, N);
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
    const size_t row = a->ta ? 1 : K, next = a->ta ? M : 1; /* op(A)[m,k] is A[m * row + k * next] */
    for (size_t m = 0; m < M; m++) {
        row_times(sum, A + m * row, next, B, N, K);
        for (size_t n = 0; n < N; n++) out[m * N + n] += a->alpha * sum[n] + (bias ? bias[n] : 0);
    }
}

/* out += a b' + bias, of the values that codes and blocks stand for: the slots are matmul's. */
void REF(matmul_int8)(const rt_ref_call *c) { REF(matmul)(c); }

/* out[m,n] += sa[m] sb[n] (a b')[m,n] + bias[n] */
void REF(matmul_scaled)(const rt_ref_call *c)
{
    const rt_matmul_args *a = &c->args->matmul;
    size_t M = a->M, N = a->N, K = a->K;
    real *out = c->s[RT_MMS_OUT];                            /* (M,N) += */
    const real *A = c->s[RT_MMS_A];                          /* (M,K) */
    const real *sa = c->s[RT_MMS_SA], *sb = c->s[RT_MMS_SB]; /* (M,1), (N,1) */
    const real *bias = c->s[RT_MMS_BIAS];                    /* (1,N) or null */
    real *sum = c->work, *flipped = sum + N;                 /* (N), (K,N) */
    transpose(flipped, c->s[RT_MMS_B], N, K);
    for (size_t m = 0; m < M; m++) {
        row_times(sum, A + m * K, 1, flipped, N, K);
        for (size_t n = 0; n < N; n++) out[m * N + n] += sa[m] * sb[n] * sum[n] + (bias ? bias[n] : 0);
    }
}
