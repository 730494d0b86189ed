/* step_cli.c - drives the step and the generator for tests/interop/test_step_torch.py.
 *
 *   step_cli train BACKEND JOB STUDENT TEACHER|- RESULT [ADAPTER MERGED]
 *       runs the job (tests/unit/step_case.h) on models in Hugging Face directories, on `ref` in double or on `cpu` in
 *       f32, and writes {"name": [values]} with 17 digits; with adapters also the two folders
 *   step_cli generate BACKEND MODEL MAX_NEW < prompts
 *       one prompt of ids per line -> one line of new ids, the most likely ones
 */
#include "../unit/step_case.h"
#include "infer/generator.h"
#include "train/output.h"

#include <stdlib.h>

typedef struct models {
    rt_model_file *student, *teacher;
} models;

static int load_trainer(void *ctx, rt_trainer *t, const step_case *c, rt_err *e)
{
    int rc;
    const models *m = ctx;
    RT_TRY(rt_trainer_load(t, m->student, m->teacher, c->vmask, 0, e));
    RT_TRY(step_fill(t->x, t->plan->student, "student", true, e));
out:
    return rc;
}

static int load_model(void *ctx, rt_exec *x, const rt_decoder *d, char which, rt_err *e)
{
    int rc;
    const models *m = ctx;
    RT_TRY(rt_load_weights(x, d, which == 't' ? m->teacher : m->student, NULL, e));
    RT_TRY(step_fill(x, d, "student", true, e));
out:
    return rc;
}

typedef struct sink {
    FILE *file;
    uint64_t keys;
} sink;

static int print_values(void *ctx, const char *key, const double *values, uint64_t n, rt_err *e)
{
    sink *s = ctx;
    fprintf(s->file, "%s\"%s\": [", s->keys++ ? ",\n" : "{", key);
    for (uint64_t i = 0; i < n; i++)
        if (fprintf(s->file, isfinite(values[i]) ? "%s%.17g" : "%s\"%g\"", i ? ", " : "", values[i]) < 0)
            return rt_fail(e, RT_IO, "the result cannot be written");
    fprintf(s->file, "]");
    return RT_OK;
}

static int open_device(rt_dev **d, const rt_policy **policy, const char *name, rt_err *e)
{
    int rc;
    const rt_backend *b;
    RT_TRY(rt_backend_find(name, &b, e));
    RT_TRY(b->open(d, 0, &RT_DEV_OPTIONS({ "threads", "2" }), e));
    *policy = strcmp(name, "ref") == 0 ? &rt_policy_f64 : &rt_policy_f32;
out:
    return rc;
}

static int write_adapters(rt_trainer *t, const step_case *c, const models *m, char **folders, rt_err *e)
{
    int rc;
    rt_output o = { .student = m->student, .dtype = RT_DTYPE_F32, .lora = c->opts.lora, .base_name = "base" };
    RT_TRY(rt_output_write(folders[0], t, &o, e));
    RT_TRY(rt_output_merged(folders[1], t, &o, e));
out:
    return rc;
}

static int train(int argc, char **argv, rt_err *e)
{
    static step_case c;
    int rc;
    json_error_t at;
    models m = { 0 };
    sink out = { 0 };
    rt_dev *d = NULL;
    rt_trainer *t = NULL;
    const rt_policy *policy;
    step_weights w = { load_trainer, load_model, &m };
    json_t *job = json_load_file(argv[3], 0, &at);
    if (!job) RT_TRY(rt_fail(e, RT_FORMAT, "%s: line %d: %s", argv[3], at.line, at.text));
    RT_TRY(open_device(&d, &policy, argv[2], e));
    RT_TRY(rt_model_file_open(&m.student, argv[4], &(rt_hub_env){ 0 }, e));
    if (strcmp(argv[5], "-") != 0) RT_TRY(rt_model_file_open(&m.teacher, argv[5], &(rt_hub_env){ 0 }, e));
    RT_TRY(step_case_read(&c, job, &m.student->config, m.teacher ? &m.teacher->config : NULL, policy, e));
    if (!(out.file = fopen(argv[6], "w"))) RT_TRY(rt_fail(e, RT_IO, "%s cannot be written", argv[6]));
    RT_TRY(step_logits(&c, d, &w, 's', print_values, &out, e));
    if (m.teacher) RT_TRY(step_logits(&c, d, &w, 't', print_values, &out, e));
    RT_TRY(step_train(&t, &c, d, &w, print_values, &out, e));
    fprintf(out.file, "}\n");
    if (argc > 8) RT_TRY(write_adapters(t, &c, &m, argv + 7, e));
out:
    if (out.file && fclose(out.file) != 0 && rc >= 0) rc = rt_fail(e, RT_IO, "%s cannot be written", argv[6]);
    rt_trainer_free(t);
    rt_model_file_close(m.student);
    rt_model_file_close(m.teacher);
    if (d) d->api->close(d);
    json_decref(job);
    return rc;
}

static int print_id(void *ctx, uint32_t id, rt_err *e)
{
    bool *first = ctx;
    (void)e;
    printf(*first ? "%u" : " %u", id);
    *first = false;
    return 0;
}

static int generate(char **argv, rt_err *e)
{
    static char line[1 << 16];
    static uint32_t ids[1 << 12];
    int rc;
    rt_model_file *m = NULL;
    rt_generator *g = NULL;
    rt_dev *d = NULL;
    const rt_policy *policy;
    RT_TRY(open_device(&d, &policy, argv[2], e));
    RT_TRY(rt_model_file_open(&m, argv[3], &(rt_hub_env){ 0 }, e));
    RT_TRY(rt_generator_open(&g, d, m, policy, &rt_generate_defaults, e));
    while (fgets(line, sizeof line, stdin)) {
        uint32_t n = 0;
        bool first = true;
        char *at = line, *end;
        for (unsigned long v = strtoul(at, &end, 10); end != at && n < sizeof ids / sizeof *ids;
             at = end, v = strtoul(at, &end, 10))
            ids[n++] = (uint32_t)v;
        RT_TRY(rt_generator_run(g, ids, n, (uint32_t)strtoul(argv[4], NULL, 10), print_id, &first, NULL, e));
        printf("\n");
    }
out:
    rt_generator_free(g);
    rt_model_file_close(m);
    if (d) d->api->close(d);
    return rc;
}

int main(int argc, char **argv)
{
    rt_err e = { 0 };
    int rc;
    rt_json_init();
    if (argc >= 7 && strcmp(argv[1], "train") == 0)
        rc = train(argc, argv, &e);
    else if (argc == 5 && strcmp(argv[1], "generate") == 0)
        rc = generate(argv, &e);
    else
        rc = rt_fail(&e, RT_USAGE, "see the head of step_cli.c");
    if (rc < 0) fprintf(stderr, "step_cli: %s: %s\n", rt_status_text(rc), e.text);
    return rc < 0 ? rt_status_exit(rc) : 0;
}
