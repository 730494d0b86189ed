/* config_check.c - the families, their defaults, and whether a configuration's numbers fit together.
 *
 * Owns: rt_config_check, with which every reader ends. What it refuses is either no decoder at all or a shape that the
 * family cannot express, so that a configuration that passes can be written in every format. */
#include "format/config_internal.h"
#include "format/names.h"

#include <math.h>

const rt_family_info rt_family_table[RT_FAMILY_COUNT] = {
#define X(name, type, arch, gguf) [RT_FAMILY_##name] = { type, arch, gguf },
    RT_FAMILY_LIST(X)
#undef X
};

/* Of the configuration classes of transformers 4.57 and 5.x, which agree. */
const rt_family_defaults rt_family_defaults_table[RT_FAMILY_COUNT] = {
    [RT_FAMILY_LLAMA] = { 32, 4096, 32, 0, 0, 11008, 32000, 2048, 1e4, false, 1, 2, -1 },
    [RT_FAMILY_QWEN2] = { 32, 4096, 32, 32, 0, 22016, 151936, 32768, 1e4, false, -1, -1, -1 },
    [RT_FAMILY_QWEN3] = { 32, 4096, 32, 32, 128, 22016, 151936, 32768, 1e4, false, -1, -1, -1 },
    [RT_FAMILY_MISTRAL] = { 32, 4096, 32, 8, 0, 14336, 32000, 131072, 1e4, false, 1, 2, -1 },
    [RT_FAMILY_SMOLLM3] = { 36, 2048, 16, 4, 0, 11008, 128256, 32768, 2e6, true, 128000, 128001, 128004 },
};

static int in_range(const char *where, const char *what, uint64_t value, uint64_t max, rt_err *e)
{
    if (value >= 1 && value <= max) return RT_OK;
    return rt_fail(e, RT_INVALID, "%s: %s is %llu, but must be from 1 to %llu: correct the model's configuration",
                   where, what, (unsigned long long)value, (unsigned long long)max);
}

static int check_sizes(const rt_model_config *c, const char *where, rt_err *e)
{
    int rc = RT_OK;
    uint64_t parameters;
    RT_TRY(in_range(where, "the number of layers", c->layers, RT_MAX_LAYERS, e));
    RT_TRY(in_range(where, "the width (hidden_size)", c->width, 1u << 24, e));
    RT_TRY(in_range(where, "the number of heads", c->heads, 1u << 16, e));
    RT_TRY(in_range(where, "the number of key/value heads", c->kv_heads, c->heads, e));
    RT_TRY(in_range(where, "the head width (head_dim)", c->head_dim, 1u << 16, e));
    RT_TRY(in_range(where, "heads times head width", (uint64_t)c->heads * c->head_dim, 1u << 24, e));
    RT_TRY(in_range(where, "the hidden width (intermediate_size)", c->hidden, 1u << 24, e));
    RT_TRY(in_range(where, "the vocabulary size", c->vocab, 1u << 28, e));
    RT_TRY(in_range(where, "the context (max_position_embeddings)", c->context, 1u << 30, e));
    if (c->heads % c->kv_heads != 0) {
        rc = rt_fail(e, RT_INVALID, "%s: %u heads cannot share %u key/value heads evenly: correct the configuration",
                     where, c->heads, c->kv_heads);
        goto out;
    }
    if (c->head_dim % 2 != 0) {
        rc = rt_fail(e, RT_INVALID, "%s: the head width %u is odd, but rotary embedding turns pairs", where,
                     c->head_dim);
        goto out;
    }
    if (!rt_config_parameters(c, &parameters) || parameters > (UINT64_C(1) << 48))
        rc = rt_fail(e, RT_INVALID, "%s: the model would have more than 2^48 parameters: correct the sizes", where);
out:
    return rc;
}

/* What the family's own configuration file cannot say, it cannot be. */
static int check_family(const rt_model_config *c, const char *where, rt_err *e)
{
    const char *name = rt_family_table[c->family].name, *what = NULL;
    bool llama = c->family == RT_FAMILY_LLAMA, qwen2 = c->family == RT_FAMILY_QWEN2;
    bool mistral = c->family == RT_FAMILY_MISTRAL, smollm3 = c->family == RT_FAMILY_SMOLLM3;
    if (c->qk_norm != (c->family == RT_FAMILY_QWEN3))
        what = c->qk_norm ? "has no norms on q and k" : "has norms on q and k";
    else if (qwen2 && (!c->qkv_bias || c->o_bias))
        what = "has biases on q, k and v, and none on the attention's output";
    else if (mistral && (c->qkv_bias || c->o_bias))
        what = "has no biases";
    else if (!qwen2 && c->qkv_bias != c->o_bias)
        what = "has biases on all of q, k, v and the attention's output, or on none";
    else if (c->mlp_bias && !llama && !smollm3)
        what = "has no biases in its MLP";
    else if (c->window && llama)
        what = "has no sliding window (the mistral family has)";
    if (!what) return RT_OK;
    return rt_fail(e, RT_INVALID, "%s: the family %s %s: the configuration says otherwise", where, name, what);
}

static int check_layers(const rt_model_config *c, const char *where, rt_err *e)
{
    uint32_t windows = 0;
    for (uint32_t i = 0; i < c->layers; i++) {
        uint8_t flags = c->layer_flags[i];
        windows += flags & RT_LAYER_WINDOW ? 1 : 0;
        if ((flags & RT_LAYER_NO_ROPE) && c->family != RT_FAMILY_SMOLLM3)
            return rt_fail(e, RT_INVALID, "%s: layer %u has no rope, which the family %s does not know", where, i,
                           rt_family_table[c->family].name);
        if (flags & ~(RT_LAYER_WINDOW | RT_LAYER_NO_ROPE))
            return rt_fail(e, RT_INVALID, "%s: layer %u has unknown flags %u", where, i, flags);
    }
    if ((windows > 0) != (c->window > 0))
        return rt_fail(e, RT_INVALID, "%s: the sliding window is %u, but %u layers have one: correct the configuration",
                       where, c->window, windows);
    if (c->family == RT_FAMILY_MISTRAL && windows != 0 && windows != c->layers)
        return rt_fail(e, RT_INVALID,
                       "%s: %u of %u layers have a sliding window: in the family mistral all have one or none", where,
                       windows, c->layers);
    return RT_OK;
}

int rt_config_check(const rt_model_config *c, const char *where, rt_err *e)
{
    int rc = RT_OK;
    float freq[1], scale;
    if ((uint32_t)c->family >= RT_FAMILY_COUNT) return rt_fail(e, RT_INVALID, "%s: no family is set", where);
    RT_TRY(check_sizes(c, where, e));
    RT_TRY(check_family(c, where, e));
    RT_TRY(check_layers(c, where, e));
    if (!(c->norm_eps >= 0 && isfinite(c->norm_eps)) || !(c->init_range >= 0 && isfinite(c->init_range))) {
        rc = rt_fail(e, RT_INVALID, "%s: rms_norm_eps %g and initializer_range %g must be finite and not negative",
                     where, c->norm_eps, c->init_range);
        goto out;
    }
    if (c->eos_count > RT_MAX_EOS) {
        rc = rt_fail(e, RT_INVALID, "%s: %u end-of-text ids, but at most %d are held", where, c->eos_count, RT_MAX_EOS);
        goto out;
    }
    /* The two-wide table costs nothing and asks for every rope parameter. */
    rc = rt_rope_freqs(freq, &scale, 2, &c->rope, e);
    if (rc < 0 && e) rt_err_context(e, "%s", where);
out:
    return rc;
}
