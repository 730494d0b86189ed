/* config_layers.c - the keys of config.json that tell layers apart: sliding windows and layers without rope.
 *
 * Owns: sliding_window, use_sliding_window, max_window_layers, layer_types, no_rope_layers, no_rope_layer_interval,
 * each as the family's class reads it. A file that asks for windows and has none is refused, as transformers fails on
 * it. */
#include "format/config/config_internal.h"

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

/* The window's width; 0 when the key is null, or absent and the family has no default. */
static uint32_t read_width(rt_config_reader *r, uint32_t fallback)
{
    if (json_is_null(json_object_get(r->at, "sliding_window"))) return 0;
    return rt_config_u32(r, "sliding_window", 1, INT32_MAX, fallback);
}

/* One window for all layers or none; of a family without windows, none. */
static void read_uniform(rt_config_reader *r, rt_model_config *c)
{
    bool never = c->family->windows == RT_WINDOW_NONE;
    bool unused = never && json_is_false(json_object_get(r->at, "use_sliding_window"));
    bool typed = read_types(r, c);
    uint32_t windows = count_windows(c);
    c->window = unused ? 0 : read_width(r, c->family->defaults.window);
    if (r->rc < 0) return;
    if (never && c->window)
        rt_config_fault(r, RT_UNSUPPORTED,
                        "key \"sliding_window\" is %u, but the family %s has no window; remove it, or say the "
                        "model_type of a family that has",
                        c->window, c->family->name);
    if (typed && windows != (c->window ? c->layers : 0))
        rt_config_fault(r, RT_UNSUPPORTED,
                        "key \"layer_types\" gives %u of %u layers a sliding window, which the family %s cannot have",
                        windows, c->layers, c->family->name);
    for (uint32_t i = 0; i < c->layers && c->window; i++) c->layer_flags[i] |= RT_LAYER_WINDOW;
}

/* Layers from max_window_layers on, or those without rope, unless layer_types says which. */
static void read_some(rt_config_reader *r, rt_model_config *c)
{
    bool upper = c->family->windows == RT_WINDOW_UPPER;
    uint32_t from = upper ? rt_config_u32(r, "max_window_layers", 0, INT32_MAX, 28) : 0;
    bool use = rt_config_bool(r, "use_sliding_window", false);
    c->window = use ? read_width(r, c->family->defaults.window) : 0;
    if (read_types(r, c) || c->window == 0) return;
    for (uint32_t i = from; i < c->layers; i++)
        if (upper || (c->layer_flags[i] & RT_LAYER_NO_ROPE)) c->layer_flags[i] |= RT_LAYER_WINDOW;
}

static void read_no_rope(rt_config_reader *r, rt_model_config *c)
{
    const json_t *list = json_object_get(r->at, "no_rope_layers");
    uint32_t every = rt_config_u32(r, "no_rope_layer_interval", 1, INT32_MAX, c->family->no_rope_every);
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
}

void rt_config_read_layers(rt_config_reader *r, rt_model_config *c)
{
    if (r->rc < 0) return;
    if (c->family->no_rope_every) read_no_rope(r, c);
    if (r->rc < 0) return;
    if (c->family->windows == RT_WINDOW_NONE || c->family->windows == RT_WINDOW_ALL)
        read_uniform(r, c);
    else
        read_some(r, c);
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

/* layer_types or no_rope_layers; null when out of memory. */
static json_t *layer_list(const rt_model_config *c, bool types)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (uint32_t i = 0; i < c->layers && ok; i++) {
        uint8_t flags = c->layer_flags[i];
        const char *type = flags & RT_LAYER_WINDOW ? "sliding_attention" : "full_attention";
        ok = json_array_append_new(list, types ? json_string(type) : json_integer(flags & RT_LAYER_NO_ROPE ? 0 : 1)) ==
             0;
    }
    if (ok) return list;
    json_decref(list);
    return NULL;
}

static bool put_types(const rt_model_config *c, json_t *root, bool needed)
{
    if (!needed && !json_is_array(json_object_get(root, "layer_types"))) return true;
    return rt_config_put(root, "layer_types", layer_list(c, true));
}

static json_t *width_or_null(const rt_model_config *c) { return c->window ? json_integer(c->window) : json_null(); }

static bool write_upper(const rt_model_config *c, json_t *root)
{
    uint32_t first = 0;
    bool ok = rt_config_put(root, "use_sliding_window", json_boolean(c->window > 0));
    if (c->window == 0) return put_types(c, root, false) && ok; /* the other keys say nothing and stay */
    while (first < c->layers && !(c->layer_flags[first] & RT_LAYER_WINDOW)) first++;
    ok = rt_config_put(root, "sliding_window", width_or_null(c)) && ok;
    ok = rt_config_put(root, "max_window_layers", json_integer(first)) && ok;
    return put_types(c, root, count_windows(c) != c->layers - first) && ok;
}

static bool write_no_rope(const rt_model_config *c, json_t *root)
{
    bool usual = true;
    for (uint32_t i = 0; i < c->layers; i++) {
        bool window = c->layer_flags[i] & RT_LAYER_WINDOW, no_rope = c->layer_flags[i] & RT_LAYER_NO_ROPE;
        usual = usual && window == (no_rope && c->window > 0);
    }
    bool ok = rt_config_put(root, "use_sliding_window", json_boolean(c->window > 0));
    if (c->window > 0 || !json_object_get(root, "sliding_window"))
        ok = rt_config_put(root, "sliding_window", width_or_null(c)) && ok;
    return put_types(c, root, !usual) && ok;
}

bool rt_config_write_layers(const rt_model_config *c, json_t *root)
{
    bool ok = !c->family->no_rope_every || rt_config_put(root, "no_rope_layers", layer_list(c, false));
    switch (c->family->windows) {
    case RT_WINDOW_NONE: return put_types(c, root, false) && ok;
    case RT_WINDOW_ALL: /* without the key the window would be the default */
        return rt_config_put(root, "sliding_window", width_or_null(c)) && put_types(c, root, false) && ok;
    case RT_WINDOW_UPPER: return write_upper(c, root) && ok;
    case RT_WINDOW_NO_ROPE: return write_no_rope(c, root) && ok;
    }
    return false;
}
