/* model_write.c - see model_write.h: an output from its description to its name.
 *
 * Owns: the checks before anything is created, the files of an output under their temporary names, and what becomes of
 * them. Leaves the bytes of a header to the formats' layouts, filling to write_fill.c, and the other files of a
 * directory to hf_write.c. */
#include "format/model_write.h"

#include "format/apr/apr.h"
#include "format/gguf/gguf.h"
#include "format/hf/hf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHARD_BYTES UINT64_C(5000000000)

typedef struct output {
    const rt_model_out *o;
    rt_arena arena;
    char *folder; /* HF: the temporary directory; null otherwise */
    rt_out_file *files;
    uint32_t file_count;
    bool replaces; /* HF: a directory is there and is to go */
} output;

/* ---- checks ---- */

static int check_tensor(const rt_model_out *o, uint32_t i, rt_err *e)
{
    char name[RT_NAME_BYTES];
    const rt_out_tensor *t = &o->tensors[i];
    rt_role role;
    uint32_t layer;
    uint64_t shape[2];
    if (!rt_param_at(o->config, i, &role, &layer) || role != t->role || layer != t->layer)
        return rt_fail(e, RT_INTERNAL, "%s: tensor %u of the output is not the model's", o->path, i);
    rt_role_hf_name(name, role, layer);
    uint32_t rank = rt_role_shape(o->config, role, shape), block = rt_dtype_table[t->dtype].block_elems;
    if (!rt_container_holds(o->to, t->dtype))
        return rt_fail(e, RT_INVALID, "%s: %s cannot hold %s, asked for '%s'; choose another dtype or format", o->path,
                       rt_container_name(o->to), rt_dtype_name(t->dtype), name);
    if (shape[0] == 0 || (rank == 2 && shape[1] == 0))
        return rt_fail(e, RT_INVALID, "%s: the configuration leaves '%s' empty", o->path, name);
    if (shape[rank - 1] % block != 0)
        return rt_fail(e, RT_INVALID,
                       "%s: rows of '%s' have %" PRIu64 " values, which do not fill blocks of %u; choose another dtype "
                       "than %s",
                       o->path, name, shape[rank - 1], block, rt_dtype_name(t->dtype));
    if (rank == 1 && block != 1 && o->to == RT_CONTAINER_GGUF && rt_role_swap_heads(o->config, role) != 0)
        return rt_fail(e, RT_INVALID, "%s: GGUF does not hold '%s' as %s; choose a plain dtype", o->path, name,
                       rt_dtype_name(t->dtype));
    return RT_OK;
}

/* A directory may be replaced when it is empty or holds nothing but a model. */
static int check_folder(output *out, rt_err *e)
{
    const rt_model_out *o = out->o;
    char **names;
    uint32_t count;
    bool config = false;
    int rc = rt_dir_list(&names, &count, &out->arena, o->path, e);
    if (rc < 0 || count == 0) return rc;
    if (!o->replace)
        return rt_fail(e, RT_INVALID, "%s is already there and not empty; choose another name or allow its replacement",
                       o->path);
    for (uint32_t i = 0; i < count; i++) config |= strcmp(names[i], "config.json") == 0;
    if (!config)
        return rt_fail(e, RT_INVALID, "%s holds files but no model and is not replaced; choose another name", o->path);
    for (uint32_t i = 0; i < count; i++)
        if (!rt_hf_is_name(NULL, names[i]))
            return rt_fail(e, RT_INVALID,
                           "%s holds '%s', which is no part of a model, and is not replaced; move it away or choose "
                           "another name",
                           o->path, names[i]);
    if (!rt_dir_holds_only(o->path, rt_hf_is_name, NULL))
        return rt_fail(e, RT_INVALID,
                       "%s holds a folder or a link under the name of a model's file, and is not replaced; move it "
                       "away or choose another name",
                       o->path);
    out->replaces = true;
    return RT_OK;
}

static int check_output(output *out, rt_err *e)
{
    const rt_model_out *o = out->o;
    uint32_t count = rt_param_count(o->config);
    if (o->tensor_count != count)
        return rt_fail(e, RT_INTERNAL, "%s: the output has %u tensors, its model %u", o->path, o->tensor_count, count);
    for (uint32_t i = 0; i < count; i++) {
        int rc = check_tensor(o, i, e);
        if (rc < 0) return rc;
    }
    if (!rt_path_exists(o->path)) return RT_OK;
    bool is_dir = rt_path_is_dir(o->path);
    if (o->to == RT_CONTAINER_HF && is_dir) return check_folder(out, e);
    if (o->to == RT_CONTAINER_HF)
        return rt_fail(e, RT_INVALID, "%s is a file, and a Hugging Face model is a directory; choose another name",
                       o->path);
    if (is_dir)
        return rt_fail(e, RT_INVALID, "%s is a directory, and a %s model is a file; choose another name", o->path,
                       rt_container_name(o->to));
    if (!o->replace)
        return rt_fail(e, RT_INVALID, "%s is already there; choose another name or allow its replacement", o->path);
    return RT_OK;
}

/* ---- layout ---- */

/* Cuts the tensors into files of at most shard_bytes; a tensor that is larger has a file of its own. Counts when files
 * is null. */
static uint32_t cut_shards(const rt_model_out *o, rt_out_file *files)
{
    uint64_t most = o->to != RT_CONTAINER_HF ? UINT64_MAX : o->shard_bytes ? o->shard_bytes : SHARD_BYTES;
    uint64_t bytes = 0;
    uint32_t n = 0, first = 0;
    for (uint32_t i = 0; i < o->tensor_count; i++) {
        uint64_t next = rt_out_tensor_bytes(o, i);
        if (i > first && (bytes > most || next > most - bytes)) {
            if (files) files[n] = (rt_out_file){ .first = first, .count = i - first };
            n++;
            first = i;
            bytes = 0;
        }
        bytes += next;
    }
    if (files) files[n] = (rt_out_file){ .first = first, .count = o->tensor_count - first };
    return n + 1;
}

static int lay_out(output *out, rt_err *e)
{
    const rt_model_out *o = out->o;
    uint32_t count = cut_shards(o, NULL);
    out->files = rt_arena_alloc(&out->arena, count * sizeof *out->files);
    if (!out->files) return rt_no_memory(e, o->path);
    out->file_count = count;
    cut_shards(o, out->files);
    for (uint32_t i = 0; i < count; i++) {
        rt_out_file *f = &out->files[i];
        int rc = RT_INTERNAL;
        switch (o->to) {
        case RT_CONTAINER_HF:
        case RT_CONTAINER_SAFETENSORS:
            rc = rt_safetensors_layout(o, f->first, f->count, &out->arena, &f->layout, e);
            break;
        case RT_CONTAINER_GGUF: rc = rt_gguf_layout(o, &out->arena, &f->layout, e); break;
        case RT_CONTAINER_APR: rc = rt_apr_layout(o, &out->arena, &f->layout, e); break;
        }
        if (rc < 0) return rc;
    }
    return RT_OK;
}

/* ---- files ---- */

static int name_file(output *out, uint32_t i, rt_err *e)
{
    const rt_model_out *o = out->o;
    char name[64] = "model.safetensors";
    if (out->file_count > 1) snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", i + 1, out->file_count);
    out->files[i].path = out->folder ? rt_path_join(&out->arena, out->folder, name) : o->path;
    return out->files[i].path ? RT_OK : rt_no_memory(e, o->path);
}

static int open_files(output *out, rt_err *e)
{
    const rt_model_out *o = out->o;
    int rc;
    if (o->to == RT_CONTAINER_HF) RT_TRY(rt_dir_temp(&out->folder, &out->arena, o->path, e));
    for (uint32_t i = 0; i < out->file_count; i++) {
        rt_out_file *f = &out->files[i];
        RT_TRY(name_file(out, i, e));
        RT_TRY(rt_writer_open(&f->writer, f->path, e));
        if (!o->replace) rt_writer_new_only(f->writer);
        RT_TRY(rt_writer_reserve(f->writer, f->layout.size + (f->layout.footer_crc ? 4 : 0), e));
    }
    rc = RT_OK;
out:
    return rc;
}

static int finish_file(output *out, const rt_model_write_calls *calls, rt_err *e)
{
    rt_writer *w = out->files[0].writer;
    int rc = calls->check ? calls->check(calls->ctx, rt_writer_path(w), e) : RT_OK;
    return rc < 0 ? rc : rt_writer_commit(w, e);
}

/* In the directory every file has its own name before the directory has: the check opens it as it will be. */
static int finish_folder(output *out, const rt_model_write_calls *calls, rt_err *e)
{
    int rc;
    for (uint32_t i = 0; i < out->file_count; i++) RT_TRY(rt_writer_commit(out->files[i].writer, e));
    RT_TRY(rt_hf_write_files(out->o, out->files, out->file_count, out->folder, NULL, e));
    if (calls->check) RT_TRY(calls->check(calls->ctx, out->folder, e));
    RT_TRY(out->replaces ? rt_dir_replace(out->folder, out->o->path, rt_hf_is_name, NULL, e)
                         : rt_dir_commit(out->folder, out->o->path, e));
    out->folder = NULL;
out:
    return rc;
}

static void close_output(output *out)
{
    for (uint32_t i = 0; i < out->file_count; i++) {
        rt_writer_free(out->files[i].writer);
        rt_str_free(&out->files[i].layout.head);
        rt_str_free(&out->files[i].layout.extra);
    }
    rt_arena_free(&out->arena);
}

int rt_model_write_bytes(const rt_model_out *o, uint64_t *bytes, rt_err *e)
{
    int rc;
    output out = { .o = o, .folder = o->to == RT_CONTAINER_HF ? "." : NULL }; /* names of files alone are asked for */
    *bytes = 0;
    RT_TRY(lay_out(&out, e));
    for (uint32_t i = 0; i < out.file_count; i++) RT_TRY(name_file(&out, i, e));
    if (o->to == RT_CONTAINER_HF) RT_TRY(rt_hf_write_files(o, out.files, out.file_count, NULL, bytes, e));
    for (uint32_t i = 0; i < out.file_count; i++)
        *bytes += out.files[i].layout.size + (out.files[i].layout.footer_crc ? 4 : 0);
out:
    close_output(&out);
    return rc;
}

int rt_model_write_text(const rt_model_text *text, const char *folder, uint64_t *bytes, rt_err *e)
{
    return rt_hf_write_text(text, true, folder, bytes, e);
}

int rt_model_write(const rt_model_out *o, const rt_model_write_calls *calls, rt_pool *pool, rt_err *e)
{
    int rc;
    output out = { .o = o };
    RT_TRY(check_output(&out, e));
    RT_TRY(lay_out(&out, e));
    RT_TRY(open_files(&out, e));
    RT_TRY(rt_write_fill(o, out.files, out.file_count, calls, pool, e));
    rc = o->to == RT_CONTAINER_HF ? finish_folder(&out, calls, e) : finish_file(&out, calls, e);
out:
    if (out.folder) rt_dir_remove(out.folder);
    close_output(&out);
    return rc;
}
