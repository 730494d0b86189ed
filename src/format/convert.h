/* convert.h - one model file made into another: the dtype of each tensor, the writing, and the proof that what was
 * written says what was read.
 *
 * Owns: which dtype a tensor has in the output when the user names none, taking single layers of a teacher, and the
 * comparison of every value with the output read back. How files are written is model_write.h, what a mixture means is
 * mix.c, how a tokenizer gets from one format to another is for the caller, who gives the text.
 *
 * Three steps: plan (nothing is touched; the sizes and dtypes are known afterwards), run, free. */
#ifndef RT_FORMAT_CONVERT_H
#define RT_FORMAT_CONVERT_H

#include "format/model_write.h"

typedef struct rt_convert_opts {
    rt_container to;
    const char *path;
    const char *name;              /* null: that of the input */
    const rt_mix *mix;             /* null: as stored, see rt_convert_plan */
    const rt_model_text *text;     /* may be null: none */
    const rt_model_config *config; /* null: that of the input */
    const uint32_t *layers; /* (config->layers) layer i of the output is layers[i] of the input; null: the same */
    uint64_t shard_bytes;   /* as in rt_model_out */
    bool replace;           /* as in rt_model_out */
} rt_convert_opts;

typedef struct rt_convert_tensor {
    rt_role role;
    uint32_t layer; /* in the output */
    const rt_tensor *from;
    rt_dtype to;
    bool fell; /* its rows do not fill the blocks of the type that the mixture has for it */
    uint64_t elems, bytes;
    /* Below: from the comparison. Values are those of the input as f32 and those of the output as f32. */
    bool same; /* bit for bit */
    uint64_t
        nonfinite; /* NaN or infinite in the input. Not looked for in quantised blocks that are copied as they are */
    uint64_t lost; /* finite in the input, and not in the output */
    double error_squares, value_squares; /* sums over what is finite; value_squares is 0 where bytes were compared */
    double max_error;
} rt_convert_tensor;

typedef struct rt_convert {
    const rt_model_file *in;
    rt_convert_opts opts;
    const rt_model_config *config;
    rt_arena arena;
    rt_convert_tensor *tensors; /* in the order of rt_param_at */
    rt_out_tensor *out;         /* the same for the writer */
    uint32_t tensor_count;
    uint32_t fallbacks;    /* tensors that fell */
    uint32_t dequantised;  /* quantised matrices that the format cannot hold, with no mixture named */
    uint64_t elems;        /* of the output */
    uint64_t bytes_in;     /* of the tensors that are taken */
    uint64_t bytes_out;    /* of the tensors of the output */
    uint64_t largest_cols; /* elements in the longest row */
    /* After the run. */
    double rmse, max_error;   /* over all elements */
    double relative;          /* root of error squares over value squares, of the tensors that are not the same */
    double of_change;         /* root of error squares over the squares of what an adapter adds; 0 without one */
    uint64_t file_bytes;      /* of the files that hold tensors */
    uint32_t same;            /* tensors that are the same bit for bit */
    uint64_t nonfinite, lost; /* sums */
    double write_seconds, compare_seconds; /* writing is until everything is on the disk */
} rt_convert;

/* Fills v (zeroes before). Without a mixture a tensor keeps its stored type where the format holds it. Where it does
 * not: a quantised matrix becomes bf16, f64 and APR's own types become f32. Vectors are f32 in GGUF and APR, where
 * others expect it; in a Hugging Face output they follow the matrices where that changes no value. The input must have
 * a configuration and the tensors that it asks for. */
int rt_convert_plan(rt_convert *v, const rt_model_file *in, const rt_convert_opts *o, rt_err *e);

/* what: "writing" or "comparing". A negative answer stops, and no output is left. */
typedef int (*rt_convert_progress_fn)(void *ctx, const char *what, uint64_t done, uint64_t total);

/* Writes, reads back, compares, and only then gives the output its name. Values that must not change (the same type, or
 * f32 of anything narrower) and did: RT_IO. Values that the type cannot hold and that became infinite or NaN:
 * RT_NONFINITE. Both name the tensor. */
int rt_convert_run(rt_convert *v, rt_convert_progress_fn progress, void *ctx, rt_pool *pool, rt_err *e);
void rt_convert_free(rt_convert *v); /* accepts zeroes */

/* Of one tensor, after the run. */
double rt_convert_rmse(const rt_convert_tensor *t);

/* convert_check.c: compares the model at path with what v was to write, and fills the fields above. */
int rt_convert_compare(rt_convert *v, const char *path, rt_convert_progress_fn progress, void *ctx, rt_pool *pool,
                       rt_err *e);

#endif
