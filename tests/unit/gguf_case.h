/* gguf_case.h - a folder for GGUF files, and opening what was built: taken, or refused with a reason. */
#ifndef RT_TESTS_UNIT_GGUF_CASE_H
#define RT_TESTS_UNIT_GGUF_CASE_H

#include "gguf_build.h"

static char folder[64], file[96];

static inline int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/rt_gguf_XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(file, sizeof file, "%s/model.gguf", folder);
    return 0;
}

static inline int remove_folder(void **state)
{
    (void)state;
    rt_dir_remove(folder);
    return 0;
}

/* Saves, frees, opens; the caller closes. */
static inline int open_built(gguf_build *b, rt_model_file *m, rt_err *e)
{
    *e = (rt_err){ 0 };
    gb_save(b, file);
    gb_free(b);
    return gb_open(m, file, e);
}

/* What is built must be refused: status, the file's name and a part of the message. */
static inline void refused(gguf_build *b, int status, const char *part)
{
    rt_model_file m;
    rt_err e;
    int rc = open_built(b, &m, &e);
    if (rc != status) fail_msg("status %d, expected %d, '%s' (for '%s')", rc, status, e.text, part);
    if (!strstr(e.text, file) || !strstr(e.text, part)) fail_msg("'%s' lacks '%s'", e.text, part);
    gb_close(&m);
}

static inline gguf_build model(const char *arch)
{
    gguf_build b = gb_new();
    gb_model_keys(&b, arch);
    gb_model_tensors(&b);
    return b;
}

static inline void opened(gguf_build *b, rt_model_file *m)
{
    rt_err e;
    if (open_built(b, m, &e) < 0) fail_msg("%s", e.text);
}

#endif
