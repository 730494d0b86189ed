/* config_layers.c - the keys of config.json that tell layers apart: sliding windows and layers without rope.
 *
 * Owns: sliding_window, use_sliding_window, max_window_layers, layer_types, no_rope_layers, no_rope_layer_interval,
 * each as the family's class reads it. A file that asks for windows and has none is refused, as transformers fails on
 * it. */
#include "format/config_internal.h"

#include <string.h>

/* ---- reading ---- */

/* layer_types into the flags; false when the key is absent or null. */
static bool read_types(rt_config_reader *r, rt_model_config *c)
{
    const json_t *list = json_object_get(r->at, "layer_types"), *item;
    size_t i;
    if (!list || json_is_null(list) || r->rc < 0) return false;
    if (!json_is_array(list) || json_array_size(list) != c->layers) {
        rt_config_fault(r, RT_FORMAT, "key \"layer_types\" must be a list of num_hidden_layers = %u names: correct it",
                        c->layers);
        return false;
    }
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(item);
        if (name && strcmp(name, "sliding_attention") == 0)
            c->layer_flags[i] |= RT_LAYER_WINDOW;
        else if (!name || strcmp(name, "full_attention") != 0)
            rt_config_fault(r, RT_UNSUPPORTED,
                            "key \"layer_types\": layer %zu is \"%.64s\", which is not supported; it is full_attention "
                            "or sliding_attention",
                            i, name ? name : "(not a string)");
    }
    return r->rc >= 0;
}

static uint32_t count_windows(const rt_model_config *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->layers; i++) n += c->layer_flags[i] & RT_LAYER_WINDOW ? 1 : 0;
    return n;
}

static void set_windows(rt_model_config *c, uint32_t from)
{
    for (uint32_t i = from; i < c->layers; i++) c->layer_flags[i] |= RT_LAYER_WINDOW;
}

/* The window's width; 0 when the key is null, or absent and the family has no default. */
static uint32_t read_width(rt_config_reader *r, uint32_t fallback)
{
    if (json_is_null(json_object_get(r->at, "sliding_window"))) return 0;
    return rt_config_u32(r, "sliding_window", 1, INT32_MAX, fallback);
}

/* mistral: one window for all layers or none. llama knows no window at all. */
static void read_uniform(rt_config_reader *r, rt_model_config *c)
{
    bool llama = c->family == RT_FAMILY_LLAMA;
    bool unused = llama && json_is_false(json_object_get(r->at, "use_sliding_window"));
    bool typed = read_types(r, c);
    uint32_t windows = count_windows(c);
    c->window = unused ? 0 : read_width(r, llama ? 0 : 4096);
    if (r->rc < 0) return;
    if (llama && c->window)
        rt_config_fault(r, RT_UNSUPPORTED,
                        "key \"sliding_window\" is %u, but the family llama has no window; the family mistral has",
                        c->window);
    if (typed && windows != (c->window ? c->layers : 0))
        rt_config_fault(r, RT_UNSUPPORTED,
                        "key \"layer_types\" gives %u of %u layers a sliding window, which the family %s cannot have",
                        windows, c->layers, rt_family_table[c->family].name);
    if (c->window) set_windows(c, 0);
}

/* qwen2, qwen3: layers from max_window_layers on, unless layer_types says which. */
static void read_upper(rt_config_reader *r, rt_model_config *c)
{
    bool use = rt_config_bool(r, "use_sliding_window", false);
    uint32_t from = rt_config_u32(r, "max_window_layers", 0, INT32_MAX, 28);
    c->window = use ? read_width(r, 4096) : 0;
    if (!read_types(r, c) && c->window) set_windows(c, from);
}

/* smollm3: layers without rope have the window, unless layer_types says which. */
static void read_no_rope(rt_config_reader *r, rt_model_config *c)
{
    const json_t *list = json_object_get(r->at, "no_rope_layers");
    uint32_t every = rt_config_u32(r, "no_rope_layer_interval", 1, INT32_MAX, 4);
    if (list && !json_is_null(list) && (!json_is_array(list) || json_array_size(list) < c->layers)) {
        rt_config_fault(r, RT_FORMAT,
                        "key \"no_rope_layers\" must be a list of num_hidden_layers = %u numbers, 1 for a "
                        "layer with rope: correct it",
                        c->layers);
        return;
    }
    for (uint32_t i = 0; i < c->layers; i++) {
        bool rope = (i + 1) % every != 0;
        if (json_is_array(list)) {
            const json_t *v = json_array_get(list, i);
            if (!json_is_integer(v) && !json_is_boolean(v)) {
                rt_config_fault(r, RT_FORMAT, "key \"no_rope_layers\": entry %u must be 0 or 1: correct it", i);
                return;
            }
            rope = json_is_true(v) || json_integer_value(v) != 0;
        }
        if (!rope) c->layer_flags[i] |= RT_LAYER_NO_ROPE;
    }
    bool use = rt_config_bool(r, "use_sliding_window", false);
    c->window = use ? read_width(r, 0) : 0;
    if (read_types(r, c) || c->window == 0) return;
    for (uint32_t i = 0; i < c->layers; i++) {
        if (c->layer_flags[i] & RT_LAYER_NO_ROPE) c->layer_flags[i] |= RT_LAYER_WINDOW;
    }
}

void rt_config_read_layers(rt_config_reader *r, rt_model_config *c)
{
    if (r->rc < 0) return;
    if (c->family == RT_FAMILY_LLAMA || c->family == RT_FAMILY_MISTRAL)
        read_uniform(r, c);
    else if (c->family == RT_FAMILY_SMOLLM3)
        read_no_rope(r, c);
    else
        read_upper(r, c);
    if (r->rc < 0) return;
    uint32_t windows = count_windows(c);
    if (windows > 0 && c->window == 0)
        rt_config_fault(
            r, RT_FORMAT,
            "key \"layer_types\" has sliding_attention, but use_sliding_window is false or sliding_window is "
            "not set: correct one of them");
    if (windows == 0) c->window = 0;
}

/* ---- writing ---- */

static json_t *types_list(const rt_model_config *c)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (uint32_t i = 0; i < c->layers && ok; i++) {
        bool window = c->layer_flags[i] & RT_LAYER_WINDOW;
        ok = json_array_append_new(list, json_string(window ? "sliding_attention" : "full_attention")) == 0;
    }
    if (ok) return list;
    json_decref(list);
    return NULL;
}

static json_t *rope_list(const rt_model_config *c)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (uint32_t i = 0; i < c->layers && ok; i++)
        ok = json_array_append_new(list, json_integer(c->layer_flags[i] & RT_LAYER_NO_ROPE ? 0 : 1)) == 0;
    if (ok) return list;
    json_decref(list);
    return NULL;
}

static bool put_types(const rt_model_config *c, json_t *root, bool needed)
{
    return needed || json_is_array(json_object_get(root, "layer_types"))
               ? rt_config_put(root, "layer_types", types_list(c))
               : true;
}

static bool write_upper(const rt_model_config *c, json_t *root)
{
    uint32_t first = 0, above = 0;
    bool ok = rt_config_put(root, "use_sliding_window", json_boolean(c->window > 0));
    if (c->window == 0) return put_types(c, root, false) && ok; /* the other keys say nothing and stay */
    while (first < c->layers && !(c->layer_flags[first] & RT_LAYER_WINDOW)) first++;
    for (uint32_t i = first; i < c->layers; i++) above += c->layer_flags[i] & RT_LAYER_WINDOW ? 1 : 0;
    ok = rt_config_put(root, "sliding_window", json_integer(c->window)) && ok;
    ok = rt_config_put(root, "max_window_layers", json_integer(first)) && ok;
    return put_types(c, root, above != c->layers - first) && ok;
}

static bool write_no_rope(const rt_model_config *c, json_t *root)
{
    bool usual = true;
    for (uint32_t i = 0; i < c->layers; i++) {
        bool window = c->layer_flags[i] & RT_LAYER_WINDOW, no_rope = c->layer_flags[i] & RT_LAYER_NO_ROPE;
        usual = usual && window == (no_rope && c->window > 0);
    }
    bool ok = rt_config_put(root, "no_rope_layers", rope_list(c));
    ok = rt_config_put(root, "use_sliding_window", json_boolean(c->window > 0)) && ok;
    if (c->window > 0 || !json_object_get(root, "sliding_window"))
        ok = rt_config_put(root, "sliding_window", c->window ? json_integer(c->window) : json_null()) && ok;
    return put_types(c, root, !usual) && ok;
}

bool rt_config_write_layers(const rt_model_config *c, json_t *root)
{
    switch (c->family) {
    case RT_FAMILY_QWEN2:
    case RT_FAMILY_QWEN3: return write_upper(c, root);
    case RT_FAMILY_SMOLLM3: return write_no_rope(c, root);
    case RT_FAMILY_MISTRAL: /* without the key the window would be 4096 */
        return rt_config_put(root, "sliding_window", c->window ? json_integer(c->window) : json_null()) &&
               put_types(c, root, false);
    default: return put_types(c, root, false);
    }
}
