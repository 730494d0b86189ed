/* tensor.h - one tensor of an opened model: where its bytes are, what they mean, and its rows as f32.
 *
 * Owns: the directory entry that every format fills. Bytes stay in the mapped file; a row is contiguous in every
 * format. GGUF stores the q and k rows of the llama family in another order: the entry says so, and rows are always
 * asked for by their canonical (Hugging Face) number, so nobody else has to know. */
#ifndef RT_FORMAT_TENSOR_H
#define RT_FORMAT_TENSOR_H

#include "format/config/names.h"

enum { RT_MAX_RANK = 8 };

/* How the bytes are to be read. PLAIN: rows of `dtype` blocks. The others are APR's own types, and a matrix with an
 * adapter over it; dtype is then F32 by courtesy and rows exist as f32 only. */
typedef enum rt_store { RT_STORE_PLAIN, RT_STORE_APR_Q4, RT_STORE_APR_Q8, RT_STORE_MERGED } rt_store;

typedef struct rt_tensor {
    const char *name;      /* canonical; for a tensor outside the table, as the file spells it */
    const char *file_name; /* as the file spells it */
    rt_role role;          /* RT_ROLE_NONE outside the table */
    uint32_t layer;
    rt_store store;
    rt_dtype dtype;
    uint32_t rank;               /* 0: a scalar */
    uint64_t shape[RT_MAX_RANK]; /* outermost first; a vector has rank 1 */
    const uint8_t *data;
    uint64_t bytes;
    uint32_t file;                   /* index into the model file's list of files */
    uint32_t swap_heads;             /* not 0: rows are stored in GGUF's llama order over this many heads */
    const struct rt_lora_pair *pair; /* RT_STORE_MERGED: what is added to the matrix, whose place the entry has */
} rt_tensor;

/* A low-rank adapter over one matrix W (R,C): its value is W + scale B A. */
typedef struct rt_lora_pair {
    rt_tensor under; /* W as it is stored; an adapter may lie over an adapter */
    const float *a;  /* (rank,C) */
    const float *b;  /* (R,rank) */
    uint32_t rank;
    double scale;
    const struct rt_adapter *of; /* whose it is */
} rt_lora_pair;
/* y (n) += scale b A: n columns of one row. b (rank) its row of B; a (rank, stride) from the first of the columns on.
 */
void rt_lora_add(float *y, const float *a, uint64_t stride, const float *b, uint32_t rank, double scale, uint64_t n);
/* The entry of the file below all adapters; t itself where there is none. */
const rt_tensor *rt_tensor_under(const rt_tensor *t);

/* Elements; rows x cols with cols = the last dimension (1 row for a vector or scalar). Checked when the file was read,
 * so these do not overflow. */
uint64_t rt_tensor_elems(const rt_tensor *t);
uint64_t rt_tensor_rows(const rt_tensor *t);
uint64_t rt_tensor_cols(const rt_tensor *t);
/* Where canonical row r is in the file: its row number there. Of a vector with swap_heads (a bias) r counts elements.
 */
uint64_t rt_tensor_stored_row(const rt_tensor *t, uint64_t r);
/* The bytes of canonical row r, RT_STORE_PLAIN only; bytes of one row in *bytes when not null. Not for a vector with
 * swap_heads. */
const void *rt_tensor_row(const rt_tensor *t, uint64_t r, uint64_t *bytes);
/* y (rows, cols) f32 = canonical rows [row, row + rows). Integers and F64 are converted; RT_UNSUPPORTED never happens
 * for a tensor that a reader accepted. */
void rt_tensor_to_f32(float *y, const rt_tensor *t, uint64_t row, uint64_t rows);
/* dst = rows as blocks of dtype d, rounded once from the stored values (copied where d is the stored type). scratch
 * (rows, cols) f32. cols is a multiple of d's block. */
void rt_tensor_to_dtype(void *dst, rt_dtype d, const rt_tensor *t, uint64_t row, uint64_t rows, float *scratch);

/* How many of n elements of d are infinite or NaN; 0 for types that have no such. */
uint64_t rt_count_nonfinite(const void *p, rt_dtype d, uint64_t n);
/* For values that were finite in f32 and are about to be written: RT_NONFINITE with the tensor's name and the flag that
 * chooses another dtype when one of them is beyond what d holds. */
int rt_stayed_finite(const void *p, rt_dtype d, uint64_t n, const char *name, const char *flag, rt_err *e);

/* y = canonical elements [first, first + n), rows one after another; first and n fill whole blocks of the dtype. */
void rt_tensor_range_to_f32(float *y, const rt_tensor *t, uint64_t first, uint64_t n);
/* Stored element i of an integer dtype. */
int64_t rt_tensor_int(const uint8_t *p, rt_dtype d, uint64_t i);

/* Row numbers over heads of `rows` / heads rows each: where canonical row r is stored, and back. */
uint64_t rt_swap_to_stored(uint64_t r, uint64_t rows, uint32_t heads);
uint64_t rt_swap_to_canonical(uint64_t r, uint64_t rows, uint32_t heads);

#endif
