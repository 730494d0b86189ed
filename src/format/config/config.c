/* config.c - a configuration without a file: whether its numbers fit together and its family can have them, and which
 * layers have what.
 *
 * Owns: rt_config_check, with which every reader ends. What it refuses is either no decoder at all or a shape that the
 * family cannot express, so that a configuration that passes can be written in every format. */
#include "format/config/config_internal.h"
#include "format/config/names.h"

#include <math.h>
#include <string.h>

static int in_range(const char *where, const char *what, uint64_t value, uint64_t max, rt_err *e)
{
    if (value >= 1 && value <= max) return RT_OK;
    return rt_fail(e, RT_INVALID, "%s: %s %llu is out of range (1 to %llu): correct the model's configuration", where,
                   what, (unsigned long long)value, (unsigned long long)max);
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

/* A family has only what its own configuration file can say. */
static int check_family(const rt_model_config *c, const char *where, rt_err *e)
{
    const rt_family *f = c->family;
    const char *what = NULL;
    if (c->qk_norm != f->qk_norm)
        what = f->qk_norm ? "has norms on q and k" : "has no norms on q and k";
    else if (f->bias == RT_BIAS_QKV && (!c->qkv_bias || c->o_bias))
        what = "has biases on q, k and v, and none on the attention's output";
    else if (f->bias == RT_BIAS_NONE && (c->qkv_bias || c->o_bias))
        what = "has no biases";
    else if (f->bias == RT_BIAS_KEY && c->qkv_bias != c->o_bias)
        what = "has biases on all of q, k, v and the attention's output, or on none";
    else if (c->mlp_bias && !f->mlp_bias)
        what = "has no biases in its MLP";
    else if (c->window && f->windows == RT_WINDOW_NONE)
        what = "has no sliding window";
    if (!what) return RT_OK;
    return rt_fail(e, RT_INVALID, "%s: the family %s %s: the configuration says otherwise", where, f->name, what);
}

static uint32_t count_windows(const rt_model_config *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->layers; i++) n += c->layer_flags[i] & RT_LAYER_WINDOW ? 1 : 0;
    return n;
}

static int check_layers(const rt_model_config *c, const char *where, rt_err *e)
{
    uint32_t windows = count_windows(c);
    for (uint32_t i = 0; i < c->layers; i++)
        if (c->layer_flags[i] & ~(RT_LAYER_WINDOW | RT_LAYER_NO_ROPE))
            return rt_fail(e, RT_INVALID, "%s: layer %u has unknown flags %u", where, i, c->layer_flags[i]);
    if ((windows > 0) != (c->window > 0))
        return rt_fail(e, RT_INVALID, "%s: the sliding window is %u, but %u layers have one: correct the configuration",
                       where, c->window, windows);
    return RT_OK;
}

static int check_family_layers(const rt_model_config *c, const char *where, rt_err *e)
{
    uint32_t windows = count_windows(c);
    for (uint32_t i = 0; i < c->layers && c->family->no_rope_every == 0; i++)
        if (c->layer_flags[i] & RT_LAYER_NO_ROPE)
            return rt_fail(e, RT_INVALID, "%s: layer %u has no rope, which the family %s does not know", where, i,
                           c->family->name);
    if (c->family->windows == RT_WINDOW_ALL && windows != 0 && windows != c->layers)
        return rt_fail(e, RT_INVALID,
                       "%s: %u of %u layers have a sliding window: in the family %s all have one or none", where,
                       windows, c->layers, c->family->name);
    return RT_OK;
}

int rt_config_check_shape(const rt_model_config *c, const char *where, rt_err *e)
{
    int rc = RT_OK;
    float freq[1], scale;
    RT_TRY(check_sizes(c, where, e));
    RT_TRY(check_layers(c, where, e));
    if (!(c->norm_eps >= 0 && isfinite(c->norm_eps)) || !(c->init_range >= 0 && isfinite(c->init_range))) {
        rc = rt_fail(e, RT_INVALID, "%s: rms_norm_eps %g or initializer_range %g is out of range (finite, 0 or more)",
                     where, c->norm_eps, c->init_range);
        goto out;
    }
    if (c->eos_count > RT_MAX_EOS) {
        rc = rt_fail(e, RT_INVALID, "%s: the number of end-of-text ids %u is out of range (0 to %d)", where,
                     c->eos_count, RT_MAX_EOS);
        goto out;
    }
    /* The two-wide table costs nothing and asks for every rope parameter. */
    rc = rt_rope_freqs(freq, &scale, 2, &c->rope, e);
    if (rc < 0 && e) rt_err_context(e, "%s", where);
out:
    return rc;
}

int rt_config_check(const rt_model_config *c, const char *where, rt_err *e)
{
    int rc;
    if (!c->family) return rt_fail(e, RT_INVALID, "%s: no family is set", where);
    RT_TRY(rt_config_check_shape(c, where, e));
    RT_TRY(check_family(c, where, e));
    RT_TRY(check_family_layers(c, where, e));
out:
    return rc;
}

/* ---- layers ---- */

void rt_config_usual_layers(rt_model_config *c)
{
    for (uint32_t i = 0; i < c->layers && i < RT_MAX_LAYERS; i++) {
        bool rope = c->family->no_rope_every == 0 || (i + 1) % c->family->no_rope_every != 0;
        bool window = c->window && (!rope || c->family->windows != RT_WINDOW_NO_ROPE);
        c->layer_flags[i] = (uint8_t)((rope ? 0 : RT_LAYER_NO_ROPE) | (window ? RT_LAYER_WINDOW : 0));
    }
}

int rt_config_take_layers(rt_model_config *out, const rt_model_config *c, const uint32_t *layers, uint32_t count,
                          rt_err *e)
{
    if (count == 0 || count > c->layers)
        return rt_fail(e, RT_INVALID, "a student takes 1 to %u of the model's layers, not %u", c->layers, count);
    for (uint32_t i = 0; i < count; i++) {
        if (layers[i] >= c->layers)
            return rt_fail(e, RT_INVALID, "there is no layer %u: the model has layers 0 to %u", layers[i],
                           c->layers - 1);
        if (i && layers[i] <= layers[i - 1])
            return rt_fail(e, RT_INVALID, "layer %u after layer %u: name layers in rising order, each once", layers[i],
                           layers[i - 1]);
    }
    *out = *c;
    out->layers = count;
    memset(out->layer_flags, 0, sizeof out->layer_flags);
    uint8_t all = 0;
    for (uint32_t i = 0; i < count; i++) all |= out->layer_flags[i] = c->layer_flags[layers[i]];
    if (!(all & RT_LAYER_WINDOW)) out->window = 0;
    return RT_OK;
}
