/* hf_adapter.c - adapter_config.json as PEFT writes it: what a LoRA adapter is, and what of LoRA is not done here.
 *
 * Owns: the meaning of the keys, and refusing by name what would give other values than W + scale B A. Keys that change
 * training alone (dropout, the start of the matrices) are passed over. */
#include "base/json.h"
#include "format/hf/hf.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CONFIG "adapter_config.json"
enum { MOST_RANK = 1 << 16 };

static bool holds(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && rt_path_exists(path);
}

bool rt_hf_is_adapter(const char *folder)
{
    return holds(folder, CONFIG) && !holds(folder, "model.safetensors") && !holds(folder, RT_HF_INDEX);
}

/* Absent, null, false, empty, or the word none. */
static bool is_off(const json_t *v)
{
    const char *text = json_string_value(v);
    if (!v || json_is_null(v) || json_is_false(v)) return true;
    if (text) return !*text || strcmp(text, "none") == 0;
    if (json_is_number(v)) return json_number_value(v) == 0;
    return (json_is_array(v) && json_array_size(v) == 0) || (json_is_object(v) && json_object_size(v) == 0);
}

/* What is on changes the model otherwise than by W + scale B A over matrices. */
static int refuse_others(const json_t *j, const char *folder, rt_err *e)
{
    static const struct {
        const char *key, *what;
    } others[] = { { "use_dora", "DoRA" },
                   { "modules_to_save", "modules that are stored whole" },
                   { "bias", "trained biases" },
                   { "lora_bias", "a bias of the adapter" },
                   { "fan_in_fan_out", "transposed weights" },
                   { "layer_replication", "repeated layers" },
                   { "trainable_token_indices", "trained rows of the embedding" },
                   { "target_parameters", "adapters of parameters that are no module's weight" },
                   { "alora_invocation_tokens", "an adapter that works from certain tokens on" },
                   { "megatron_config", "Megatron layers" },
                   { "use_qalora", "QA-LoRA" },
                   { "arrow_config", "Arrow" } };
    static const char *const starts[] = { "gaussian", "eva", "orthogonal" };
    const char *kind = json_string_value(json_object_get(j, "peft_type"));
    const char *start = json_string_value(json_object_get(j, "init_lora_weights"));
    bool known = !start;
    if (!kind || strcmp(kind, "LORA") != 0)
        return rt_fail(e, RT_UNSUPPORTED, "%s/" CONFIG ": an adapter of type %.60s is not supported; LORA is", folder,
                       kind ? kind : "(none)");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!is_off(json_object_get(j, others[i].key)))
            return rt_fail(e, RT_UNSUPPORTED,
                           "%s/" CONFIG ": \"%s\" is set (%s), which is not supported; merge the adapter with the peft "
                           "package, and take the merged model",
                           folder, others[i].key, others[i].what);
    for (size_t i = 0; !known && i < sizeof starts / sizeof *starts; i++) known = strcmp(start, starts[i]) == 0;
    if (!known)
        return rt_fail(e, RT_UNSUPPORTED,
                       "%s/" CONFIG
                       ": \"init_lora_weights\" is \"%.60s\", which changes the base model too; convert the "
                       "adapter to plain LoRA with the peft package",
                       folder, start);
    return RT_OK;
}

static int bad(const char *folder, const char *key, const char *must, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s/" CONFIG ": \"%s\" must be %s; get the file again", folder, key, must);
}

static bool is_rank(double r) { return r >= 1 && r <= MOST_RANK && r == floor(r); }
static bool is_alpha(double a) { return isfinite(a) && a != 0; }

/* PEFT's keys are patterns for the end of a module's name; those that are names alone are taken. */
static int read_values(const rt_adapter_value **out, uint32_t *count, const json_t *j, const char *key,
                       const char *folder, rt_arena *a, rt_err *e)
{
    const char *module;
    json_t *value, *object = json_object_get(j, key);
    rt_adapter_value *list = rt_arena_alloc(a, (json_object_size(object) + 1) * sizeof *list);
    bool rank = strcmp(key, "rank_pattern") == 0;
    if (!list) return rt_no_memory(e, folder);
    if (!is_off(object) && !json_is_object(object)) return bad(folder, key, "an object", e);
    json_object_foreach(object, module, value)
    {
        double x = json_number_value(value);
        if (strpbrk(module, "^$*+?()[]{}|\\"))
            return rt_fail(e, RT_UNSUPPORTED,
                           "%s/" CONFIG ": \"%s\" has the pattern '%.60s'; names of modules alone are supported: merge "
                           "the adapter with the peft package",
                           folder, key, module);
        if (!json_is_number(value) || !(rank ? is_rank(x) : is_alpha(x)))
            return bad(folder, key, rank ? "ranks" : "numbers that are not 0", e);
        list[*count] = (rt_adapter_value){ rt_arena_strdup(a, module), x };
        if (!list[(*count)++].module) return rt_no_memory(e, folder);
    }
    *out = list;
    return RT_OK;
}

/* A list of names; one text is a pattern, and then the tensors alone say what is adapted. */
static int read_targets(rt_adapter *out, const json_t *j, const char *folder, rt_arena *a, rt_err *e)
{
    size_t i;
    json_t *one, *targets = json_object_get(j, "target_modules");
    const char **list = rt_arena_alloc(a, (json_array_size(targets) + 1) * sizeof *list);
    if (!list) return rt_no_memory(e, folder);
    if (!is_off(targets) && !json_is_array(targets) && !json_is_string(targets))
        return bad(folder, "target_modules", "a list of names, or a pattern", e);
    json_array_foreach(targets, i, one)
    {
        if (!json_is_string(one)) return bad(folder, "target_modules", "a list of names, or a pattern", e);
        if (!(list[i] = rt_arena_strdup(a, json_string_value(one)))) return rt_no_memory(e, folder);
    }
    out->targets = list;
    out->target_count = (uint32_t)json_array_size(targets);
    out->partial = !is_off(json_object_get(j, "layers_to_transform")) || !is_off(json_object_get(j, "exclude_modules"));
    return RT_OK;
}

int rt_hf_read_adapter(rt_adapter *out, const char *folder, rt_arena *a, rt_err *e)
{
    int rc;
    json_t *j = NULL;
    char *path = rt_path_join(a, folder, CONFIG);
    *out = (rt_adapter){ .folder = rt_arena_strdup(a, folder) };
    rt_json_init();
    if (!path || !out->folder) RT_TRY(rt_no_memory(e, folder));
    RT_TRY(rt_json_read(&j, path, e));
    RT_TRY(refuse_others(j, folder, e));
    const json_t *r = json_object_get(j, "r"), *alpha = json_object_get(j, "lora_alpha");
    if (!json_is_integer(r) || !is_rank(json_number_value(r))) RT_TRY(bad(folder, "r", "a rank", e));
    if (!json_is_number(alpha) || !is_alpha(json_number_value(alpha)))
        RT_TRY(bad(folder, "lora_alpha", "a number that is not 0", e));
    out->rank = (uint32_t)json_integer_value(r);
    out->alpha = json_number_value(alpha);
    out->rslora = !is_off(json_object_get(j, "use_rslora"));
    RT_TRY(read_values(&out->ranks, &out->rank_count, j, "rank_pattern", folder, a, e));
    RT_TRY(read_values(&out->alphas, &out->alpha_count, j, "alpha_pattern", folder, a, e));
    RT_TRY(read_targets(out, j, folder, a, e));
    const char *base = json_string_value(json_object_get(j, "base_model_name_or_path"));
    if (base && *base && !(out->wanted = rt_arena_strdup(a, base))) RT_TRY(rt_no_memory(e, folder));
    if (!holds(folder, "adapter_model.safetensors"))
        RT_TRY(rt_fail(e, RT_NOT_FOUND,
                       "%s has no adapter_model.safetensors, which holds an adapter's matrices: get the file%s", folder,
                       holds(folder, "adapter_model.bin") ? ", or save adapter_model.bin again as safetensors" : ""));
out:
    json_decref(j);
    return rc;
}
