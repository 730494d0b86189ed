/* apr_case.h - APR files made by hand, and opening them: taken, or refused with a reason. */
#ifndef RT_TESTS_UNIT_APR_CASE_H
#define RT_TESTS_UNIT_APR_CASE_H

#include "apr_build.h"
#include "format_case.h"

#include "format/model_file.h"

#define META_HEAD                                                                                                      \
    "{\"architecture\":\"qwen2\",\"hidden_size\":8,\"num_layers\":1,\"num_heads\":2,\"num_kv_heads\":1,"               \
    "\"vocab_size\":4,\"intermediate_size\":16,\"rope_theta\":1000000.0,\"rms_norm_eps\":1e-6"
#define META META_HEAD "}"

static const float embed[32] = { 0, 1, 2, 3, 4, 5, 6, 7, -1, -2.5f, 0.125f };

static const apr_build_tensor two[] = {
    { "model.embed_tokens.weight", 0, 2, { 4, 8 }, embed, sizeof embed },
    { "model.norm.weight", 0, 1, { 8 }, embed + 8, 32 },
};

static apr_build file;

static inline void save(const char *name) { put_file(name, file.bytes, file.size); }

static inline int open_saved(const char *name, rt_model_file **m, rt_err *e)
{
    *e = (rt_err){ 0 };
    save(name);
    return rt_model_file_open(m, in_dir(name), NULL, e);
}

static inline void expect_bad(int status, const char *words)
{
    rt_model_file *m = NULL;
    rt_err e;
    int rc = open_saved("bad.apr", &m, &e);
    if (rc != status) fail_msg("status %d, expected %d: %s", rc, status, e.text);
    assert_null(m);
    assert_says(&e, words);
    assert_says(&e, "bad.apr");
}

static inline rt_model_file *expect_good(void)
{
    rt_model_file *m = NULL;
    rt_err e;
    if (open_saved("good.apr", &m, &e) < 0) fail_msg("%s", e.text);
    return m;
}

#endif
