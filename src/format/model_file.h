/* model_file.h - any model that a user may name, opened: its configuration, a directory of tensors over mapped files,
 * and what travels with it for text.
 *
 * Owns: finding the files (directory, single file, local Hugging Face cache), choosing the format by content and not by
 * name, checking that the tensors are those that the configuration asks for. Each format has its own file; none of them
 * is seen from outside. Nothing is read ahead: opening costs the headers. */
#ifndef RT_FORMAT_MODEL_FILE_H
#define RT_FORMAT_MODEL_FILE_H

#include "base/file.h"
#include "base/hash.h"
#include "base/pool.h"
#include "format/tensor.h"
#include "format/vocab.h"

typedef enum rt_container {
    RT_CONTAINER_HF,
    RT_CONTAINER_SAFETENSORS,
    RT_CONTAINER_GGUF,
    RT_CONTAINER_APR
} rt_container;
const char *rt_container_name(rt_container c); /* "hf", "safetensors", "gguf", "apr" */
bool rt_container_parse(const char *name, rt_container *out);

typedef struct rt_side_file {
    const char *name; /* without its folder */
    rt_span text;
} rt_side_file;

/* What travels with the weights for text. data is null for what is absent. */
typedef struct rt_model_text {
    rt_span tokenizer_json;    /* tokenizer.json; GGUF: tokenizer.huggingface.json */
    rt_span tokenizer_config;  /* tokenizer_config.json */
    rt_span generation_config; /* generation_config.json */
    rt_span chat_template;     /* Jinja, from wherever it was */
    bool has_vocab;            /* GGUF and APR keys */
    rt_vocab_spec vocab;
    int64_t unk, pad, eot; /* GGUF ids beyond those in vocab; -1: none */
    /* Other files of a Hugging Face directory that belong to the tokenizer (vocab.json, merges.txt,
     * special_tokens_map.json, added_tokens.json, tokenizer.model), copied as they are to a Hugging Face output. */
    const rt_side_file *side;
    uint32_t side_count;
} rt_model_text;

typedef struct rt_model_part {
    const char *path;
    rt_map map;
} rt_model_part;

typedef struct rt_model_file {
    rt_arena arena;   /* everything below */
    const char *spec; /* as the user said it */
    const char *path; /* what it was found to be */
    rt_container container;
    bool has_config; /* a lone .safetensors has none, unless config.json lies beside it or its metadata hold one */
    rt_model_config config;
    rt_model_text text;
    const char *name;   /* for people and metadata: general.name, org/name, or the file's own name; never a path */
    rt_tensor *tensors; /* sorted by canonical name */
    uint32_t tensor_count;
    rt_model_part *parts; /* mapped files that hold tensors */
    uint32_t part_count;
    const char *const *notes; /* what the reader left out or decided, one sentence each, for a person */
    uint32_t note_count;
} rt_model_file;

/* spec: a directory, a file, or org/name in the local Hugging Face cache. env: HF_HUB_CACHE, HF_HOME and HOME, given by
 * the caller, since the library reads no environment; null members are absent. */
typedef struct rt_hub_env {
    const char *hf_hub_cache, *hf_home, *xdg_cache_home, *home;
} rt_hub_env;
int rt_model_file_open(rt_model_file **out, const char *spec, const rt_hub_env *env, rt_err *e);
void rt_model_file_close(rt_model_file *m); /* accepts null */

const rt_tensor *rt_model_file_find(const rt_model_file *m, const char *canonical); /* null when absent */
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
int rt_hub_find(char **folder, rt_arena *a, const char *kind, const char *repo, const rt_hub_env *env, rt_err *e);

/* ---- identity (content_hash.c) ---- */

/* XXH3-128 over the raw bytes of each part, then over those; on all cores. One part: the hash of that file. */
int rt_model_file_hash(const rt_model_file *m, rt_pool *pool, rt_hash128 *out, rt_err *e);
/* Of the values: per tensor over canonical name, rank, shape, and values as f32, then over the list sorted by name.
 * Equal for the same values in another container, sharding, row order or wider dtype. each (tensor_count) or null. */
int rt_model_content_hash(const rt_model_file *m, rt_pool *pool, rt_hash128 *out, rt_hash128 *each, rt_err *e);
/* On request, since it reads the whole file: that the footer of an APR file is the CRC32 of what precedes it, on all
 * cores; pool may be null. RT_FORMAT when it is not, RT_INVALID for another container (apr_read.c). */
int rt_apr_check_footer(const rt_model_file *m, rt_pool *pool, rt_err *e);

#endif
