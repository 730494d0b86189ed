/* job_inspect.c - what is known about a model: shape, dtypes, tokenizer, hashes. See job.h. */
#include "job/job.h"

#include "base/json.h"
#include "text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

const char *rt_job_dtype_name(const rt_tensor *t)
{
    switch (t->store) {
    case RT_STORE_APR_Q4: return "apr_q4";
    case RT_STORE_APR_Q8: return "apr_q8";
    case RT_STORE_MERGED: return "merged";
    case RT_STORE_PLAIN: break;
    }
    return rt_dtype_name(t->dtype);
}

static int more_bytes(const void *a, const void *b)
{
    const rt_job_dtype *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static void count_tensors(rt_job_inspection *f)
{
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < f->m->tensor_count; i++) {
        const rt_tensor *t = &f->m->tensors[i];
        const char *name = rt_job_dtype_name(t);
        uint32_t k = 0;
        while (k < kinds && f->dtype[k].name != name) k++;
        if (k == kinds) f->dtype[kinds++].name = name;
        f->dtype[k].tensors++;
        f->dtype[k].elems += rt_tensor_elems(t);
        f->dtype[k].bytes += t->bytes;
        f->tensor_bytes += t->bytes;
        if (t->role != RT_ROLE_EMBED && t->role != RT_ROLE_HEAD) f->outside += rt_tensor_elems(t);
    }
    qsort(f->dtype, kinds, sizeof *f->dtype, more_bytes);
    f->parameters = rt_model_file_parameters(f->m);
    for (uint32_t i = 0; i < f->m->part_count; i++) f->bytes += f->m->parts[i].map.size;
}

/* A tokenizer that cannot be used is a fact like others, and told with its reason. */
static int look_at_tokenizer(rt_job_inspection *f, rt_err *e)
{
    const rt_model_text *text = &f->m->text;
    rt_tokenizer *t = NULL;
    rt_err why = { 0 };
    int rc;
    if (!text->tokenizer_json.data && !text->has_vocab) return RT_OK;
    f->tokenizer_from = text->tokenizer_json.data             ? "tokenizer.json"
                        : f->m->container == RT_CONTAINER_APR ? "APR keys"
                                                              : "GGUF keys";
    rc = rt_model_tokenizer(&t, text, &why);
    if (rc == RT_NOMEM) return rt_fail(e, RT_NOMEM, "%s", why.text);
    f->tokenizer_usable = rc >= 0;
    if (t) {
        rt_tokenizer_describe(t, &f->tokenizer);
        f->tokenizer_size = rt_tokenizer_size(t);
        rt_hash_text(f->tokenizer_hash, rt_tokenizer_hash(t));
    } else {
        rt_str_append(&f->tokenizer, why.text);
    }
    rt_tokenizer_free(t);
    return f->tokenizer.failed ? rt_no_memory(e, "a description of the tokenizer") : RT_OK;
}

int rt_job_inspect(rt_job_inspection *f, const rt_model_file *m, rt_err *e)
{
    rt_err problem = { 0 };
    rt_json_init();
    f->m = m;
    count_tensors(f);
    if (rt_model_file_check(m, &problem) < 0) snprintf(f->problem, sizeof f->problem, "%s", problem.text);
    int rc = look_at_tokenizer(f, e);
    if (rc < 0) rt_job_inspection_free(f);
    return rc;
}

int rt_job_inspect_hash(rt_job_inspection *f, bool each, uint32_t threads, rt_err *e)
{
    rt_pool *pool = NULL;
    rt_hash128 h;
    int rc;
    RT_TRY(rt_job_pool_new(&pool, threads, e));
    /* A damaged file has nothing to say that can be believed. */
    RT_TRY(rt_model_file_check_bytes(f->m, pool, e));
    f->footer_checked = f->m->container == RT_CONTAINER_APR;
    RT_TRY(rt_model_file_hash(f->m, pool, &h, e));
    rt_hash_text(f->file_hash, h);
    if (each && f->m->tensor_count && !(f->each = rt_alloc_zero(f->m->tensor_count * sizeof *f->each, 16)))
        RT_TRY(rt_no_memory(e, "the hashes of tensors"));
    RT_TRY(rt_model_content_hash(f->m, pool, &h, f->each, e));
    rt_hash_text(f->content_hash, h);
out:
    rt_pool_free(pool);
    return rc;
}

void rt_job_inspection_free(rt_job_inspection *f)
{
    rt_str_free(&f->tokenizer);
    rt_free(f->each);
    f->each = NULL;
}
