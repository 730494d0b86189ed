/* config.h - the shape of a decoder: what config.json, GGUF keys and APR metadata say about it, in one struct.
 *
 * Owns: the meaning of every key that changes a number, reading and writing config.json. A key that would
 * change the computation and is not understood is refused (RT_UNSUPPORTED, with its name); keys that do not matter are
 * kept as they are for a Hugging Face output. GGUF and APR keys are read and written by their own files. */
#ifndef RT_FORMAT_CONFIG_H
#define RT_FORMAT_CONFIG_H

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/config/family.h"
#include "num/dtype.h"
#include "num/rope_freq.h"

enum { RT_MAX_EOS = 8, RT_MAX_LAYERS = 1024 };
/* Of a layer. */
enum { RT_LAYER_WINDOW = 1 /* attends to the last `window` positions */, RT_LAYER_NO_ROPE = 2 };

typedef struct rt_model_config {
    const rt_family *family;
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
 */
int rt_config_check_shape(const rt_model_config *c, const char *where, rt_err *e);
/* That, and whether the family can have them. Every reader ends with it. */
int rt_config_check(const rt_model_config *c, const char *where, rt_err *e);

/* The flags of all layers, as the family has them where no list says otherwise: layers without rope, and the window
 * that c has. */
void rt_config_usual_layers(rt_model_config *c);
/* The configuration of a student that has layers [0, count) taken from these layers of c, in rising order; windows and
 * layers without rope go with their layer. RT_INVALID names a layer that is not there or is out of order. */
int rt_config_take_layers(rt_model_config *out, const rt_model_config *c, const uint32_t *layers, uint32_t count,
                          rt_err *e);

/* Shapes by name, "qwen2.5-0.5b", "tiny-llama"..., in families.c. Where config.json has no such key: 0. */
typedef struct rt_preset {
    const char *name, *text;
    const rt_family *family;
    uint32_t layers, width, heads, kv_heads, head_dim, hidden, vocab, context; /* L C H K D F V */
    double theta, norm_eps;
    bool tied;
    int64_t bos, eos, second_eos, pad;
    bool tiny; /* has a byte-level tokenizer of its own */
    uint32_t window;
    double llama3_factor; /* of rope scaling */
    double init_range;    /* 0: 0.02 */
} rt_preset;
const rt_preset *rt_presets(uint32_t *count);
const rt_preset *rt_preset_find(const char *name); /* null when there is none */
void rt_preset_fill(const rt_preset *p, rt_model_config *c);

#endif
