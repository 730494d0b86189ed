/* mix.c - which type each tensor of an output gets.
 *
 * Owns: the names of --dtype, the mixtures and fallbacks of llama.cpp for dense models, what each format can hold. How
 * values become blocks is num/quant.c's. */
#include "format/model_write.h"

#include <strings.h>

/* PURE: every matrix has the base type. The others are llama.cpp's mixtures over the base type. */
typedef enum mix_rule { PURE, MEDIUM, SMALL } mix_rule;

struct rt_mix {
    const char *name;
    rt_dtype base;
    mix_rule rule;
};

static const rt_mix mixes[] = {
    { "f32", RT_DTYPE_F32, PURE },      { "f16", RT_DTYPE_F16, PURE },       { "bf16", RT_DTYPE_BF16, PURE },
    { "q8_0", RT_DTYPE_Q8_0, PURE },    { "q4_0", RT_DTYPE_Q4_0, PURE },     { "q4_1", RT_DTYPE_Q4_1, PURE },
    { "q5_0", RT_DTYPE_Q5_0, PURE },    { "q5_1", RT_DTYPE_Q5_1, PURE },     { "q4_k", RT_DTYPE_Q4_K, PURE },
    { "q5_k", RT_DTYPE_Q5_K, PURE },    { "q6_k", RT_DTYPE_Q6_K, PURE },     { "q4_k_m", RT_DTYPE_Q4_K, MEDIUM },
    { "q4_k_s", RT_DTYPE_Q4_K, SMALL }, { "q5_k_m", RT_DTYPE_Q5_K, MEDIUM }, { "q5_k_s", RT_DTYPE_Q5_K, SMALL },
};

static const char *const mix_names[] = { "f32",  "f16",  "bf16", "q8_0",   "q4_0",   "q4_1",   "q5_0",   "q5_1",
                                         "q4_k", "q5_k", "q6_k", "q4_k_m", "q4_k_s", "q5_k_m", "q5_k_s", NULL };

const rt_mix *rt_mix_find(const char *name)
{
    for (size_t i = 0; i < sizeof mixes / sizeof mixes[0]; i++) {
        if (strcasecmp(name, mixes[i].name) == 0) return &mixes[i];
    }
    return NULL;
}

const char *rt_mix_name(const rt_mix *m) { return m->name; }
const char *const *rt_mix_names(void) { return mix_names; }

bool rt_container_holds(rt_container c, rt_dtype d)
{
    if (d == RT_DTYPE_E4M3) return false; /* its scales are a buffer of their own, which no container has a place for */
    switch (c) {
    case RT_CONTAINER_HF:
    case RT_CONTAINER_SAFETENSORS: return !rt_dtype_is_quant(d);
    case RT_CONTAINER_GGUF: return d != RT_DTYPE_U8 && d != RT_DTYPE_U32;
    case RT_CONTAINER_APR:
        return d == RT_DTYPE_F32 || d == RT_DTYPE_F16 || d == RT_DTYPE_BF16 || d == RT_DTYPE_Q4_K || d == RT_DTYPE_Q6_K;
    }
    return false;
}

/* The first and the last eighth of the layers, and every third between them. */
static bool more_bits(uint32_t layer, uint32_t layers)
{
    uint32_t eighth = layers / 8;
    return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

/* The value projection of a 70B model is an eighth as large as that of the queries, so better bits cost little there.
 * llama.cpp knows these models by their 80 layers. */
static bool is_70b(const rt_model_config *c)
{
    rt_70b_rule rule = c->family->is_70b;
    return c->layers == 80 && (rule == RT_70B_ANY || (rule == RT_70B_GROUPED && c->heads != c->kv_heads));
}

static rt_dtype mixed_type(const rt_mix *m, const rt_model_config *c, rt_role r, uint32_t layer)
{
    rt_dtype d = m->base;
    bool q4 = m->base == RT_DTYPE_Q4_K;
    if (m->rule == PURE) return d;
    if (r == RT_ROLE_HEAD || (r == RT_ROLE_EMBED && c->tied)) return RT_DTYPE_Q6_K;
    if (r == RT_ROLE_V) {
        if (m->rule == MEDIUM && more_bits(layer, c->layers)) d = RT_DTYPE_Q6_K;
        if (m->rule == SMALL && q4 && layer < 4) d = RT_DTYPE_Q5_K;
        if (d == RT_DTYPE_Q4_K && is_70b(c)) d = RT_DTYPE_Q5_K;
    }
    if (r == RT_ROLE_DOWN) {
        if (m->rule == MEDIUM && more_bits(layer, c->layers)) d = RT_DTYPE_Q6_K;
        if (m->rule == SMALL && q4 && layer < c->layers / 8) d = RT_DTYPE_Q5_K;
    }
    return d;
}

/* What stands in for a type whose blocks the rows do not fill. */
static rt_dtype fallback_type(rt_dtype d, uint64_t cols)
{
    if (cols % rt_dtype_table[d].block_elems == 0) return d;
    if (d == RT_DTYPE_Q4_K) d = RT_DTYPE_Q5_0;
    if (d == RT_DTYPE_Q5_K) d = RT_DTYPE_Q5_1;
    if (d == RT_DTYPE_Q6_K) d = RT_DTYPE_Q8_0;
    return cols % rt_dtype_table[d].block_elems == 0 ? d : RT_DTYPE_F16;
}

static rt_dtype matrix_type(const rt_mix *m, const rt_model_config *c, rt_container to, rt_role r, uint32_t layer,
                            bool *fell)
{
    uint64_t shape[2];
    rt_role_shape(c, r, shape);
    rt_dtype wanted = mixed_type(m, c, r, layer), d = fallback_type(wanted, shape[1]);
    if (!rt_container_holds(to, d)) d = RT_DTYPE_BF16;
    *fell = d != wanted;
    return d;
}

int rt_mix_apply(const rt_mix *m, const rt_model_config *c, rt_container to, rt_out_tensor *t, bool *fell,
                 uint32_t *fallbacks, rt_err *e)
{
    bool quant = rt_dtype_is_quant(m->base);
    bool plain_only = to == RT_CONTAINER_HF || to == RT_CONTAINER_SAFETENSORS;
    uint32_t count = rt_param_count(c);
    if (fallbacks) *fallbacks = 0;
    if (quant && plain_only)
        return rt_fail(e, RT_INVALID,
                       "safetensors cannot hold %s; write gguf or apr (--to gguf), or take f32, f16 or bf16", m->name);
    if (!rt_container_holds(to, m->base))
        return rt_fail(e, RT_INVALID,
                       "apr cannot hold %s; it holds f32, f16, bf16, q4_k and q6_k; write gguf (--to gguf) for others",
                       m->name);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t shape[2];
        bool down = false;
        rt_param_at(c, i, &t[i].role, &t[i].layer);
        if (rt_role_shape(c, t[i].role, shape) == 2)
            t[i].dtype = matrix_type(m, c, to, t[i].role, t[i].layer, &down);
        else
            t[i].dtype = plain_only ? m->base : RT_DTYPE_F32;
        if (fell) fell[i] = down;
        if (down && fallbacks) *fallbacks += 1;
    }
    return RT_OK;
}
