/* cuda_tuned.c - see cuda_tuned.h. */
#include "backend/cuda/cuda_tuned.h"

#include "base/file.h"

#include <string.h>

enum { LEAST = 4, FIELDS = 5, FILE_MOST = 16 << 20 }; /* fields of a line */

static const char title[] =
    "# GEMMs that retort has timed: GPU, library, gemm, algorithm. Remove this file to have them timed again.\n";
static const char untimed[] = "not timed";

static int no_memory(rt_err *e) { return rt_fail(e, RT_NOMEM, "no memory for the choices of GEMMs"); }

rt_cuda_choice *rt_cuda_tuned_find(const rt_cuda_tuned *t, const char *gpu, const char *library, const char *gemm)
{
    for (uint32_t i = 0; i < t->count; i++) {
        rt_cuda_choice *c = &t->list[i];
        if (strcmp(c->gemm, gemm) == 0 && strcmp(c->gpu, gpu) == 0 && strcmp(c->library, library) == 0) return c;
    }
    return NULL;
}

static int add(rt_cuda_tuned *t, const rt_cuda_choice *from, rt_err *e)
{
    rt_cuda_choice c = { .gpu = rt_arena_strdup(&t->arena, from->gpu),
                         .library = rt_arena_strdup(&t->arena, from->library),
                         .gemm = rt_arena_strdup(&t->arena, from->gemm),
                         .algorithm = rt_arena_strdup(&t->arena, from->algorithm),
                         .timed = from->timed };
    if (!c.gpu || !c.library || !c.gemm || !c.algorithm ||
        !rt_grow((void **)&t->list, &t->cap, t->count + 1, sizeof *t->list))
        return no_memory(e);
    t->list[t->count++] = c;
    return RT_OK;
}

int rt_cuda_tuned_put(rt_cuda_tuned *t, const rt_cuda_choice *c, rt_err *e)
{
    rt_cuda_choice *known = rt_cuda_tuned_find(t, c->gpu, c->library, c->gemm);
    if (!known) return add(t, c, e);
    const char *algorithm = rt_arena_strdup(&t->arena, c->algorithm);
    if (!algorithm) return no_memory(e);
    known->algorithm = algorithm;
    known->timed = c->timed;
    return RT_OK;
}

/* Cuts a line into its fields where they lie; false when it is no choice. */
static bool cut(char *line, size_t bytes, const char *field[FIELDS])
{
    int n = 0;
    field[LEAST] = NULL;
    field[n++] = line;
    for (size_t i = 0; i < bytes; i++) {
        if (line[i] == '\t') {
            if (n == FIELDS) return false;
            line[i] = 0;
            field[n++] = line + i + 1;
        } else if ((unsigned char)line[i] < ' ') {
            return false;
        }
    }
    for (int i = 0; i < n; i++)
        if (!*field[i]) return false;
    return n == LEAST || (n == FIELDS && strcmp(field[LEAST], untimed) == 0);
}

int rt_cuda_tuned_read(rt_cuda_tuned *t, const char *path, rt_err *e)
{
    rt_str text = { 0 };
    int rc = rt_path_exists(path) ? rt_file_read(path, FILE_MOST, &text, e) : RT_OK;
    for (size_t at = 0, bytes; rc >= 0 && at < text.len; at += bytes + 1) {
        const char *end = memchr(text.data + at, '\n', text.len - at), *field[FIELDS];
        char *line = text.data + at;
        bytes = end ? (size_t)(end - line) : text.len - at;
        if (bytes == 0 || *line == '#') continue;
        line[bytes] = 0; /* in the place of the newline or of the terminator */
        if (!cut(line, bytes, field)) {
            t->unreadable++;
            continue;
        }
        rt_cuda_choice c = { field[0], field[1], field[2], field[3], !field[LEAST] };
        if (!rt_cuda_tuned_find(t, c.gpu, c.library, c.gemm)) rc = add(t, &c, e);
    }
    rt_str_free(&text);
    return rc;
}

int rt_cuda_tuned_write(const rt_cuda_tuned *t, const char *path, rt_err *e)
{
    rt_str text = { 0 };
    rt_str_append(&text, title);
    for (uint32_t i = 0; i < t->count; i++) {
        const rt_cuda_choice *c = &t->list[i];
        rt_str_printf(&text, "%s\t%s\t%s\t%s%s%s\n", c->gpu, c->library, c->gemm, c->algorithm, c->timed ? "" : "\t",
                      c->timed ? "" : untimed);
    }
    int rc = text.failed ? no_memory(e) : rt_file_write(path, text.data, text.len, e);
    rt_str_free(&text);
    return rc;
}

void rt_cuda_tuned_free(rt_cuda_tuned *t)
{
    rt_arena_free(&t->arena);
    rt_free(t->list);
    *t = (rt_cuda_tuned){ 0 };
}
