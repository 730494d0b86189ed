/* job_internal.h - shared by the files of jobs: what an output model is to be, the reasons to refuse it before
 * any work is done and the tokenizer that goes into it (job_output.c), one text as ids (job_tokenize.c), a list of
 * layers (job_shared.c). */
#ifndef RT_JOB_JOB_INTERNAL_H
#define RT_JOB_JOB_INTERNAL_H

#include "job/job.h"

/* How often a job that renders templates asks whether it is to stop, at most. */
#define RT_JOB_TELL_SECONDS 0.05

/* Who watches a job: whose progress function it is, what was told last and when, and whether it is to stop. The
 * functions take one as ctx and fit inputs (progress, stop) and an rt_watch (job_shared.c). */
typedef struct rt_job_tell {
    rt_job_progress_fn progress; /* may be null */
    void *ctx;
    double at; /* clock */
    const char *what;
    uint64_t done, total;
    bool stopped;
} rt_job_tell;
void rt_job_tell_progress(void *ctx, const char *what, uint64_t done, uint64_t total);
bool rt_job_tell_stop(void *ctx); /* asked between two records, which a template may take a second for */
int rt_job_tell_watch(void *ctx, const char *what, uint64_t done, uint64_t total);

/* Format and dtype of the output; *mix is null where dtype is. RT_USAGE with the nearest name. */
int rt_job_output_kind(const rt_job_output *o, const char *dtype, rt_container *to, const rt_mix **mix, rt_err *e);
/* RT_INVALID when path is there already and may not be replaced, when it is a folder where a file is to be or the other
 * way round, when the model in (may be null) is, or lies in, what would be replaced, or when it belongs to a run
 * (rt_job_output_outside_runs). */
int rt_job_output_allowed(const char *path, rt_container to, bool replace, const rt_model_file *in, rt_err *e);
/* RT_IO when the file system of path has less room than bytes, those of the tensors alone: what is refused would not
 * have fitted. */
int rt_job_output_fits(const char *path, uint64_t bytes, rt_err *e);

/* out: what to give to the writer for an output in this format. It points into in and into a. none: only what is not
 * the tokenizer's (generation_config.json). What could not be taken along is said in notes. */
int rt_job_output_text(rt_model_text *out, const rt_model_text *in, bool none, rt_container to,
                       const rt_model_config *c, rt_arena *a, rt_notes *notes, rt_err *e);

/* A tokenizer that is named for a model that has none: a tokenizer.json (its tokenizer_config.json and chat template
 * are taken along where they lie beside it), or any model. */
typedef struct rt_job_tokenizer {
    rt_model_file *model; /* the caller closes it; null when the text came from files */
    rt_model_text text;
} rt_job_tokenizer;
int rt_job_tokenizer_open(rt_job_tokenizer *t, const char *spec, const rt_hub_env *hub, rt_arena *a, rt_err *e);
/* That of the tiny presets: 256 bytes and the special ids of the configuration. */
int rt_job_tokenizer_bytes(rt_job_tokenizer *t, const rt_model_config *c, rt_arena *a, rt_err *e);
/* RT_INVALID when it has ids that the model's embedding has no row for. */
int rt_job_tokenizer_check(const rt_job_tokenizer *t, const char *spec, const rt_model_config *c, rt_err *e);

/* job_shared.c: list (RT_MAX_LAYERS) from "0,2,4-7". RT_USAGE names the flag. */
int rt_job_layers_parse(uint32_t *list, uint32_t *count, const char *flag, const char *text, rt_err *e);

/* job_tokenize.c: appends the ids of one text; flags as rt_tokenizer_encode has them. */
int rt_job_tokenizer_encode(const rt_tokenizer *t, const char *text, size_t len, unsigned flags, rt_tok_ids *ids,
                            rt_err *e);

#endif
