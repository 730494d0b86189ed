/* gguf_read.c - opens a GGUF model: the tensors' descriptions, their places, and further parts of a split model.
 *
 * Owns: the order of reading, the directory of tensors, and finding a part's siblings. Dimensions are stored innermost
 * first there and outermost first here. Keys are gguf_kv.c, their meaning gguf_config.c and gguf_text.c. */
#include "format/gguf/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN "the file is damaged or incomplete: download or convert it again"

enum { MAX_NAME = 255, MAX_SPLITS = 99999, SPLIT_NAME = 20 /* -00001-of-00003.gguf */ };

static int cut_short(const rt_gguf *g, uint64_t i, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s: the description of tensor %llu of %llu runs past the end of the file; " AGAIN,
                   g->path, (unsigned long long)i, (unsigned long long)g->tensor_count);
}

static int name_tensor(rt_model_file *m, rt_tensor *t, const rt_gguf *g, rt_span text, uint64_t i, rt_err *e)
{
    char canonical[RT_NAME_BYTES];
    if (text.len == 0 || text.len > MAX_NAME || memchr(text.data, 0, text.len))
        return rt_fail(e, RT_FORMAT, "%s: the name of tensor %llu is empty, too long or not text; " AGAIN, g->path,
                       (unsigned long long)i);
    char *name = rt_arena_printf(&m->arena, "%.*s", (int)text.len, text.data);
    if (!name) return rt_no_memory(e, g->path);
    t->name = t->file_name = name;
    t->role = rt_role_of_gguf(name, &t->layer);
    if (t->role != RT_ROLE_NONE) t->name = rt_arena_strdup(&m->arena, rt_role_hf_name(canonical, t->role, t->layer));
    return t->name ? RT_OK : rt_no_memory(e, g->path);
}

/* t->bytes holds the offset within the data until the tensor is placed. */
static int take_info(rt_model_file *m, const rt_gguf *g, rt_gguf_cursor *c, uint64_t i, rt_err *e)
{
    int rc;
    uint32_t type;
    uint64_t dims[RT_MAX_RANK];
    const char *type_name;
    rt_span name;
    rt_tensor *t = rt_model_add_tensor(m);
    if (!t) return rt_no_memory(e, g->path);
    if (!rt_gguf_take_string(c, &name)) return cut_short(g, i, e);
    RT_TRY(name_tensor(m, t, g, name, i, e));
    if (!rt_gguf_take(c, &t->rank, 4)) return cut_short(g, i, e);
    if (t->rank > RT_MAX_RANK)
        return rt_fail(e, RT_FORMAT, "%s: tensor '%s' has %u dimensions, more than %d; " AGAIN, g->path, t->file_name,
                       t->rank, RT_MAX_RANK);
    if (!rt_gguf_take(c, dims, t->rank * sizeof *dims) || !rt_gguf_take(c, &type, 4) || !rt_gguf_take(c, &t->bytes, 8))
        return cut_short(g, i, e);
    for (uint32_t d = 0; d < t->rank; d++) t->shape[d] = dims[t->rank - 1 - d];
    if (!rt_gguf_dtype_of(type, &t->dtype, &type_name)) {
        if (!type_name)
            return rt_fail(e, RT_FORMAT, "%s: tensor '%s' has type number %u, which is unknown; " AGAIN, g->path,
                           t->file_name, type);
        return rt_fail(
            e, RT_UNSUPPORTED,
            "%s: tensor '%s' has type %s, which is not supported; take the model in one of F32 F16 BF16 Q8_0 "
            "Q6_K Q5_K Q4_K Q3_K Q2_K Q5_1 Q5_0 Q4_1 Q4_0 IQ4_NL IQ4_XS",
            g->path, t->file_name, type_name);
    }
out:
    return rc;
}

static int read_infos(rt_model_file *m, const rt_gguf *g, uint32_t part, rt_err *e)
{
    int rc = RT_OK;
    uint32_t first = m->tensor_count;
    rt_gguf_cursor c = { g->map.data + g->infos, g->map.data + g->map.size };
    for (uint64_t i = 0; i < g->tensor_count; i++) RT_TRY(take_info(m, g, &c, i, e));
    uint64_t start = rt_align_up((uint64_t)(c.p - g->map.data), g->alignment);
    for (uint32_t i = first; i < m->tensor_count; i++) {
        rt_tensor *t = &m->tensors[i];
        uint64_t offset = t->bytes, bytes = 0, place;
        if (offset % g->alignment != 0 || !rt_add_u64(start, offset, &place))
            return rt_fail(e, RT_FORMAT, "%s: the offset %llu of tensor '%s' is not a multiple of %u; " AGAIN, g->path,
                           (unsigned long long)offset, t->file_name, g->alignment);
        /* A shape that has no size is refused there. */
        rt_tensor_expected_bytes(t, &bytes);
        RT_TRY(rt_model_place_tensor(m, t, part, place, bytes, e));
    }
    RT_TRY(rt_model_check_overlap(m, first, e));
out:
    return rc;
}

/* ---- split models ---- */

static int split_of(const rt_gguf *g, uint32_t *no, uint32_t *count, rt_err *e)
{
    int rc;
    *no = 0;
    *count = 1;
    RT_TRY(rt_gguf_get_u32(g, "split.no", no, e));
    RT_TRY(rt_gguf_get_u32(g, "split.count", count, e));
    if (*count == 0) *count = 1;
    if (*count > MAX_SPLITS || *no >= *count)
        rc = rt_fail(e, RT_FORMAT, "%s: says that it is part %u of %u; " AGAIN, g->path, *no + 1, *count);
out:
    return rc;
}

/* The path of part no, by the rule that all writers follow. */
static char *sibling(rt_arena *a, const char *path, uint32_t no, uint32_t count)
{
    return rt_arena_printf(a, "%.*s-%05u-of-%05u.gguf", (int)(strlen(path) - SPLIT_NAME), path, no + 1, count);
}

static int check_split_name(const char *path, uint32_t no, uint32_t count, rt_err *e)
{
    char want[SPLIT_NAME + 1];
    size_t n = strlen(path);
    snprintf(want, sizeof want, "-%05u-of-%05u.gguf", (no + 1) % 100000, count % 100000);
    if (n > SPLIT_NAME && n < INT32_MAX && strcmp(path + n - SPLIT_NAME, want) == 0) return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "%s: this is part %u of %u of a split model, but its name does not end in '%s', so the other parts "
                   "cannot be found; give all parts their original names, in one folder",
                   path, no + 1, count, want);
}

static int open_sibling(rt_model_file *m, const char *path, uint32_t no, uint32_t count, uint32_t *part, rt_err *e)
{
    int rc;
    char *name = sibling(&m->arena, path, no, count);
    if (!name) return rt_no_memory(e, path);
    if (!rt_path_exists(name))
        return rt_fail(e, RT_NOT_FOUND, "%s: part %u of %u is missing: there is no %s; download it beside the others",
                       path, no + 1, count, name);
    rc = rt_model_add_part(m, name, part, e);
    return rc;
}

/* Opens part no, which is not the one given, reads its tensors, and leaves its keys in g. */
static int read_sibling(rt_model_file *m, rt_gguf *g, const char *path, uint32_t no, uint32_t count, rt_err *e)
{
    int rc;
    uint32_t part, its_no, its_count;
    RT_TRY(open_sibling(m, path, no, count, &part, e));
    const rt_model_part *p = &m->parts[part];
    RT_TRY(rt_gguf_parse(g, &p->map, p->path, e));
    RT_TRY(split_of(g, &its_no, &its_count, e));
    if (its_no != no || its_count != count) {
        rc = rt_fail(e, RT_FORMAT, "%s: by its name part %u of %u, by its keys part %u of %u; download it again",
                     g->path, no + 1, count, its_no + 1, its_count);
        goto out;
    }
    RT_TRY(read_infos(m, g, part, e));
out:
    return rc;
}

/* Reads all parts but the one given, whose tensors are read already. The keys of the model are in part 0: they come
 * back in main when that is not the one given. */
static int read_siblings(rt_model_file *m, const rt_gguf *given, uint32_t no, uint32_t count, rt_gguf *main, rt_err *e)
{
    int rc;
    uint32_t total = UINT32_MAX;
    rt_gguf other = { 0 };
    RT_TRY(check_split_name(given->path, no, count, e));
    for (uint32_t i = 0; i < count; i++) {
        if (i == no) continue;
        rt_gguf_free(&other);
        RT_TRY(read_sibling(m, i == 0 ? main : &other, given->path, i, count, e));
    }
    RT_TRY(rt_gguf_get_u32(given, "split.tensors.count", &total, e));
    if (total != UINT32_MAX && total != m->tensor_count)
        rc = rt_fail(e, RT_FORMAT, "%s: its %u parts hold %u tensors, but should hold %u; download them again",
                     given->path, count, m->tensor_count, total);
out:
    rt_gguf_free(&other);
    return rc;
}

/* ---- the whole ---- */

/* rope_freqs.weight is part of the configuration, not a parameter: out of the list, its values in *factors. */
static int take_factors(rt_model_file *m, const float **factors, uint64_t *count, rt_err *e)
{
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const rt_tensor *t = &m->tensors[i];
        if (strcmp(t->file_name, RT_GGUF_ROPE_FREQS) != 0) continue;
        if (t->dtype != RT_DTYPE_F32 || t->rank != 1)
            return rt_fail(e, RT_UNSUPPORTED, "%s: tensor '%s' is not a vector of F32", m->path, t->file_name);
        float *copy = rt_arena_alloc(&m->arena, (size_t)t->bytes + 4);
        if (!copy) return rt_no_memory(e, m->path);
        memcpy(copy, t->data, (size_t)t->bytes);
        *factors = copy;
        *count = t->shape[0];
        m->tensors[i] = m->tensors[--m->tensor_count];
        return RT_OK;
    }
    return RT_OK;
}

/* The llama families' q and k rows are stored in another order; rows are moved, so they must be as many as the
 * configuration says, and an element of a vector must be one that can be moved. */
static int mark_swapped(rt_model_file *m, rt_err *e)
{
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        rt_tensor *t = &m->tensors[i];
        uint32_t heads = t->role == RT_ROLE_NONE ? 0 : rt_role_swap_heads(&m->config, t->role);
        uint64_t shape[2];
        if (heads == 0) continue;
        if (rt_role_shape(&m->config, t->role, shape) != t->rank || shape[0] != t->shape[0] ||
            (t->rank == 1 && rt_dtype_is_quant(t->dtype)))
            return rt_fail(e, RT_FORMAT,
                           "%s: tensor '%s' has another shape or type than %u heads of %u ask for; " AGAIN, m->path,
                           t->file_name, heads, m->config.head_dim);
        t->swap_heads = heads;
    }
    return RT_OK;
}

static int read_name(rt_model_file *m, const rt_gguf *g, rt_err *e)
{
    rt_span name = { 0 };
    int rc = rt_gguf_get_string(g, "general.name", &name, e);
    if (rc < 0) return rc;
    if (name.len > 0 && name.len < 1000 && !memchr(name.data, 0, name.len))
        m->name = rt_arena_printf(&m->arena, "%.*s", (int)name.len, name.data);
    else if (!m->name)
        m->name = rt_arena_strdup(&m->arena, rt_path_base(m->path));
    return m->name ? RT_OK : rt_no_memory(e, m->path);
}

/* What the file was converted from comes first: that is what other tools load. */
static int read_hub(rt_model_file *m, const rt_gguf *g, rt_err *e)
{
    static const char *const keys[] = { "general.source.huggingface.repository", "general.source.repo_url",
                                        "general.source.url", "general.repo_url" };
    int rc = RT_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        rt_span said = { 0 };
        RT_TRY(rt_gguf_get_string(g, keys[i], &said, e));
        RT_TRY(rt_model_said_hub(m, said, e));
    }
out:
    return rc;
}

int rt_gguf_read(rt_model_file *m, uint32_t part, rt_err *e)
{
    int rc;
    uint32_t no, count;
    const float *factors = NULL;
    uint64_t factor_count = 0;
    rt_span type = { 0 };
    rt_gguf given = { 0 }, first = { 0 };
    RT_TRY(rt_gguf_parse(&given, &m->parts[part].map, m->parts[part].path, e));
    RT_TRY(rt_gguf_get_string(&given, "general.type", &type, e));
    if (type.len == strlen("adapter") && memcmp(type.data, "adapter", type.len) == 0)
        RT_TRY(rt_fail(e, RT_UNSUPPORTED,
                       "%s is an adapter for llama.cpp, not a model: name the adapter's own folder instead", m->path));
    RT_TRY(split_of(&given, &no, &count, e));
    RT_TRY(read_infos(m, &given, part, e));
    if (count > 1) RT_TRY(read_siblings(m, &given, no, count, &first, e));
    const rt_gguf *main = no == 0 ? &given : &first;
    RT_TRY(read_name(m, main, e));
    RT_TRY(read_hub(m, main, e));
    RT_TRY(rt_gguf_read_text(m, main, e));
    if (rt_gguf_find(main, "general.architecture")) RT_TRY(take_factors(m, &factors, &factor_count, e));
    RT_TRY(rt_gguf_read_config(m, main, factors, factor_count, e));
    if (m->has_config) RT_TRY(mark_swapped(m, e));
out:
    rt_gguf_free(&given);
    rt_gguf_free(&first);
    return rc;
}
