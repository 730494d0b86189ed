/* model_write.h - writes a model in any format, on all cores, from rows that somebody provides.
 *
 * Owns: the order of things (lay out, reserve, fill, check, rename) and the one loop that fills files. A format gives
 * only a layout: the bytes before the tensors and where each tensor begins. Where rows come from (another file, random
 * numbers, a device) is the caller's. */
#ifndef RT_FORMAT_MODEL_WRITE_H
#define RT_FORMAT_MODEL_WRITE_H

#include "format/model_file.h"
#include "format/tensor/model_out.h"

/* Fills dst with canonical rows [row, row + rows) of tensor i in its output dtype. Called from many threads at once;
 * worker is an index below the pool's thread count. A vector is one row. Returns a status; the message goes to e,
 * which belongs to the worker. */
typedef int (*rt_rows_fn)(void *ctx, uint32_t i, uint64_t row, uint64_t rows, void *dst, uint32_t worker, rt_err *e);
/* Called between chunks, from one thread at a time; a negative answer (RT_INTERRUPTED) stops the writing. */
typedef int (*rt_progress_fn)(void *ctx, uint64_t done, uint64_t total);
/* Called when everything is written under its temporary name: path is what rt_model_file_open would take. A negative
 * answer removes the output. */
typedef int (*rt_check_fn)(void *ctx, const char *path, rt_err *e);

typedef struct rt_model_write_calls {
    rt_rows_fn rows;
    rt_progress_fn progress; /* may be null */
    rt_check_fn check;       /* may be null */
    void *ctx;
} rt_model_write_calls;

/* All parts of an output dtype that the format cannot hold are refused before anything is created (RT_INVALID). */
int rt_model_write(const rt_model_out *o, const rt_model_write_calls *calls, rt_pool *pool, rt_err *e);

/* How many bytes rt_model_write would write, in all files together. Nothing is opened. */
int rt_model_write_bytes(const rt_model_out *o, uint64_t *bytes, rt_err *e);

/* The tokenizer's files alone, beside an adapter in folder, which is there (null: they are only counted). Their bytes
 * are added to *bytes, which may be null. */
int rt_model_write_text(const rt_model_text *text, const char *folder, uint64_t *bytes, rt_err *e);

/* Everything in the files: tensors on all cores, headers, footers (write_fill.c). */
int rt_write_fill(const rt_model_out *o, const rt_out_file *files, uint32_t file_count,
                  const rt_model_write_calls *calls, rt_pool *pool, rt_err *e);

/* ---- which dtype for which tensor (mix.c) ---- */

bool rt_container_holds(rt_container c, rt_dtype d); /* whether the format can hold the type */

/* "f32", "bf16", ... for every matrix, or a mixture: "q4_k_m". Vectors stay f32 in GGUF and APR, and follow the
 * matrices' plain dtype in safetensors. */
typedef struct rt_mix rt_mix;
const rt_mix *rt_mix_find(const char *name); /* null when there is none */
const char *rt_mix_name(const rt_mix *m);
/* The names, ended by a null. */
const char *const *rt_mix_names(void);
/* Fills t (rt_param_count(c)). *fallbacks counts the matrices whose rows do not fill the type's blocks and that have
 * another type therefore (as llama.cpp does: Q4_K to Q5_0, Q5_K to Q5_1, Q6_K to Q8_0); fell (same length as t, may be
 * null) marks them. */
int rt_mix_apply(const rt_mix *m, const rt_model_config *c, rt_container to, rt_out_tensor *t, bool *fell,
                 uint32_t *fallbacks, rt_err *e);

#endif
