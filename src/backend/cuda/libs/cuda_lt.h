/* cuda_lt.h - cuBLASLt, NVIDIA's library of GEMMs, opened at run time.
 *
 * Owns: which of those that are found (cuda_search.h) can be used, its one list of functions, the numbers of its
 * interface that are used here, and its results as sentences. Leaves GEMMs to cuda_gemm.c. */
#ifndef RT_BACKEND_CUDA_LIBS_CUDA_LT_H
#define RT_BACKEND_CUDA_LIBS_CUDA_LT_H

#include "backend/cuda/cuda_options.h"
#include "base/dynlib.h"

typedef struct rt_lt_algo {
    uint64_t data[8];
} rt_lt_algo;

typedef struct rt_lt_choice { /* cublasLtMatmulHeuristicResult_t */
    rt_lt_algo algo;
    size_t work_bytes;
    int state;
    float waves;
    int reserved[4];
} rt_lt_choice;

/* Numbers of cublasLt.h, library_types.h and cublas_api.h */
enum {
    RT_LT_F32 = 0,
    RT_LT_F16 = 2,
    RT_LT_BF16 = 14,
    RT_LT_E4M3 = 28,
    RT_LT_COMPUTE_F32 = 68, /* true f32: no TF32 */
    RT_LT_DESC_TRANS_A = 3,
    RT_LT_DESC_TRANS_B = 4,
    RT_LT_DESC_EPILOGUE = 7,
    RT_LT_DESC_BIAS = 8,
    RT_LT_DESC_SCALE_A = 17, /* device pointers */
    RT_LT_DESC_SCALE_B = 18,
    RT_LT_DESC_FAST_ACCUM = 25,
    RT_LT_DESC_BIAS_TYPE = 26,
    RT_LT_DESC_SCALE_MODE_A = 31,
    RT_LT_DESC_SCALE_MODE_B = 32,
    RT_LT_SCALE_ROWS = 3, /* an f32 for each row of a GEMM's operand; Hopper's alone has it */
    RT_LT_TRANSPOSE = 1,
    RT_LT_EPILOGUE_BIAS = 4,
    RT_LT_PREF_WORK_BYTES = 1,
    RT_LT_PREF_REDUCTIONS = 3,
    RT_LT_PREF_ALIGN_A = 5, /* B, C and D follow */
    RT_LT_REDUCTION_COMPUTE_TYPE = 2,
    RT_LT_CONFIG_ID = 0,
    RT_LT_CONFIG_TILE = 1,
    RT_LT_CONFIG_SPLIT_K = 2,
    RT_LT_CONFIG_REDUCTION = 3,
    RT_LT_CONFIG_SWIZZLE = 4,
    RT_LT_CONFIG_CUSTOM = 5,
    RT_LT_CONFIG_STAGES = 6,
    RT_LT_CONFIG_INNER = 7,
    RT_LT_CONFIG_CLUSTER = 8
};

/* member, symbol, result, parameters */
#define RT_LT_LIST(X)                                                                                                  \
    X(get_version, cublasLtGetVersion, size_t, (void))                                                                 \
    X(get_cudart, cublasLtGetCudartVersion, size_t, (void))                                                            \
    X(status_text, cublasLtGetStatusString, const char *, (int status))                                                \
    X(create, cublasLtCreate, int, (void **handle))                                                                    \
    X(destroy, cublasLtDestroy, int, (void *handle))                                                                   \
    X(desc_new, cublasLtMatmulDescCreate, int, (void **desc, int compute, int scale))                                  \
    X(desc_free, cublasLtMatmulDescDestroy, int, (void *desc))                                                         \
    X(desc_set, cublasLtMatmulDescSetAttribute, int, (void *desc, int which, const void *value, size_t bytes))         \
    X(layout_new, cublasLtMatrixLayoutCreate, int,                                                                     \
      (void **layout, int type, uint64_t rows, uint64_t cols, int64_t stride))                                         \
    X(layout_free, cublasLtMatrixLayoutDestroy, int, (void *layout))                                                   \
    X(pref_new, cublasLtMatmulPreferenceCreate, int, (void **pref))                                                    \
    X(pref_free, cublasLtMatmulPreferenceDestroy, int, (void *pref))                                                   \
    X(pref_set, cublasLtMatmulPreferenceSetAttribute, int, (void *pref, int which, const void *value, size_t bytes))   \
    X(choose, cublasLtMatmulAlgoGetHeuristic, int,                                                                     \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int count, rt_lt_choice *out,         \
       int *found))                                                                                                    \
    X(config, cublasLtMatmulAlgoConfigGetAttribute, int,                                                               \
      (const rt_lt_algo *algo, int which, void *value, size_t bytes, size_t *written))                                 \
    X(matmul, cublasLtMatmul, int,                                                                                     \
      (void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b, void *lb,                  \
       const void *beta, const void *c, void *lc, void *d, void *ld, const rt_lt_algo *algo, void *work,               \
       size_t work_bytes, void *stream))

typedef struct rt_cuda_lt {
    rt_dynlib lib;    /* handle null: there is none */
    uint32_t version; /* 130100: 13.1.0 */
#define X(member, symbol, result, params) result(*member) params;
    RT_LT_LIST(X)
#undef X
} rt_cuda_lt;

/* Looks for the library (o->cublaslt unless null, the loader's path, CUDA's, conda's and Python's folders) and takes
 * the first that is new enough and that the driver (13000: CUDA 13.0) can serve. RT_NOT_FOUND says where was looked or
 * what was wrong with those that were found. */
int rt_cuda_lt_open(rt_cuda_lt *lt, const rt_cuda_options *o, int driver, rt_err *e);
void rt_cuda_lt_close(rt_cuda_lt *lt);
/* RT_OK, or a status of the library as RT_DEVICE (RT_NOMEM for its out of memory). */
int rt_cuda_lt_status(const rt_cuda_lt *lt, int status, const char *what, rt_err *e);

#endif
