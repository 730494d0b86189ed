/* format_internal.h - what the files of this room give one another: one reader and one layout per format.
 *
 * Readers are given a model file whose arena, spec and path are set; they map what they need into parts, append tensors
 * and fill config and text. model_file.c sorts and checks names afterwards. Layouts are pure: from the description of
 * an output to the bytes before its tensors. */
#ifndef RT_FORMAT_INTERNAL_H
#define RT_FORMAT_INTERNAL_H

#include "format/model_write.h"

/* ---- while a model file is read (model_file.c) ---- */

/* Maps path and adds it to the parts; its index in *part. */
int rt_model_add_part(rt_model_file *m, const char *path, uint32_t *part, rt_err *e);
/* Appends a zeroed entry; null when out of memory. The array grows by doubling in the arena. */
rt_tensor *rt_model_add_tensor(rt_model_file *m);
/* A sentence for a person; lost silently only when memory is out, which then shows elsewhere. */
void rt_model_note(rt_model_file *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Checks one entry whose name, dtype, store, rank, shape are set and whose bytes are [offset, offset + bytes) of part:
 * range inside the file, size agrees with shape and dtype, rows fill whole blocks, no overflow. Sets data, bytes, file.
 * Messages name the file and the tensor (RT_FORMAT). */
int rt_model_place_tensor(rt_model_file *m, rt_tensor *t, uint32_t part, uint64_t offset, uint64_t bytes, rt_err *e);
/* Bytes that shape and dtype or store ask for; false when rows do not fill whole blocks or the count overflows. */
bool rt_tensor_expected_bytes(const rt_tensor *t, uint64_t *bytes);

/* ---- elements (tensor.c) ---- */

/* y = canonical elements [first, first + n), rows one after another; first and n fill whole blocks of the dtype. */
void rt_tensor_range_to_f32(float *y, const rt_tensor *t, uint64_t first, uint64_t n);
/* Stored element i of an integer dtype. */
int64_t rt_tensor_int(const uint8_t *p, rt_dtype d, uint64_t i);

/* ---- readers ---- */

bool rt_gguf_is(const rt_map *map);
bool rt_apr_is(const rt_map *map);         /* APR\0, or the old APRN, which reading then refuses with a clear message */
bool rt_safetensors_is(const rt_map *map); /* a plausible header length followed by '{' */
/* part: mapped already. Tensor names become canonical. safetensors does not know of configurations: metadata, when not
 * null, receives the __metadata__ object's "retort.config" text (null data when absent). */
int rt_safetensors_read(rt_model_file *m, uint32_t part, rt_span *config, rt_err *e);
int rt_gguf_read(rt_model_file *m, uint32_t part, rt_err *e);
int rt_apr_read(rt_model_file *m, uint32_t part, rt_err *e);
/* A Hugging Face directory: config.json, tokenizer files, one safetensors file or shards with an index. */
int rt_hf_read(rt_model_file *m, const char *folder, rt_err *e);
/* config.json and the tokenizer's files that lie in folder, each where present. */
int rt_hf_read_side_files(rt_model_file *m, const char *folder, rt_err *e);
/* Whether a text has the form org/name or org/name@revision (hub.c). */
bool rt_hub_name_is(const char *spec);

/* ---- layouts ---- */

typedef struct rt_layout {
    rt_str head;      /* bytes from offset 0 on */
    uint64_t *offset; /* (count) absolute, of each tensor; in the arena given */
    uint64_t size;    /* of the file without a footer; gaps between tensors are zero */
    /* Bytes of a tensor that the format makes itself, behind the others (GGUF: rope_freqs.weight, the factors of llama3
     * rope scaling); empty when there is none. */
    rt_str extra;
    uint64_t extra_offset;
    bool footer_crc; /* APR: four bytes of CRC32 over all that precedes */
} rt_layout;
/* Tensors [first, first + count) of o in one file. */
int rt_safetensors_layout(const rt_model_out *o, uint32_t first, uint32_t count, rt_arena *a, rt_layout *l, rt_err *e);
int rt_gguf_layout(const rt_model_out *o, rt_arena *a, rt_layout *l, rt_err *e);
int rt_apr_layout(const rt_model_out *o, rt_arena *a, rt_layout *l, rt_err *e);
/* Whether the format can hold the type. */
bool rt_container_holds(rt_container c, rt_dtype d);
/* In GGUF the q and k rows (weights and biases) of some families are stored in another order; the number of heads to
 * swap over, or 0. */
uint32_t rt_gguf_swap_heads(const rt_model_config *c, rt_role r);
/* Row numbers over heads of `rows` / heads rows each: where canonical row r is stored, and back. */
uint64_t rt_swap_to_stored(uint64_t r, uint64_t rows, uint32_t heads);
uint64_t rt_swap_to_canonical(uint64_t r, uint64_t rows, uint32_t heads);

/* ---- while a model is written (model_write.c) ---- */

typedef struct rt_out_file {
    uint32_t first, count; /* tensors of the output that it holds */
    const char *path;
    rt_writer *writer;
    rt_layout layout;
} rt_out_file;
uint64_t rt_out_tensor_bytes(const rt_model_out *o, uint32_t i);
/* What most elements of matrices are stored in. */
rt_dtype rt_out_main_dtype(const rt_model_out *o);
/* Everything in the files: tensors on all cores, headers, footers. */
int rt_write_fill(const rt_model_out *o, const rt_out_file *files, uint32_t file_count,
                  const rt_model_write_calls *calls, rt_pool *pool, rt_err *e);
/* All files of a Hugging Face directory but those with tensors, and how many bytes they are (may be null). folder null:
 * they are only counted. */
int rt_write_hf_files(const rt_model_out *o, const rt_out_file *files, uint32_t count, const char *folder,
                      uint64_t *bytes, rt_err *e);

#endif
