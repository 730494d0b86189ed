/* family.h - what tells one family of decoders from another: a row of traits each, in families.c.
 *
 * Owns: everything about a family that is not in a model's own configuration: its names, what it can have, what its
 * keys default to, how GGUF stores it. Nobody asks for a family by name; who needs to know something about it asks for
 * a trait. So a family that has no other traits than these is added in families.c alone. */
#ifndef RT_FORMAT_FAMILY_H
#define RT_FORMAT_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum rt_bias_rule {
    RT_BIAS_NONE, /* attention has none */
    RT_BIAS_QKV,  /* on q, k and v, always */
    RT_BIAS_KEY,  /* on q, k, v and the output, or on none: config.json's attention_bias */
} rt_bias_rule;

typedef enum rt_window_rule {
    RT_WINDOW_NONE,
    RT_WINDOW_ALL,     /* all layers have one, or none has */
    RT_WINDOW_UPPER,   /* layers from max_window_layers on, unless layer_types says which */
    RT_WINDOW_NO_ROPE, /* layers without rope, unless layer_types says which */
} rt_window_rule;

/* Which models llama.cpp takes for one of 70B, that is: of 80 layers. */
typedef enum rt_70b_rule { RT_70B_NONE, RT_70B_GROUPED /* with fewer k/v heads than heads */, RT_70B_ANY } rt_70b_rule;

typedef struct rt_family {
    const char *name;     /* "qwen2", which is also model_type, and the architecture in APR */
    const char *alias;    /* another name in APR, or null */
    const char *hf_class; /* "Qwen2ForCausalLM" */
    const char *gguf; /* general.architecture; of families that share one, the first that can have what a file has */
    rt_bias_rule bias;
    rt_window_rule windows;
    bool mlp_bias; /* config.json has mlp_bias */
    bool qk_norm;
    uint32_t no_rope_every; /* each n-th layer is without rope, unless no_rope_layers says which; 0: all have rope */
    bool head_dim_key;      /* config.json always has head_dim; else only where it does not follow from the others */
    bool gguf_swaps_rows;   /* GGUF stores the rows of q and k in another order */
    bool gguf_rope_freqs;   /* llama.cpp reads the factors of llama3 rope scaling in this architecture */
    bool gguf_biases;       /* llama.cpp takes biases that config.json may ask for in this architecture */
    rt_70b_rule is_70b;
    /* What the configuration class of transformers takes for a key that is absent. kv_heads 0: as many as heads;
     * head_dim 0: width / heads; window 0: none. */
    struct {
        uint32_t layers, width, heads, kv_heads, head_dim, hidden, vocab, context, window;
        double theta;
        bool tied;
        int64_t bos, eos, pad;
    } defaults;
} rt_family;

extern const rt_family *const rt_families[]; /* ended by a null */

const rt_family *rt_family_find(const char *name); /* by model_type; null when there is none */
/* "llama, qwen2, qwen3" into buf: the names of all, or their architectures in GGUF, each once. Returns buf. */
const char *rt_family_list(char *buf, size_t size, bool gguf);

#endif
