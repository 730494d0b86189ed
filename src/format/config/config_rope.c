/* config_rope.c - the rope keys of config.json, in both forms that files have them.
 *
 * Owns: rope_theta with rope_scaling (the form of transformers 4) and rope_parameters (of 5). Where the two versions of
 * transformers would read one file differently, it is refused. Formulas and ranges are num/rope_freq.c's. */
#include "format/config/config_internal.h"

#include <math.h>
#include <string.h>

static const char *const kind_names[] = {
    [RT_ROPE_PLAIN] = "default", [RT_ROPE_LINEAR] = "linear", [RT_ROPE_LLAMA3] = "llama3", [RT_ROPE_YARN] = "yarn"
};

/* ---- reading ---- */

/* Keys that an object of rope parameters may have; one that its kind does not use is passed over, as transformers does,
 * but an unknown one may mean another computation. */
static void refuse_unknown(rt_config_reader *r)
{
    static const char *const known[] = { "rope_type",        "type",
                                         "rope_theta",       "partial_rotary_factor",
                                         "factor",           "low_freq_factor",
                                         "high_freq_factor", "original_max_position_embeddings",
                                         "beta_fast",        "beta_slow",
                                         "attention_factor", "mscale",
                                         "mscale_all_dim",   "truncate",
                                         "finetuned" };
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)r->at, key, value)
    {
        bool found = json_is_null(value);
        for (size_t i = 0; i < sizeof known / sizeof known[0] && !found; i++) found = strcmp(key, known[i]) == 0;
        if (!found)
            rt_config_fault(r, RT_UNSUPPORTED, "key \"%s%.64s\" may change the computation and is not supported",
                            r->path, key);
    }
    if (rt_config_has(r, "partial_rotary_factor") && rt_config_real(r, "partial_rotary_factor", 1) != 1)
        rt_config_fault(r, RT_UNSUPPORTED, "key \"%spartial_rotary_factor\" other than 1 is not supported", r->path);
}

static void read_kind(rt_config_reader *r, rt_rope_scaling *s, bool old_form)
{
    const char *now = rt_config_text(r, "rope_type", NULL), *before = rt_config_text(r, "type", NULL);
    const char *name = now ? now : before;
    if (now && before && strcmp(now, before) != 0)
        rt_config_fault(r, RT_FORMAT, "keys \"%srope_type\" and \"%stype\" differ (\"%.32s\", \"%.32s\"): remove one",
                        r->path, r->path, now, before);
    if (!name && old_form)
        rt_config_fault(r, RT_FORMAT, "key \"%srope_type\" is missing: say which scaling it is", r->path);
    if (!name || r->rc < 0) return;
    for (int k = 0; k <= RT_ROPE_YARN; k++) {
        if (strcmp(name, kind_names[k]) != 0) continue;
        s->kind = (rt_rope_kind)k;
        return;
    }
    rt_config_fault(r, RT_UNSUPPORTED, "rope type \"%.64s\" is not supported; it is default, linear, llama3 or yarn",
                    name);
}

static double need_real(rt_config_reader *r, const char *key)
{
    if (!json_object_get(r->at, key))
        rt_config_fault(r, RT_FORMAT, "key \"%s%s\" is missing, which this rope type needs: add it", r->path, key);
    return rt_config_real(r, key, 1);
}

/* Null and absent are the same, and so is 0 where transformers writes `or`. */
static double maybe_real(rt_config_reader *r, const char *key)
{
    return rt_config_has(r, key) ? rt_config_real(r, key, 0) : 0;
}

static void read_scaling(rt_config_reader *r, const rt_model_config *c, rt_rope_scaling *s)
{
    bool yarn = s->kind == RT_ROPE_YARN;
    if (s->kind == RT_ROPE_PLAIN) return;
    if (s->kind != RT_ROPE_LINEAR)
        s->original_context = rt_config_has(r, "original_max_position_embeddings")
                                  ? rt_config_real(r, "original_max_position_embeddings", 0)
                                  : c->context;
    if (yarn && json_is_null(json_object_get(r->at, "factor")))
        s->factor = s->original_context > 0 ? c->context / s->original_context : 0;
    else
        s->factor = need_real(r, "factor");
    if (s->kind == RT_ROPE_LLAMA3) {
        s->low_freq = need_real(r, "low_freq_factor");
        s->high_freq = need_real(r, "high_freq_factor");
    }
    if (!yarn) return;
    s->beta_fast = maybe_real(r, "beta_fast");
    s->beta_slow = maybe_real(r, "beta_slow");
    s->attention_factor = maybe_real(r, "attention_factor");
    s->mscale = maybe_real(r, "mscale");
    s->mscale_all_dim = maybe_real(r, "mscale_all_dim");
    s->no_truncate = !rt_config_bool(r, "truncate", true);
    if (rt_config_has(r, "attention_factor") && s->attention_factor == 0)
        rt_config_fault(r, RT_FORMAT, "key \"%sattention_factor\" is 0: correct the file", r->path);
}

static void read_object(rt_config_reader *file, rt_model_config *c, const char *key, bool old_form)
{
    const json_t *o = json_object_get(file->at, key);
    rt_config_reader r = *file;
    if (!json_is_object(o)) {
        rt_config_fault(file, RT_FORMAT, "key \"%s\" must be an object: correct the file", key);
        return;
    }
    r.at = o;
    r.path = old_form ? "rope_scaling." : "rope_parameters.";
    if (json_object_get(o, "full_attention") || json_object_get(o, "sliding_attention")) {
        rt_config_fault(file, RT_UNSUPPORTED, "key \"%s\" differs between layers, which is not supported", key);
        return;
    }
    refuse_unknown(&r);
    if (json_object_get(o, "rope_theta")) {
        double theta = rt_config_real(&r, "rope_theta", c->rope.theta);
        if (json_object_get(file->at, "rope_theta") && theta != c->rope.theta)
            rt_config_fault(&r, RT_FORMAT, "keys \"rope_theta\" (%g) and \"%srope_theta\" (%g) differ: remove one",
                            c->rope.theta, r.path, theta);
        c->rope.theta = theta;
    }
    read_kind(&r, &c->rope, old_form);
    read_scaling(&r, c, &c->rope);
    file->rc = r.rc;
}

static bool same(const rt_rope_scaling *a, const rt_rope_scaling *b)
{
    return a->kind == b->kind && a->theta == b->theta && a->factor == b->factor && a->low_freq == b->low_freq &&
           a->high_freq == b->high_freq && a->original_context == b->original_context && a->beta_fast == b->beta_fast &&
           a->beta_slow == b->beta_slow && a->attention_factor == b->attention_factor && a->mscale == b->mscale &&
           a->mscale_all_dim == b->mscale_all_dim && a->no_truncate == b->no_truncate;
}

void rt_config_read_rope(rt_config_reader *r, rt_model_config *c)
{
    static const char *const original = "original_max_position_embeddings";
    const json_t *old = json_object_get(r->at, "rope_scaling");
    bool has_old = old && !json_is_null(old) && !(json_is_object(old) && json_object_size(old) == 0);
    c->rope = (rt_rope_scaling){ .theta = rt_config_real(r, "rope_theta", c->family->defaults.theta) };
    if (r->rc < 0) return;
    if (has_old)
        read_object(r, c, "rope_scaling", true);
    else if (rt_config_has(r, "rope_parameters"))
        read_object(r, c, "rope_parameters", false);
    if (r->rc < 0) return;
    if (has_old && rt_config_has(r, "rope_parameters")) {
        rt_model_config other = { .family = c->family, .context = c->context, .rope.theta = c->rope.theta };
        read_object(r, &other, "rope_parameters", false);
        if (r->rc >= 0 && !same(&other.rope, &c->rope))
            rt_config_fault(r, RT_FORMAT, "keys \"rope_scaling\" and \"rope_parameters\" differ: remove one");
    }
    bool scaled = c->rope.kind == RT_ROPE_LLAMA3 || c->rope.kind == RT_ROPE_YARN;
    if (scaled && rt_config_has(r, original) && rt_config_real(r, original, 0) != c->rope.original_context)
        rt_config_fault(r, RT_FORMAT, "key \"%s\" differs from the one of the rope parameters: remove one", original);
}

/* ---- writing ---- */

static json_t *number(double v)
{
    bool whole = v == floor(v) && fabs(v) < 1e15;
    return whole ? json_integer((json_int_t)v) : json_real(v);
}

/* Optional keys: set where there is a value, else removed. */
static bool put_or_drop(json_t *o, const char *key, double v)
{
    if (v != 0) return rt_config_put(o, key, json_real(v));
    json_object_del(o, key);
    return true;
}

static bool put_scaling(json_t *o, const rt_rope_scaling *s, const char *type_key)
{
    static const char *const mine[] = { "factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow" };
    bool llama3 = s->kind == RT_ROPE_LLAMA3, yarn = s->kind == RT_ROPE_YARN, ok;
    ok = rt_config_put(o, type_key, json_string(kind_names[s->kind]));
    if (strcmp(type_key, "type") != 0 && json_object_get(o, "type"))
        ok = rt_config_put(o, "type", json_string(kind_names[s->kind])) && ok;
    const double values[] = { s->kind != RT_ROPE_PLAIN ? s->factor : 0, llama3 ? s->low_freq : 0,
                              llama3 ? s->high_freq : 0, yarn ? s->beta_fast : 0, yarn ? s->beta_slow : 0 };
    for (size_t i = 0; i < sizeof mine / sizeof mine[0]; i++) ok = put_or_drop(o, mine[i], values[i]) && ok;
    ok = put_or_drop(o, "attention_factor", yarn ? s->attention_factor : 0) && ok;
    ok = put_or_drop(o, "mscale", yarn ? s->mscale : 0) && ok;
    ok = put_or_drop(o, "mscale_all_dim", yarn ? s->mscale_all_dim : 0) && ok;
    if (llama3 || yarn)
        ok = rt_config_put(o, "original_max_position_embeddings", number(s->original_context)) && ok;
    else
        json_object_del(o, "original_max_position_embeddings");
    if (yarn && (s->no_truncate || json_object_get(o, "truncate")))
        ok = rt_config_put(o, "truncate", json_boolean(!s->no_truncate)) && ok;
    return ok;
}

/* The object under key, made when it is not one. */
static json_t *object_at(json_t *root, const char *key)
{
    json_t *o = json_object_get(root, key);
    if (json_is_object(o)) return o;
    return rt_config_put(root, key, json_object()) ? json_object_get(root, key) : NULL;
}

bool rt_config_write_rope(const rt_model_config *c, json_t *root)
{
    const rt_rope_scaling *s = &c->rope;
    bool newer = json_is_object(json_object_get(root, "rope_parameters"));
    json_t *old = json_object_get(root, "rope_scaling");
    bool ok = true;
    if (newer) {
        json_t *o = object_at(root, "rope_parameters");
        ok = rt_config_put(o, "rope_theta", json_real(s->theta)) && put_scaling(o, s, "rope_type");
    }
    if (!newer || json_object_get(root, "rope_theta"))
        ok = rt_config_put(root, "rope_theta", json_real(s->theta)) && ok;
    if (newer && !old) return ok;
    if (s->kind == RT_ROPE_PLAIN) return rt_config_put(root, "rope_scaling", json_null()) && ok;
    bool legacy = json_object_get(old, "type") && !json_object_get(old, "rope_type");
    if (newer && !json_is_object(old)) return ok; /* null beside rope_parameters: it says nothing */
    json_t *o = object_at(root, "rope_scaling");
    if (!o) return false;
    if (json_object_get(o, "rope_theta")) ok = rt_config_put(o, "rope_theta", json_real(s->theta)) && ok;
    return put_scaling(o, s, legacy ? "type" : "rope_type") && ok;
}
