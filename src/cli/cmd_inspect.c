/* cmd_inspect.c - `retort inspect`: gathers what is known about a model. How it is shown is inspect_print.c. */
#include "base/sys.h"
#include "cli/cli.h"
#include "cli/inspect.h"
#include "cli/model_arg.h"
#include "text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *rt_inspect_dtype_name(const rt_tensor *t)
{
    return t->store == RT_STORE_APR_Q4 ? "apr_q4" : t->store == RT_STORE_APR_Q8 ? "apr_q8" : rt_dtype_name(t->dtype);
}

static int more_bytes(const void *a, const void *b)
{
    const rt_inspect_dtype *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static void count_tensors(rt_inspect *f)
{
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < f->m->tensor_count; i++) {
        const rt_tensor *t = &f->m->tensors[i];
        const char *name = rt_inspect_dtype_name(t);
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
static int look_at_tokenizer(rt_inspect *f, rt_err *e)
{
    const rt_model_text *text = &f->m->text;
    rt_tokenizer *t = NULL;
    rt_err why = { 0 };
    int rc = RT_OK;
    if (text->tokenizer_json.data) {
        f->tokenizer_from = "tokenizer.json";
        rc = rt_tokenizer_from_json(&t, text->tokenizer_json.data, text->tokenizer_json.len, &why);
    } else if (text->has_vocab) {
        f->tokenizer_from = f->m->container == RT_CONTAINER_APR ? "APR keys" : "GGUF keys";
        rc = rt_tokenizer_from_vocab(&t, &text->vocab, &why);
    } else {
        return RT_OK;
    }
    if (rc == RT_NOMEM) return rt_fail(e, RT_NOMEM, "%s", why.text);
    f->has_tokenizer = true;
    f->tokenizer_usable = rc >= 0;
    if (t) {
        rt_tokenizer_describe(t, &f->tokenizer);
        f->tokenizer_size = rt_tokenizer_size(t);
        rt_hash_text(f->tokenizer_hash, rt_tokenizer_hash(t));
    } else {
        rt_str_append(&f->tokenizer, why.text);
    }
    rt_tokenizer_free(t);
    return f->tokenizer.failed ? rt_fail(e, RT_NOMEM, "no memory to describe the tokenizer") : RT_OK;
}

/* Reading a large model takes as long as the disk takes. */
static void say_that_it_takes_time(const rt_inspect *f)
{
    char size[32];
    if (f->bytes >= (uint64_t)1 << 30)
        fprintf(stderr, "hashing %s; --no-hash leaves this out\n", rt_format_bytes(size, f->bytes));
}

static int hash_values(rt_inspect *f, uint32_t threads, rt_err *e)
{
    rt_pool *pool = NULL;
    rt_hash128 h;
    int rc;
    say_that_it_takes_time(f);
    RT_TRY(rt_pool_for(&pool, threads, e));
    /* A damaged file has nothing to say that can be believed. */
    if (f->m->container == RT_CONTAINER_APR) RT_TRY(rt_apr_check_footer(f->m, pool, e));
    f->footer_checked = f->m->container == RT_CONTAINER_APR;
    RT_TRY(rt_model_file_hash(f->m, pool, &h, e));
    rt_hash_text(f->file_hash, h);
    if (f->tensors && f->m->tensor_count) {
        f->each = rt_alloc_zero(f->m->tensor_count * sizeof *f->each, 16);
        if (!f->each) {
            rc = rt_fail(e, RT_NOMEM, "no memory for the hashes of %u tensors", f->m->tensor_count);
            goto out;
        }
    }
    RT_TRY(rt_model_content_hash(f->m, pool, &h, f->each, e));
    rt_hash_text(f->content_hash, h);
out:
    rt_pool_free(pool);
    return rc;
}

static int inspect(const char *spec, bool json, bool tensors, bool no_hash, uint32_t threads, rt_err *e)
{
    rt_hub_env env = rt_hub_env_get();
    rt_model_file *m = NULL;
    rt_inspect f = { .tensors = tensors };
    rt_err problem = { 0 };
    int rc;
    RT_TRY(rt_model_file_open(&m, spec, &env, e));
    f.m = m;
    count_tensors(&f);
    if (rt_model_file_check(m, &problem) < 0) snprintf(f.problem, sizeof f.problem, "%s", problem.text);
    RT_TRY(look_at_tokenizer(&f, e));
    if (!no_hash) RT_TRY(hash_values(&f, threads, e));
    if (json)
        rc = rt_print_json(rt_inspect_json(&f), e);
    else
        rt_inspect_print(&f);
out:
    rt_str_free(&f.tokenizer);
    rt_free(f.each);
    rt_model_file_close(m);
    return rc;
}

int rt_cmd_inspect(int argc, char **argv, rt_err *e)
{
    bool json = false, tensors = false, no_hash = false, help;
    uint32_t threads = 0;
    rt_words words = { 0 };
    const rt_flag flags[] = {
        { "--tensors", RT_FLAG_BOOL, &tensors, NULL, "every tensor: name, dtype, shape, bytes, hash of its values" },
        { "--no-hash", RT_FLAG_BOOL, &no_hash, NULL, "read the headers alone: no hashes, no check of an APR footer" },
        { "--threads", RT_FLAG_COUNT, &threads, "N", "threads that hash (default: cores this process may use)" },
        { "--json", RT_FLAG_BOOL, &json, NULL, "the same facts as JSON" },
        { 0 },
    };
    const rt_command c = {
        .name = "inspect",
        .usage = "retort inspect MODEL [flags]",
        .text =
            "Says what is in a model: a Hugging Face directory, a .safetensors, .gguf or .apr file, or org/name in\n"
            "the local Hugging Face cache. The file hash is that of the bytes; the content hash is that of the\n"
            "values, and is the same for the same values in another format, sharding or wider dtype. Changes nothing.",
        .example = "retort inspect model.gguf --tensors",
        .flags = flags,
        .min_words = 1,
        .max_words = 1,
        .words = &words,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    return inspect(words.text[0], json, tensors, no_hash, threads, e);
}
