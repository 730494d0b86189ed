/* model_file.c - opens whatever a user names as a model, and checks it against its configuration.
 *
 * Owns: what a name means (path or org/name), the format by content, the order of tensors, what is left out of them and
 * why. Leaves each format to its reader. */
#include "format/model_file.h"

#include "base/lock.h"
#include "format/adapter.h"
#include "format/apr/apr.h"
#include "format/gguf/gguf.h"
#include "format/hf/hf.h"
#include "format/run_places.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMPARE_ROWS = 16, MOST_ADAPTERS = 4 };

static const char *const container_names[] = { [RT_CONTAINER_HF] = "hf",
                                               [RT_CONTAINER_SAFETENSORS] = "safetensors",
                                               [RT_CONTAINER_GGUF] = "gguf",
                                               [RT_CONTAINER_APR] = "apr" };

const char *rt_container_name(rt_container c) { return container_names[c]; }

bool rt_container_parse(const char *name, rt_container *out)
{
    for (int i = 0; i <= RT_CONTAINER_APR; i++) {
        if (strcmp(name, container_names[i]) != 0) continue;
        *out = (rt_container)i;
        return true;
    }
    return false;
}

/* ---- names ---- */

/* The last part of a path without its extension; of a folder such as "." that of its real path. */
static const char *name_of_path(rt_arena *a, const char *path, bool folder)
{
    char real[PATH_MAX];
    if (folder && realpath(path, real)) path = real;
    char *copy = rt_arena_strdup(a, path);
    if (!copy) return NULL;
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--) copy[n - 1] = 0;
    char *base = strrchr(copy, '/');
    base = base && base[1] ? base + 1 : copy;
    char *dot = folder ? NULL : strrchr(base, '.');
    if (dot && dot > base) *dot = 0;
    return base[0] == '/' ? "model" : base;
}

/* ---- the formats ---- */

static int unknown_format(const char *path, const rt_map *map, rt_err *e)
{
    bool zip = map->size >= 4 && memcmp(map->data, "PK\3\4", 4) == 0;
    bool pickle = map->size >= 2 && map->data[0] == 0x80 && map->data[1] >= 2 && map->data[1] <= 5;
    if (zip || pickle)
        return rt_fail(e, RT_UNSUPPORTED,
                       "%s is a PyTorch file, which is not read: convert it to safetensors, for example with "
                       "save_pretrained of the transformers package",
                       path);
    if (map->size > 0 && map->data[0] == '{')
        return rt_fail(e, RT_FORMAT, "%s is a JSON file, not a model: name the folder that it is in", path);
    if (map->size == 0) return rt_fail(e, RT_FORMAT, "%s is empty; get the file again", path);
    return rt_fail(e, RT_FORMAT,
                   "%s is not a model: it is neither a safetensors, nor a GGUF, nor an APR file, nor a folder with a "
                   "config.json",
                   path);
}

/* Its own metadata say more about a lone file than what happens to lie beside it. */
static int read_lone_safetensors(rt_model_file *m, uint32_t part, rt_err *e)
{
    int rc;
    rt_span config;
    const char *path = m->parts[part].path, *base = rt_path_base(path);
    char *folder = rt_arena_printf(&m->arena, "%.*s", (int)(base - path), path);
    if (!folder) return rt_no_memory(e, path);
    RT_TRY(rt_safetensors_read(m, part, &config, e));
    if (config.data) {
        RT_TRY(rt_config_from_json(&m->config, config.data, config.len, path, &m->arena, e));
        m->has_config = true;
    }
    RT_TRY(rt_hf_read_side_files(m, *folder ? folder : ".", e));
out:
    return rc;
}

static int read_file(rt_model_file *m, rt_err *e)
{
    int rc;
    uint32_t part;
    RT_TRY(rt_model_add_part(m, m->path, &part, e));
    const rt_map *map = &m->parts[part].map;
    if (rt_gguf_is(map)) {
        m->container = RT_CONTAINER_GGUF;
        rc = rt_gguf_read(m, part, e);
    } else if (rt_apr_is(map)) {
        m->container = RT_CONTAINER_APR;
        rc = rt_apr_read(m, part, e);
    } else if (rt_safetensors_is(map)) {
        m->container = RT_CONTAINER_SAFETENSORS;
        rc = read_lone_safetensors(m, part, e);
    } else {
        rc = unknown_format(m->path, map, e);
    }
out:
    return rc;
}

/* ---- after reading ---- */

static void remove_at(rt_model_file *m, uint32_t i)
{
    m->tensor_count--;
    memmove(&m->tensors[i], &m->tensors[i + 1], (m->tensor_count - i) * sizeof *m->tensors);
}

/* Old checkpoints carry the rope frequencies, which follow from the configuration. */
static void drop_frequencies(rt_model_file *m)
{
    uint32_t kept = 0, before = m->tensor_count;
    for (uint32_t i = 0; i < before; i++) {
        if (!rt_path_ends(m->tensors[i].name, "rotary_emb.inv_freq")) m->tensors[kept++] = m->tensors[i];
    }
    m->tensor_count = kept;
    if (kept < before)
        rt_model_note(m, "left out %u tensors *.rotary_emb.inv_freq: they follow from the configuration",
                      before - kept);
}

static bool same_shape(const rt_tensor *a, const rt_tensor *b)
{
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->shape[i] != b->shape[i]) return false;
    }
    return true;
}

/* By value, a few rows at a time, so that a difference is found early. */
static int same_values(const rt_tensor *a, const rt_tensor *b, bool *same, rt_err *e)
{
    uint64_t rows = rt_tensor_rows(a), cols = rt_tensor_cols(a), bytes;
    *same = same_shape(a, b);
    if (!*same || rt_tensor_elems(a) == 0) return RT_OK;
    if (a->dtype == b->dtype && a->store == b->store && a->swap_heads == b->swap_heads) {
        *same = a->bytes == b->bytes && memcmp(a->data, b->data, (size_t)a->bytes) == 0;
        return RT_OK;
    }
    if (!rt_mul_u64(cols, 2 * COMPARE_ROWS * sizeof(float), &bytes)) bytes = SIZE_MAX;
    float *x = rt_alloc((size_t)bytes, 64);
    if (!x) return rt_no_memory(e, a->name);
    for (uint64_t r = 0; r < rows && *same; r += COMPARE_ROWS) {
        uint64_t n = rows - r < COMPARE_ROWS ? rows - r : COMPARE_ROWS;
        rt_tensor_to_f32(x, a, r, n);
        rt_tensor_to_f32(x + COMPARE_ROWS * cols, b, r, n);
        *same = memcmp(x, x + COMPARE_ROWS * cols, (size_t)(n * cols) * sizeof *x) == 0;
    }
    rt_free(x);
    return RT_OK;
}

/* Of a tied model the head is the embedding, whatever the file holds besides. */
static int drop_tied_head(rt_model_file *m, rt_err *e)
{
    uint32_t head = UINT32_MAX, embed = UINT32_MAX;
    bool same = false;
    if (!m->has_config || !m->config.tied) return RT_OK;
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        if (m->tensors[i].role == RT_ROLE_HEAD) head = i;
        if (m->tensors[i].role == RT_ROLE_EMBED) embed = i;
    }
    if (head == UINT32_MAX || embed == UINT32_MAX) return RT_OK;
    int rc = same_values(&m->tensors[head], &m->tensors[embed], &same, e);
    if (rc < 0) return rc;
    rt_model_note(m,
                  same ? "left out %s: the head is tied to the embedding and equal to it"
                       : "left out %s: the configuration ties the head to the embedding (tie_word_embeddings), as "
                         "transformers does; the stored values differ from the embedding",
                  m->tensors[head].file_name);
    remove_at(m, head);
    return RT_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const rt_tensor *)a)->name, ((const rt_tensor *)b)->name);
}

static int sort_tensors(rt_model_file *m, rt_err *e)
{
    if (m->tensor_count > 1) qsort(m->tensors, m->tensor_count, sizeof *m->tensors, by_name);
    for (uint32_t i = 1; i < m->tensor_count; i++) {
        const rt_tensor *a = &m->tensors[i - 1], *b = &m->tensors[i];
        if (strcmp(a->name, b->name) != 0) continue;
        bool alike = strcmp(a->file_name, b->file_name) == 0;
        return rt_fail(e, RT_FORMAT, "%s: tensor '%.96s' is there twice%s%.96s%s%.96s; get the files again", m->path,
                       a->name, alike ? "" : ", as ", alike ? "" : a->file_name, alike ? "" : " and ",
                       alike ? "" : b->file_name);
    }
    return RT_OK;
}

/* ---- opening ---- */

static int find_path(rt_model_file *m, const rt_hub_env *env, rt_err *e)
{
    char *folder;
    if (rt_path_exists(m->spec)) {
        m->path = m->spec;
        return RT_OK;
    }
    if (!rt_hub_name_is(m->spec))
        return rt_fail(e, RT_NOT_FOUND,
                       "'%.200s' is neither a file nor a folder, nor a name of the form org/name; check the path",
                       m->spec);
    int rc = rt_hub_find(&folder, &m->arena, "models", m->spec, env, e);
    if (rc == RT_NOT_FOUND && e)
        rt_err_context(e, "'%.100s' is neither a file nor a folder, and as a model's name", m->spec);
    if (rc < 0) return rc;
    m->path = folder;
    m->name = rt_arena_printf(&m->arena, "%.*s", (int)strcspn(m->spec, "@"), m->spec);
    m->hub = m->name;
    return m->name ? RT_OK : rt_no_memory(e, m->spec);
}

/* config.json goes on saying where a model is from when it is trained further or cut: it is believed where the folder
 * bears that name too. */
static void check_hub(rt_model_file *m)
{
    bool said = m->hub && m->container != RT_CONTAINER_GGUF && strcmp(m->hub, m->name) != 0;
    if (said && strcmp(strchr(m->hub, '/') + 1, m->name) != 0) m->hub = NULL;
}

/* A run's folder gets its model when the run ends; until then its checkpoints are models. */
static int unfinished_run(rt_model_file *m, int rc, rt_err *e)
{
    char *newest = NULL, *settings = rt_path_join(&m->arena, m->path, "run/settings.json");
    if (!settings || !rt_path_exists(settings) || rt_checkpoint_newest(&newest, &m->arena, m->path, NULL) < 0)
        return rc;
    const char *resume = rt_run_resume_command(&m->arena, m->path), *run = rt_path_join(&m->arena, m->path, "run");
    if (run && rt_lock_check(run, m->path, NULL) == RT_INVALID)
        return rt_fail(e, rc, "%.150s has no finished model: its run is still going on%s%s", m->path,
                       newest ? "; wait for it, or name its newest checkpoint: " : "; wait for it",
                       newest ? rt_shell_word(&m->arena, newest) : "");
    return rt_fail(e, rc, "%.150s has no finished model: its run was stopped; to finish it: %s%s%s", m->path,
                   resume ? resume : "--resume", newest ? "; or name its newest checkpoint: " : "",
                   newest ? rt_shell_word(&m->arena, newest) : "");
}

/* What m->path is, if it is no adapter. */
static int open_model(rt_model_file *m, rt_err *e)
{
    int rc;
    bool folder = rt_path_is_dir(m->path);
    rc = folder ? rt_hf_read(m, m->path, e) : read_file(m, e);
    RT_TRY(folder && rc == RT_NOT_FOUND ? unfinished_run(m, rc, e) : rc);
    if (!m->name) m->name = name_of_path(&m->arena, m->path, folder);
    if (!m->name) return rt_no_memory(e, m->path);
    check_hub(m);
    drop_frequencies(m);
    RT_TRY(drop_tied_head(m, e));
    RT_TRY(sort_tensors(m, e));
out:
    return rc;
}

/* over: how many adapters lie over it already. An adapter is opened from below: its base, then itself. */
static int open_all(rt_model_file *m, const char *spec, const rt_hub_env *env, uint32_t over, rt_err *e)
{
    int rc;
    rt_adapter *adapter;
    rt_hub_env below = env ? *env : (rt_hub_env){ 0 };
    m->spec = rt_arena_strdup(&m->arena, spec);
    if (!m->spec) return rt_no_memory(e, spec);
    RT_TRY(find_path(m, env, e));
    if (!rt_path_is_dir(m->path) || !rt_hf_is_adapter(m->path)) return open_model(m, e);
    const char *own_spec = m->spec, *path = m->path, *name = m->name, *hub = m->hub;
    RT_TRY(rt_adapter_find(&adapter, path, env, &m->arena, e));
    if (over == MOST_ADAPTERS)
        RT_TRY(rt_fail(e, RT_INVALID, "%s: adapters lie over adapters more than %d deep; is it its own base?", path,
                       MOST_ADAPTERS));
    below.base = NULL;
    m->name = m->hub = NULL;
    rc = open_all(m, adapter->base, &below, over + 1, e);
    if (rc < 0 && e) rt_err_context(e, "%.200s, the base of %.200s", adapter->base, path);
    if (rc < 0) return rc;
    m->spec = own_spec;
    m->path = path;
    m->hub = hub; /* its base's is another model */
    m->name = name ? name : name_of_path(&m->arena, path, true);
    if (!m->name) RT_TRY(rt_no_memory(e, spec));
    RT_TRY(rt_adapter_lay(m, adapter, e));
out:
    return rc;
}

int rt_model_file_open(rt_model_file **out, const char *spec, const rt_hub_env *env, rt_err *e)
{
    *out = NULL;
    rt_model_file *m = rt_alloc_zero(sizeof *m, 16);
    if (!m) return rt_no_memory(e, spec);
    m->text = rt_no_text;
    int rc = open_all(m, spec, env, 0, e);
    if (rc < 0)
        rt_model_file_close(m);
    else
        *out = m;
    return rc;
}

void rt_model_file_close(rt_model_file *m)
{
    if (!m) return;
    for (uint32_t i = 0; i < m->part_count; i++) rt_map_close(&m->parts[i].map);
    rt_arena_free(&m->arena);
    rt_free(m);
}

/* ---- asking ---- */

const rt_tensor *rt_model_file_find(const rt_model_file *m, const char *canonical)
{
    const rt_tensor key = { .name = canonical };
    if (m->tensor_count == 0) return NULL;
    return bsearch(&key, m->tensors, m->tensor_count, sizeof key, by_name);
}

void rt_model_file_done_with(const rt_model_file *m, const rt_tensor *t)
{
    const rt_map *map = &m->parts[t->file].map;
    rt_map_done_with(map, (uint64_t)(t->data - map->data), t->bytes);
}

static uint64_t offset_of(const rt_map *map, const rt_tensor *t, uint64_t first)
{
    return (uint64_t)(t->data - map->data) + rt_dtype_bytes(t->dtype, first);
}

int rt_model_file_bring(const rt_model_file *m, const rt_tensor *t, uint64_t first, uint64_t count, rt_err *e)
{
    const rt_map *map = &m->parts[t->file].map;
    int rc = rt_map_bring(map, offset_of(map, t, first), rt_dtype_bytes(t->dtype, count), e);
    if (rc < 0) rt_err_context(e, "%s: tensor %s", m->parts[t->file].path, t->name);
    return rc;
}

void rt_model_file_will_need(const rt_model_file *m, const rt_tensor *t, uint64_t first, uint64_t count)
{
    const rt_map *map = &m->parts[t->file].map;
    rt_map_will_need(map, offset_of(map, t, first), rt_dtype_bytes(t->dtype, count));
}

void rt_model_file_done_with_part(const rt_model_file *m, const rt_tensor *t, uint64_t first, uint64_t count)
{
    /* Elsewhere elements are not a range of bytes, or the tensor is no file's. */
    if (t->store != RT_STORE_PLAIN || t->swap_heads || t->file >= m->part_count) return;
    const rt_map *map = &m->parts[t->file].map;
    rt_map_done_with(map, (uint64_t)(t->data - map->data) + rt_dtype_bytes(t->dtype, first),
                     rt_dtype_bytes(t->dtype, count));
}

void rt_model_file_done_with_all(const rt_model_file *m)
{
    for (uint32_t i = 0; i < m->part_count; i++) rt_map_done_with(&m->parts[i].map, 0, m->parts[i].map.size);
}

uint64_t rt_model_file_parameters(const rt_model_file *m)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < m->tensor_count; i++) total += rt_tensor_elems(&m->tensors[i]);
    return total;
}

int rt_model_file_check_bytes(const rt_model_file *m, rt_pool *pool, rt_err *e)
{
    return m->container == RT_CONTAINER_APR ? rt_apr_check_footer(m, pool, e) : RT_OK;
}

static int check_one(const rt_model_file *m, rt_role r, uint32_t layer, rt_err *e)
{
    char name[RT_NAME_BYTES], want[64], have[64];
    uint64_t shape[2];
    uint32_t rank = rt_role_shape(&m->config, r, shape);
    const rt_tensor *t = rt_model_file_find(m, rt_role_hf_name(name, r, layer));
    if (!t)
        return rt_fail(e, RT_FORMAT,
                       "%s: tensor '%s' is missing, which the configuration asks for; get the whole model", m->path,
                       name);
    if (rt_dtype_table[t->dtype].cls == 'i')
        return rt_fail(e, RT_FORMAT, "%s: tensor '%s' holds integers (%s), not weights", m->path, name,
                       rt_dtype_name(t->dtype));
    if (t->rank == rank && t->shape[0] == shape[0] && (rank == 1 || t->shape[1] == shape[1])) return RT_OK;
    const unsigned long long w[2] = { shape[0], shape[1] }, h[2] = { t->shape[0], t->shape[1] };
    snprintf(want, sizeof want, rank == 1 ? "[%llu]" : "[%llu, %llu]", w[0], w[1]);
    snprintf(have, sizeof have,
             t->rank == 1   ? "[%llu]"
             : t->rank == 2 ? "[%llu, %llu]"
                            : "of another rank",
             h[0], h[1]);
    return rt_fail(e, RT_FORMAT,
                   "%s: tensor '%s' has shape %s, but the configuration asks for %s; they do not belong together",
                   m->path, name, have, want);
}

int rt_model_file_check(const rt_model_file *m, rt_err *e)
{
    rt_role r;
    uint32_t layer;
    if (!m->has_config && strcmp(rt_path_base(m->path), "adapter_model.safetensors") == 0)
        return rt_fail(e, RT_INVALID, "%s holds the matrices of a LoRA adapter alone: name the folder that it is in",
                       m->path);
    if (!m->has_config)
        return rt_fail(e, RT_INVALID, "%s has no configuration: put the model's config.json beside it", m->path);
    for (uint32_t i = 0; rt_param_at(&m->config, i, &r, &layer); i++) {
        int rc = check_one(m, r, layer, e);
        if (rc < 0) return rc;
    }
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const rt_tensor *t = &m->tensors[i];
        bool known = t->role != RT_ROLE_NONE && rt_role_present(&m->config, t->role) &&
                     (!rt_role_per_layer(t->role) || t->layer < m->config.layers);
        if (!known)
            return rt_fail(e, RT_FORMAT, "%s: tensor '%.96s' is not one of a %s model with %u layers", m->path,
                           t->file_name, m->config.family->name, m->config.layers);
    }
    return RT_OK;
}
