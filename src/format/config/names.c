/* names.c - see names.h: the one table of a decoder's parameters, walked in both directions.
 *
 * Owns: names to roles and back, shapes, the one order of all parameters. Which values a configuration may have is
 * config.c's; nothing here is checked again. */
#include "format/config/names.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

typedef struct role_info {
    char per;              /* 'g' or 'l' */
    const char *hf, *gguf; /* without the layer's prefix */
    char rows, cols;
} role_info;

static const role_info roles[RT_ROLE_COUNT] = {
#define X(role, per, hf, gguf, rows, cols) [RT_ROLE_##role] = { per, hf, gguf, rows, cols },
    RT_ROLE_LIST(X)
#undef X
};

static const char hf_prefix[] = "model.layers.", gguf_prefix[] = "blk.";

bool rt_role_present(const rt_model_config *c, rt_role r)
{
    switch (r) {
    case RT_ROLE_Q_BIAS:
    case RT_ROLE_K_BIAS:
    case RT_ROLE_V_BIAS: return c->qkv_bias;
    case RT_ROLE_Q_NORM:
    case RT_ROLE_K_NORM: return c->qk_norm;
    case RT_ROLE_O_BIAS: return c->o_bias;
    case RT_ROLE_GATE_BIAS:
    case RT_ROLE_UP_BIAS:
    case RT_ROLE_DOWN_BIAS: return c->mlp_bias;
    case RT_ROLE_HEAD: return !c->tied;
    default: return r < RT_ROLE_COUNT;
    }
}

bool rt_role_per_layer(rt_role r) { return r < RT_ROLE_COUNT && roles[r].per == 'l'; }

static uint64_t size_of(const rt_model_config *c, char letter)
{
    switch (letter) {
    case 'V': return c->vocab;
    case 'C': return c->width;
    case 'F': return c->hidden;
    case 'Q': return (uint64_t)c->heads * c->head_dim;
    case 'P': return (uint64_t)c->kv_heads * c->head_dim;
    case 'D': return c->head_dim;
    default: return 1;
    }
}

uint32_t rt_role_shape(const rt_model_config *c, rt_role r, uint64_t shape[2])
{
    bool vector = roles[r].rows == '1';
    shape[0] = size_of(c, vector ? roles[r].cols : roles[r].rows);
    shape[1] = vector ? 1 : size_of(c, roles[r].cols);
    return vector ? 1 : 2;
}

uint32_t rt_role_swap_heads(const rt_model_config *c, rt_role r)
{
    if (!c->family->gguf_swaps_rows) return 0;
    if (r == RT_ROLE_Q || r == RT_ROLE_Q_BIAS) return c->heads;
    if (r == RT_ROLE_K || r == RT_ROLE_K_BIAS) return c->kv_heads;
    return 0;
}

static char *print_name(char *buf, const char *prefix, const char *name, rt_role r, uint32_t layer)
{
    if (roles[r].per == 'l')
        snprintf(buf, RT_NAME_BYTES, "%s%u.%s", prefix, layer, name);
    else
        snprintf(buf, RT_NAME_BYTES, "%s", name);
    return buf;
}

char *rt_role_hf_name(char *buf, rt_role r, uint32_t layer)
{
    return print_name(buf, hf_prefix, roles[r].hf, r, layer);
}

char *rt_role_gguf_name(char *buf, rt_role r, uint32_t layer)
{
    return print_name(buf, gguf_prefix, roles[r].gguf, r, layer);
}

/* The number that a layer's name holds, written without leading zeros and ended by a dot; what follows the dot, or
 * null. */
static const char *read_layer(const char *text, uint32_t *layer)
{
    uint32_t n = 0, digits = 0;
    for (; *text >= '0' && *text <= '9' && digits < 5; text++, digits++) n = n * 10 + (uint32_t)(*text - '0');
    if (digits == 0 || *text != '.' || n >= RT_MAX_LAYERS) return NULL;
    if (digits > 1 && text[-(int)digits] == '0') return NULL;
    *layer = n;
    return text + 1;
}

static rt_role find_role(const char *name, const char *prefix, bool gguf, uint32_t *layer)
{
    char per = 'g';
    size_t n = strlen(prefix);
    uint32_t at = 0;
    if (strncmp(name, prefix, n) == 0) {
        name = read_layer(name + n, &at);
        if (!name) return RT_ROLE_NONE;
        per = 'l';
    }
    for (int r = 0; r < RT_ROLE_COUNT; r++) {
        if (roles[r].per != per || strcmp(name, gguf ? roles[r].gguf : roles[r].hf) != 0) continue;
        if (layer) *layer = at;
        return (rt_role)r;
    }
    return RT_ROLE_NONE;
}

rt_role rt_role_of_hf(const char *name, uint32_t *layer) { return find_role(name, hf_prefix, false, layer); }
rt_role rt_role_of_gguf(const char *name, uint32_t *layer) { return find_role(name, gguf_prefix, true, layer); }

bool rt_config_parameters(const rt_model_config *c, uint64_t *out)
{
    uint64_t total = 0;
    for (int r = 0; r < RT_ROLE_COUNT; r++) {
        uint64_t shape[2], n;
        if (!rt_role_present(c, (rt_role)r)) continue;
        rt_role_shape(c, (rt_role)r, shape);
        if (!rt_mul_u64(shape[0], shape[1], &n)) return false;
        if (roles[r].per == 'l' && !rt_mul_u64(n, c->layers, &n)) return false;
        if (!rt_add_u64(total, n, &total)) return false;
    }
    *out = total;
    return true;
}

/* The roles of one layer that the model has, in the order of the table; their number. */
static uint32_t layer_roles(const rt_model_config *c, rt_role list[RT_ROLE_COUNT])
{
    uint32_t n = 0;
    for (int r = 0; r < RT_ROLE_COUNT; r++) {
        if (roles[r].per == 'l' && rt_role_present(c, (rt_role)r)) list[n++] = (rt_role)r;
    }
    return n;
}

uint32_t rt_param_count(const rt_model_config *c)
{
    rt_role list[RT_ROLE_COUNT];
    return 2 + c->layers * layer_roles(c, list) + (c->tied ? 0 : 1);
}

bool rt_param_at(const rt_model_config *c, uint32_t i, rt_role *r, uint32_t *layer)
{
    rt_role list[RT_ROLE_COUNT];
    uint32_t each = layer_roles(c, list), inner = each * c->layers;
    if (i >= rt_param_count(c)) return false;
    *layer = 0;
    if (i == 0) {
        *r = RT_ROLE_EMBED;
    } else if (i <= inner) {
        *r = list[(i - 1) % each];
        *layer = (i - 1) / each;
    } else {
        *r = i == inner + 1 ? RT_ROLE_FINAL_NORM : RT_ROLE_HEAD;
    }
    return true;
}
