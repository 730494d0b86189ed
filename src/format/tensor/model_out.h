/* model_out.h - a model that is to be written, as data: its tensors, and where a container puts them.
 *
 * Owns: the description of an output, and the layout that a container makes of it, which is pure: from the description
 * to the bytes before the tensors and the place of each. Filling the files is format/model_write.h. */
#ifndef RT_FORMAT_MODEL_OUT_H
#define RT_FORMAT_MODEL_OUT_H

#include "format/tensor/directory.h"

typedef struct rt_out_tensor {
    rt_role role; /* of the table; its name and shape follow from role, layer and configuration */
    uint32_t layer;
    rt_dtype dtype;
} rt_out_tensor;

typedef struct rt_model_out {
    rt_container to;
    const char *path; /* a directory for HF, else a file */
    const char *name; /* general.name and the like */
    const rt_model_config *config;
    const rt_model_text *text;    /* may be null */
    const rt_out_tensor *tensors; /* in the order of rt_param_at */
    uint32_t tensor_count;
    uint64_t shard_bytes; /* HF: a new file after this many bytes; 0: 5 GB (5e9) */
    bool replace;         /* an existing output may be replaced; else RT_INVALID says that it is there */
} rt_model_out;

typedef struct rt_file_layout {
    rt_str head;      /* bytes from offset 0 on */
    uint64_t *offset; /* (count) absolute, of each tensor; in the arena given */
    uint64_t size;    /* of the file without a footer; gaps between tensors are zero */
    /* Bytes of a tensor that the format makes itself, after the others (GGUF: rope_freqs.weight, the factors of llama3
     * rope scaling); empty when there is none. */
    rt_str extra;
    uint64_t extra_offset;
    bool footer_crc; /* APR: four bytes of CRC32 over all that precedes */
} rt_file_layout;

typedef struct rt_out_file {
    uint32_t first, count; /* tensors of the output that it holds */
    const char *path;
    rt_writer *writer;
    rt_file_layout layout;
} rt_out_file;
uint64_t rt_out_tensor_bytes(const rt_model_out *o, uint32_t i);
/* What most elements of matrices are stored in. */
rt_dtype rt_out_main_dtype(const rt_model_out *o);

#define RT_HF_INDEX "model.safetensors.index.json"
enum { RT_SIDE_MAX = 5 };
extern const char *const rt_side_names[RT_SIDE_MAX]; /* files that travel beside a model as they are */
/* Whether a name is one that a directory of a model, or of an adapter, has when it was written by rt_model_write or
 * copied by others: no other file is ever removed with one. For rt_dir_holds_only; ctx is not looked at. */
bool rt_hf_is_name(void *ctx, const char *name);

#endif
