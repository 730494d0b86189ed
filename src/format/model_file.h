/* model_file.h - any model that a user may name, opened: its configuration, a directory of tensors over mapped files,
 * and what travels with it for text.
 *
 * Owns: finding the files (directory, single file, local Hugging Face cache), choosing the format by content and not by
 * name, checking that the tensors are those that the configuration asks for. Each container has a room of its own
 * (hf, gguf, apr); none of them is seen from outside. Nothing is read ahead: opening costs the headers. */
#ifndef RT_FORMAT_MODEL_FILE_H
#define RT_FORMAT_MODEL_FILE_H

#include "base/hash.h"
#include "base/pool.h"
#include "format/tensor/directory.h"

const char *rt_container_name(rt_container c); /* "hf", "safetensors", "gguf", "apr" */
bool rt_container_parse(const char *name, rt_container *out);

/* spec: a directory, a file, or org/name in the local Hugging Face cache; a directory may be that of a LoRA adapter,
 * and the model is then its base with the adapter over it, merged in f32 as values are read. env: HF_HUB_CACHE, HF_HOME
 * and HOME, given by the caller, since the library reads no environment; null members are absent. */
typedef struct rt_hub_env {
    const char *hf_hub_cache, *hf_home, *xdg_cache_home, *home;
    const char *base; /* of an adapter, where that of its adapter_config.json is not the one */
} rt_hub_env;
int rt_model_file_open(rt_model_file **out, const char *spec, const rt_hub_env *env, rt_err *e);
void rt_model_file_close(rt_model_file *m); /* accepts null */

const rt_tensor *rt_model_file_find(const rt_model_file *m, const char *canonical); /* null when absent */
/* Elements [first, first + count) of a tensor that is stored plain: read now (rt_map_bring; RT_IO names file and
 * tensor), or soon. */
int rt_model_file_bring(const rt_model_file *m, const rt_tensor *t, uint64_t first, uint64_t count, rt_err *e);
void rt_model_file_will_need(const rt_model_file *m, const rt_tensor *t, uint64_t first, uint64_t count);
/* The tensor's pages, those of some of its elements, or all, will not be read again soon: they no longer count as this
 * process's memory. */
void rt_model_file_done_with(const rt_model_file *m, const rt_tensor *t);
void rt_model_file_done_with_part(const rt_model_file *m, const rt_tensor *t, uint64_t first, uint64_t count);
void rt_model_file_done_with_all(const rt_model_file *m);
/* RT_INVALID when there is no configuration; RT_FORMAT naming the first tensor that is missing, has another shape than
 * the configuration says, or is not one of the family's. Conversions to another format and training ask for it. */
int rt_model_file_check(const rt_model_file *m, rt_err *e);
uint64_t rt_model_file_parameters(const rt_model_file *m); /* elements of all tensors */

/* The snapshot folder of org/name (kind "models") or of a data set (kind "datasets") in the local cache, in a.
 * RT_NOT_FOUND says where was looked and how to get it. */
bool rt_hub_name_is(const char *spec); /* whether a text has the form org/name or org/name@revision */
int rt_hub_find(char **folder, rt_arena *a, const char *kind, const char *repo, const rt_hub_env *env, rt_err *e);

/* ---- identity (content_hash.c) ---- */

/* XXH3-128 over the raw bytes of each part, then over those; on all cores. One part: the hash of that file. */
int rt_model_file_hash(const rt_model_file *m, rt_pool *pool, rt_hash128 *out, rt_err *e);
/* Of the values: per tensor over canonical name, rank, shape, and values as f32, then over the list sorted by name.
 * Equal for the same values in another container, sharding, row order or wider dtype. each (tensor_count) or null. */
int rt_model_content_hash(const rt_model_file *m, rt_pool *pool, rt_hash128 *out, rt_hash128 *each, rt_err *e);
/* On request, since it reads the whole file: that its bytes give the checksum that it carries; pool may be null.
 * RT_FORMAT when they do not; RT_OK for a container without a checksum (all but APR). */
int rt_model_file_check_bytes(const rt_model_file *m, rt_pool *pool, rt_err *e);

#endif
