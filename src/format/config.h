/* config.h - the shape of a decoder: what config.json, GGUF keys and APR metadata say about it, in one struct.
 *
 * Owns: the families, the meaning of every key that changes a number, reading and writing config.json. A key that would
 * change the computation and is not understood is refused (RT_UNSUPPORTED, with its name); keys that do not matter are
 * kept as they are for a Hugging Face output. GGUF and APR keys are read and written by their own files. */
#ifndef RT_FORMAT_CONFIG_H
#define RT_FORMAT_CONFIG_H

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "num/dtype.h"
#include "num/rope_freq.h"

#include <stdbool.h>
#include <stdint.h>

/* name, model_type, architecture of Hugging Face, architecture in GGUF */
#define RT_FAMILY_LIST(X)                                                                                              \
    X(LLAMA, "llama", "LlamaForCausalLM", "llama")                                                                     \
    X(QWEN2, "qwen2", "Qwen2ForCausalLM", "qwen2")                                                                     \
    X(QWEN3, "qwen3", "Qwen3ForCausalLM", "qwen3")                                                                     \
    X(MISTRAL, "mistral", "MistralForCausalLM", "llama")                                                               \
    X(SMOLLM3, "smollm3", "SmolLM3ForCausalLM", "smollm3")

typedef enum rt_family {
#define X(name, type, arch, gguf) RT_FAMILY_##name,
    RT_FAMILY_LIST(X)
#undef X
        RT_FAMILY_COUNT
} rt_family;

typedef struct rt_family_info {
    const char *name;     /* "qwen2", which is also model_type */
    const char *hf_class; /* "Qwen2ForCausalLM" */
    const char *gguf;     /* general.architecture */
} rt_family_info;
extern const rt_family_info rt_family_table[RT_FAMILY_COUNT];

enum { RT_MAX_EOS = 8, RT_MAX_LAYERS = 1024 };
/* Of a layer. */
enum { RT_LAYER_WINDOW = 1 /* attends to the last `window` positions */, RT_LAYER_NO_ROPE = 2 };

typedef struct rt_model_config {
    rt_family family;
    uint32_t layers, width, heads, kv_heads, head_dim, hidden; /* L C H K D F */
    uint32_t vocab;                                            /* V: rows of the embedding, padding included */
    uint32_t context;                                          /* max_position_embeddings */
    bool qkv_bias, o_bias, mlp_bias, qk_norm, tied;
    double norm_eps;
    rt_rope_scaling rope;
    uint32_t window;                    /* sliding window; 0: no layer has one */
    uint8_t layer_flags[RT_MAX_LAYERS]; /* RT_LAYER_* */
    double init_range;                  /* initializer_range; 0.02 where not given */
    int64_t bos, pad;                   /* -1: none */
    int64_t eos[RT_MAX_EOS];
    uint32_t eos_count;
    /* Weights are random (`retort init`): training takes another learning rate, and says so. */
    bool random_init;
    uint64_t init_seed;
    /* The whole config.json this came from, for what is kept unread; null data when there is none. Owned by whoever
     * owns the struct (the arena given to the reader). */
    rt_span json;
} rt_model_config;

/* text: a whole config.json; where: its path, for messages. The struct's spans live in a. */
int rt_config_from_json(rt_model_config *c, const char *text, size_t len, const char *where, rt_arena *a, rt_err *e);
/* A config.json for c: that of c->json with every key that c speaks of set anew, or one made from c alone. dtype: what
 * most matrices are stored in (torch_dtype). Both the old rope form and `rope_parameters` are kept as they were. */
int rt_config_to_json(const rt_model_config *c, rt_dtype dtype, rt_str *out, rt_err *e);
/* Whether the numbers fit together (heads divide, sizes in range, parameters countable): RT_INVALID with what and why.
 * Every reader ends with it. */
int rt_config_check(const rt_model_config *c, const char *where, rt_err *e);

/* Shapes by name: "qwen2.5-0.5b", "tiny-llama"... */
typedef struct rt_preset {
    const char *name, *text;
    void (*fill)(rt_model_config *c);
    bool tiny; /* has a byte-level tokenizer of its own */
} rt_preset;
const rt_preset *rt_presets(uint32_t *count);
const rt_preset *rt_preset_find(const char *name); /* null when there is none */

#endif
