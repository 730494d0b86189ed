/* adapter.c - see adapter.h. */
#include "format/adapter.h"

#include "base/json.h"
#include "format/hf/hf.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WEIGHTS "adapter_model.safetensors"

/* ---- the base ---- */

/* A file, or a folder of a model or of an adapter: a folder of the same name that is neither is passed over. */
static bool is_model(const char *path)
{
    char config[PATH_MAX];
    if (!rt_path_is_dir(path)) return rt_path_exists(path);
    bool fits = snprintf(config, sizeof config, "%s/config.json", path) < (int)sizeof config;
    return (fits && rt_path_exists(config)) || rt_hf_is_adapter(path);
}

/* Of a name that is a path: the same name beside the adapter, or here, for an adapter and a base that were moved
 * together, and for one that gives its base by name alone. */
static int find_near(rt_adapter *ad, rt_arena *a, rt_err *e)
{
    const char *base = rt_path_base(ad->wanted);
    char *beside = rt_arena_printf(a, "%s/../%s", ad->folder, base);
    if (!beside) return rt_no_memory(e, ad->folder);
    ad->base = !*base ? NULL : is_model(beside) ? beside : is_model(base) ? base : NULL;
    return ad->base ? RT_OK : RT_NOT_FOUND;
}

static int find_base(rt_adapter *ad, const rt_hub_env *env, rt_arena *a, rt_err *e)
{
    const char *name = ad->wanted;
    char *snapshot;
    rt_err why = { 0 };
    if (env && env->base) return (ad->base = rt_arena_strdup(a, env->base)) ? RT_OK : rt_no_memory(e, ad->folder);
    if (!name)
        return rt_fail(e, RT_NOT_FOUND, "%s/adapter_config.json names no base model; give it with --base", ad->folder);
    char *beside = name[0] == '/' ? NULL : rt_path_join(a, ad->folder, name);
    if (name[0] != '/' && !beside) return rt_no_memory(e, ad->folder);
    ad->base = beside && is_model(beside) ? beside : name;
    if (ad->base == beside || is_model(name)) return RT_OK;
    bool hub = rt_hub_name_is(name);
    int rc = hub ? rt_hub_find(&snapshot, a, "models", name, env, &why) : find_near(ad, a, e);
    if (rc == RT_OK || rc == RT_NOMEM) return rc == RT_OK ? rc : rt_no_memory(e, ad->folder);
    if (hub && find_near(ad, a, e) == RT_OK) return RT_OK;
    if (hub)
        return rt_fail(e, rc,
                       "%.200s: its base model '%.200s' is neither %.200s nor a model here, and %.300s; or give "
                       "it with --base",
                       ad->folder, name, beside, why.text);
    return rt_fail(
        e, RT_NOT_FOUND,
        "%.200s: its base model '%.200s' is not there, nor a model %.100s in its folder, beside it or in the "
        "current folder; give it with --base",
        ad->folder, name, rt_path_base(name));
}

int rt_adapter_find(rt_adapter **out, const char *folder, const rt_hub_env *env, rt_arena *a, rt_err *e)
{
    int rc;
    rt_adapter *ad = rt_arena_alloc(a, sizeof *ad);
    if (!ad) RT_TRY(rt_no_memory(e, folder));
    RT_TRY(rt_hf_read_adapter(ad, folder, a, e));
    RT_TRY(find_base(ad, env, a, e));
    *out = ad;
out:
    return rc;
}

/* ---- its tensors ---- */

/* "q_proj" fits every module whose name is that or ends in a dot and that. */
static bool fits(const char *module, const char *end)
{
    size_t n = strlen(module), k = strlen(end);
    return n >= k && strcmp(module + n - k, end) == 0 && (n == k || module[n - k - 1] == '.');
}

static double value_for(const rt_adapter_value *list, uint32_t count, const char *module, double other)
{
    for (uint32_t i = 0; i < count; i++)
        if (fits(module, list[i].module)) return list[i].value;
    return other;
}

/* "base_model.model.MODULE.lora_A.weight" (or lora_A.default.weight) into MODULE and 'A'. */
static bool split_name(const char *name, char module[RT_NAME_BYTES], char *which)
{
    static const char prefix[] = "base_model.model.";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
    name += sizeof prefix - 1;
    const char *dot = strstr(name, ".lora_");
    if (!dot || (size_t)(dot - name) + sizeof ".weight" > RT_NAME_BYTES) return false;
    *which = dot[strlen(".lora_")];
    const char *rest = dot + strlen(".lora_A");
    if (*which != 'A' && *which != 'B') return false;
    if (strcmp(rest, ".weight") != 0 && strcmp(rest, ".default.weight") != 0) return false;
    snprintf(module, RT_NAME_BYTES, "%.*s", (int)(dot - name), name);
    return true;
}

/* The base's matrix of a module; null when it has none. */
static rt_tensor *matrix_of(rt_model_file *m, const char *module)
{
    char name[RT_NAME_BYTES + 8];
    snprintf(name, sizeof name, "%s.weight", module);
    for (uint32_t i = 0; i < m->tensor_count; i++)
        if (m->tensors[i].rank == 2 && strcmp(m->tensors[i].name, name) == 0) return &m->tensors[i];
    return NULL;
}

/* The N of model.layers.N.; -1 when it is in none. */
static int64_t layer_of(const char *module)
{
    unsigned layer;
    return sscanf(module, "model.layers.%6u.", &layer) == 1 ? (int64_t)layer : -1;
}

static int other_depth(const rt_model_file *m, const rt_adapter *ad, int64_t layer, rt_err *e)
{
    return rt_fail(e, RT_INVALID,
                   "%.200s is the adapter of a model with %s%" PRId64
                   " layer%s, and %.200s has %u: it is the adapter of "
                   "another model; give the right one with --base",
                   ad->folder, layer < m->config.layers ? "" : "at least ", layer + 1, layer ? "s" : "", ad->base,
                   m->config.layers);
}

static int other_base(const rt_adapter *ad, const rt_tensor *x, const rt_tensor *w, uint32_t rank, rt_err *e)
{
    return rt_fail(e, RT_INVALID,
                   "%.200s: '%.96s' is [%" PRIu64 ", %" PRIu64 "], which is not of rank %u over [%" PRIu64 ", %" PRIu64
                   "], as %.200s has it: it is the adapter of another model; give the right one with --base",
                   ad->folder, x->file_name, x->shape[0], x->shape[1], rank, w->shape[0], w->shape[1], ad->base);
}

/* The pair of a matrix, made at the first of its two tensors. */
static int pair_of(rt_lora_pair **out, rt_model_file *m, const rt_adapter *ad, rt_tensor *w, const char *module,
                   rt_err *e)
{
    if (w->pair && w->pair->of == ad) return *out = (rt_lora_pair *)w->pair, RT_OK;
    rt_lora_pair *p = rt_arena_alloc(&m->arena, sizeof *p);
    if (!p) return rt_no_memory(e, ad->folder);
    double rank = value_for(ad->ranks, ad->rank_count, module, ad->rank);
    double alpha = value_for(ad->alphas, ad->alpha_count, module, ad->alpha);
    *p = (rt_lora_pair){
        .under = *w, .rank = (uint32_t)rank, .scale = alpha / (ad->rslora ? sqrt(rank) : rank), .of = ad
    };
    w->store = RT_STORE_MERGED;
    w->dtype = RT_DTYPE_F32;
    w->swap_heads = 0;
    w->pair = p;
    *out = p;
    return RT_OK;
}

static int lay_one(rt_model_file *m, rt_adapter *ad, const rt_tensor *x, rt_err *e)
{
    int rc = RT_OK;
    char module[RT_NAME_BYTES], which;
    rt_lora_pair *p = NULL;
    if (!split_name(x->file_name, module, &which) || x->rank != 2 || !rt_dtype_is_float(x->dtype))
        return rt_fail(e, RT_UNSUPPORTED,
                       "%s: '%.96s' is not lora_A or lora_B of a linear module, and nothing else is supported",
                       ad->folder, x->file_name);
    rt_tensor *w = matrix_of(m, module);
    if (!w && layer_of(module) >= 0 && layer_of(module) >= m->config.layers)
        return other_depth(m, ad, layer_of(module), e);
    if (layer_of(module) >= ad->layers) ad->layers = layer_of(module) + 1;
    if (!w)
        return rt_fail(e, RT_INVALID,
                       "%.200s: the adapter is over the module %.96s, and %.200s has no matrix of that name: it is the "
                       "adapter of another model, or of a tied head; give the right one with --base",
                       ad->folder, module, ad->base);
    RT_TRY(pair_of(&p, m, ad, w, module, e));
    bool a = which == 'A';
    if (a ? p->a != NULL : p->b != NULL)
        return rt_fail(e, RT_FORMAT, "%s: lora_%c of %.96s is there twice; get the file again", ad->folder, which,
                       module);
    if (x->shape[!a] != p->rank || x->shape[a] != w->shape[a]) return other_base(ad, x, w, p->rank, e);
    float *values = rt_arena_alloc(&m->arena, rt_tensor_elems(x) * sizeof *values);
    if (!values) return rt_no_memory(e, ad->folder);
    rt_tensor_to_f32(values, x, 0, x->shape[0]);
    *(a ? &p->a : &p->b) = values;
out:
    return rc;
}

/* Every pair is whole, and every module that the configuration names is one of the base and has a pair. */
static int check_whole(const rt_model_file *m, rt_adapter *ad, rt_err *e)
{
    for (uint32_t t = 0; t < ad->target_count; t++) {
        bool known = false;
        for (uint32_t i = 0; i < m->tensor_count; i++) {
            const rt_tensor *w = &m->tensors[i];
            char module[RT_NAME_BYTES];
            if (w->rank != 2 || !rt_path_ends(w->name, ".weight")) continue;
            snprintf(module, sizeof module, "%.*s", (int)(strlen(w->name) - strlen(".weight")), w->name);
            if (!fits(module, ad->targets[t])) continue;
            known = true;
            bool missing = !ad->partial && !(w->pair && w->pair->of == ad);
            if (missing && ad->layers && layer_of(module) >= ad->layers) return other_depth(m, ad, ad->layers - 1, e);
            if (missing)
                return rt_fail(e, RT_FORMAT,
                               "%s/" WEIGHTS " has nothing for %s, which target_modules names; get the file "
                               "again, or give the right model with --base",
                               ad->folder, module);
        }
        if (!known)
            return rt_fail(e, RT_INVALID,
                           "%.200s: target_modules names '%.96s', and %.200s has no such module: it is the adapter of "
                           "another model; give the right one with --base",
                           ad->folder, ad->targets[t], ad->base);
    }
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const rt_tensor *w = &m->tensors[i];
        if (!w->pair || w->pair->of != ad) continue;
        ad->matrices++;
        if (!w->pair->a || !w->pair->b)
            return rt_fail(e, RT_FORMAT, "%s/" WEIGHTS " has only one of lora_A and lora_B for %s; get the file again",
                           ad->folder, w->name);
    }
    if (ad->matrices) return RT_OK;
    return rt_fail(e, RT_FORMAT, "%s/" WEIGHTS " holds no adapter; get the file again", ad->folder);
}

/* ---- its tokenizer ---- */

static bool same_text(rt_span a, rt_span b) { return a.len == b.len && (!a.len || memcmp(a.data, b.data, a.len) == 0); }

/* The largest id of a tokenizer.json; -1 when it says none. */
static int last_id(int64_t *out, rt_span text, rt_err *e)
{
    size_t i;
    const char *key;
    rt_json_out_of_memory();
    json_t *one, *j = rt_json_load(text.data, text.len, 0, NULL);
    json_t *vocab = json_object_get(json_object_get(j, "model"), "vocab");
    if (!j && rt_json_out_of_memory()) return rt_no_memory(e, "a tokenizer.json");
    *out = (int64_t)json_array_size(vocab) - 1;
    json_object_foreach(vocab, key, one) if (json_integer_value(one) > *out) *out = json_integer_value(one);
    json_array_foreach(json_object_get(j, "added_tokens"), i, one)
    {
        int64_t id = json_integer_value(json_object_get(one, "id"));
        if (id > *out) *out = id;
    }
    json_decref(j);
    return RT_OK;
}

/* The text is the adapter's where its folder has a tokenizer or a template: what it was trained with lies there. */
static int take_text(rt_model_file *m, const rt_adapter *ad, rt_err *e)
{
    int rc;
    int64_t last = -1;
    rt_model_text base = m->text;
    m->text = rt_no_text;
    RT_TRY(rt_hf_read_side_files(m, ad->folder, e));
    const rt_model_text *own = &m->text;
    if (own->tokenizer_json.data && !same_text(own->tokenizer_json, base.tokenizer_json))
        RT_TRY(last_id(&last, own->tokenizer_json, e));
    if (m->has_config && last >= (int64_t)m->config.vocab)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "%.200s: its tokenizer has ids up to %" PRId64
                       ", and the embedding of %.200s has %u rows: it is "
                       "the adapter of another model; give the right one with --base",
                       ad->folder, last, ad->base, m->config.vocab));
    if (!own->generation_config.data) m->text.generation_config = base.generation_config;
    if (own->tokenizer_json.data) goto out;
    /* A template by itself is over the base's tokenizer. */
    if (own->chat_template.data) {
        base.chat_template = own->chat_template;
        base.template_new = true;
    }
    base.generation_config = own->generation_config;
    m->text = base;
out:
    return rc;
}

int rt_adapter_lay(rt_model_file *m, rt_adapter *ad, rt_err *e)
{
    int rc;
    uint32_t part, base = m->tensor_count;
    char *path = rt_path_join(&m->arena, ad->folder, WEIGHTS);
    if (!path) RT_TRY(rt_no_memory(e, ad->folder));
    RT_TRY(rt_model_add_part(m, path, &part, e));
    RT_TRY(rt_safetensors_read(m, part, NULL, e));
    const rt_tensor *x = m->tensors + base;
    uint32_t count = m->tensor_count - base;
    m->tensor_count = base; /* the rest of the array is left as it is */
    for (uint32_t i = 0; i < count; i++) RT_TRY(lay_one(m, ad, &x[i], e));
    RT_TRY(check_whole(m, ad, e));
    RT_TRY(take_text(m, ad, e));
    m->adapter = ad;
    m->config.random_init = false; /* it has learned something now */
    rt_model_note(m, "a LoRA adapter of rank %u and alpha %g is merged into %u matrices of %s", ad->rank, ad->alpha,
                  ad->matrices, ad->base);
out:
    return rc;
}
