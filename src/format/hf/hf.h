/* hf.h - safetensors files, and the folders of Hugging Face around them: read, laid out, written.
 *
 * Owns: what belongs to a model's folder, and the header of a safetensors file. The tensors of an output are filled in
 * by format/write_fill.c. */
#ifndef RT_FORMAT_HF_H
#define RT_FORMAT_HF_H

#include "format/tensor/model_out.h"

bool rt_safetensors_is(const rt_map *map); /* a plausible header length followed by '{' */
/* part: mapped already. Tensor names become canonical. safetensors does not know of configurations: config, when not
 * null, receives the __metadata__ object's "retort.config" text (null data when absent). */
int rt_safetensors_read(rt_model_file *m, uint32_t part, rt_span *config, rt_err *e);
/* Tensors [first, first + count) of o in one file. */
int rt_safetensors_layout(const rt_model_out *o, uint32_t first, uint32_t count, rt_arena *a, rt_file_layout *l,
                          rt_err *e);

/* A header in the making: begin it, with the configuration as metadata or null; an entry for each tensor, of rank 1 or
 * 2, from `begin` of the bytes on; end it, padded to 64 bytes and with its length in front. */
void rt_safetensors_head_begin(rt_str *head, const rt_str *config);
void rt_safetensors_head_entry(rt_str *head, const char *name, rt_dtype d, uint32_t rank, const uint64_t *shape,
                               uint64_t begin);
void rt_safetensors_head_end(rt_str *head);
const char *rt_safetensors_type(rt_dtype d); /* "BF16"; null when the format has it not */

/* A Hugging Face directory: config.json, tokenizer files, one safetensors file or shards with an index. */
int rt_hf_read(rt_model_file *m, const char *folder, rt_err *e);
/* Whether a folder holds an adapter and no model: adapter_config.json without the weights of a model. */
bool rt_hf_is_adapter(const char *folder);
/* adapter_config.json; a holds what out points to. RT_UNSUPPORTED names what is not done here: anything but LoRA, and
 * of LoRA what is more than W + scale B A over matrices. */
int rt_hf_read_adapter(rt_adapter *out, const char *folder, rt_arena *a, rt_err *e);
/* config.json and the tokenizer's files that lie in folder, each where present. */
int rt_hf_read_side_files(rt_model_file *m, const char *folder, rt_err *e);
/* All files of a Hugging Face directory but those with tensors, and how many bytes they are (may be null). folder null:
 * they are only counted. */
int rt_hf_write_files(const rt_model_out *o, const rt_out_file *files, uint32_t count, const char *folder,
                      uint64_t *bytes, rt_err *e);
/* The tokenizer's files, generation_config.json and the chat template among them; their bytes are added to *bytes (may
 * be null). alone: no config.json is beside them. folder as above. */
int rt_hf_write_text(const rt_model_text *text, bool alone, const char *folder, uint64_t *bytes, rt_err *e);

#endif
