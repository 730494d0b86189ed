/* directory.h - an opened model as data: its files, its directory of tensors, and what travels with them for text.
 *
 * Owns: the struct that the readers of the containers fill, and what all of them do: map a file, append a tensor, check
 * where its bytes are. A reader is given a model file whose arena, spec and path are set; it maps what it needs into
 * parts, appends tensors and fills config and text. Finding the files, and what is done with a model, is
 * format/model_file.h. */
#ifndef RT_FORMAT_DIRECTORY_H
#define RT_FORMAT_DIRECTORY_H

#include "base/file.h"
#include "format/tensor/tensor.h"
#include "format/tensor/vocab.h"

typedef enum rt_container {
    RT_CONTAINER_HF,
    RT_CONTAINER_SAFETENSORS,
    RT_CONTAINER_GGUF,
    RT_CONTAINER_APR
} rt_container;

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
    bool template_file;        /* it was a file of its own, chat_template.jinja */
    bool template_new;         /* it is not the one that came with tokenizer_config */
    bool has_vocab;            /* GGUF and APR keys */
    rt_vocab_spec vocab;
    int64_t unk, pad, eot; /* GGUF ids beyond those in vocab; -1: none */
    /* Other files of a Hugging Face directory that belong to the tokenizer (vocab.json, merges.txt,
     * special_tokens_map.json, added_tokens.json, tokenizer.model), copied as they are to a Hugging Face output. */
    const rt_side_file *side;
    uint32_t side_count;
} rt_model_text;

extern const rt_model_text rt_no_text;

/* A LoRA folder as PEFT lays it out (hf/hf_adapter.c); everything in the model's arena. */
typedef struct rt_adapter_value {
    const char *module; /* "q_proj", or a longer end of a module's name */
    double value;
} rt_adapter_value;
typedef struct rt_adapter {
    const char *folder;
    const char *wanted; /* the base as adapter_config.json names it; null: it does not */
    const char *base;   /* as it was found: a path or org/name */
    uint32_t rank;
    double alpha;
    bool rslora;                            /* scaled by alpha / sqrt(rank), not alpha / rank */
    const rt_adapter_value *ranks, *alphas; /* of single modules; the first that fits counts */
    uint32_t rank_count, alpha_count;
    const char *const *targets; /* modules that have it; none where they are given by a pattern */
    uint32_t target_count;
    bool partial;      /* not in every layer, or not in every module of a name */
    uint32_t matrices; /* of the base that it lies over */
    int64_t layers;    /* up to the last that it has matrices for */
} rt_adapter;

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
    const char *hub;    /* org/name on Hugging Face: as the user said it, or as the files say; null: not known */
    rt_tensor *tensors; /* sorted by canonical name */
    uint32_t tensor_count;
    rt_model_part *parts; /* mapped files that hold tensors */
    uint32_t part_count;
    const rt_adapter *adapter; /* path is its folder, and the tensors are those of its base, merged; null: none */
    const char *const *notes;  /* what the reader left out or decided, one sentence each, for a person */
    uint32_t note_count;
} rt_model_file;

/* ---- while a model file is read ---- */

/* Maps path and adds it to the parts; its index in *part. */
int rt_model_add_part(rt_model_file *m, const char *path, uint32_t *part, rt_err *e);
/* Appends a zeroed entry; null when out of memory. The array grows by doubling in the arena. */
rt_tensor *rt_model_add_tensor(rt_model_file *m);
/* A sentence for a person; lost silently only when memory is out, which then shows elsewhere. */
void rt_model_note(rt_model_file *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Where a file says that the model is from, "org/name" or its address at huggingface.co, as m->hub; anything else, and
 * what is known already, changes nothing. Empty text is allowed. */
int rt_model_said_hub(rt_model_file *m, rt_span said, rt_err *e);
/* Checks one entry whose name, dtype, store, rank, shape are set and whose bytes are [offset, offset + bytes) of part:
 * range inside the file, size agrees with shape and dtype, rows fill whole blocks, no overflow. Sets data, bytes, file.
 * Messages name the file and the tensor (RT_FORMAT). */
int rt_model_place_tensor(rt_model_file *m, rt_tensor *t, uint32_t part, uint64_t offset, uint64_t bytes, rt_err *e);
/* No two of the tensors from first on, which lie in one file, share a byte (RT_FORMAT). */
int rt_model_check_overlap(const rt_model_file *m, uint32_t first, rt_err *e);
/* Bytes that shape and dtype or store ask for; false when rows do not fill whole blocks or the count overflows. */
bool rt_tensor_expected_bytes(const rt_tensor *t, uint64_t *bytes);

#endif
