/* audit_models.c - the models and the data of a run opened once more: that they are those of the manifest, that the
 * data gives the rows that were logged, and that both models measure what the run says they measured. */
#include "job/audit_internal.h"

#include "job/prepare/identity.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Errors that a check tells of; memory alone ends the whole. */
static bool fatal(int rc) { return rc == RT_NOMEM || rc == RT_INTERRUPTED; }

/* ---- models ---- */

/* was: its record in the manifest. */
static int check_model(rt_audit *v, const rt_again *a, const char *who, const char *spec, const json_t *was, bool *ok,
                       rt_err *e)
{
    rt_err why = { 0 };
    rt_model_file *m = NULL;
    json_t *now = NULL;
    bool old = false;
    const char *name = json_string_value(json_object_get(was, "name")), *part = NULL;
    if (!name) name = "it";
    const rt_hub_env env = rt_inputs_env(&v->settings, a->opts->env);
    bool cache = strcmp(who, "teacher") == 0 && rt_cache_is(spec);
    int rc = cache ? rt_inputs_cache_identity(&now, spec, &why) : rt_model_file_open(&m, spec, &env, &why);
    if (rc >= 0 && !cache) rc = rt_identity_new(&now, m, a->opts->pool, &why);
    rt_model_file_close(m);
    if (rc >= 0) part = rt_identity_differs(was, now, &old);
    *ok = rc >= 0 && !part;
    if (fatal(rc))
        rc = rt_fail(e, rc, "%s", why.text);
    else if (rc < 0)
        rt_audit_tell(v, who, RT_CHECK_NOT_CHECKED, "%s is not where the run found it: %s", name, why.text);
    else if (part && strcmp(part, "values") == 0)
        rt_audit_tell(v, who, RT_CHECK_FAIL, "%s holds other values now than the manifest says the run began with",
                      name);
    else if (part)
        rt_audit_tell(v, who, RT_CHECK_FAIL, "%s of %s is not what the manifest says the run began with", part, name);
    else
        rt_audit_tell(v, who, RT_CHECK_PASS, "%s holds the values that the run began with%s: %s", name,
                      old ? " (configuration and tokenizer were not hashed then)"
                          : ", with their configuration, tokenizer and template",
                      json_string_value(json_object_get(was, "content_hash")));
    json_decref(now);
    return fatal(rc) ? rc : RT_OK;
}

static int check_models(rt_audit *v, rt_again *a, rt_err *e)
{
    int rc = RT_OK;
    const rt_settings *s = &v->settings;
    const json_t *m = v->manifest, *others = json_object_get(m, RT_MANIFEST_OTHERS);
    rt_teachers teachers = { 0 };
    if (v->facts.teacher) RT_TRY(rt_teachers_parse(&teachers, s->teacher.text, s->teacher.count, &v->arena, e));
    rt_watch_tell(&a->opts->watch, "hashing the models", 0, 1 + teachers.count);
    if (s->student) RT_TRY(check_model(v, a, "student", s->student, json_object_get(m, "student"), &a->student, e));
    for (uint32_t i = 0; i < teachers.count; i++) {
        bool ok = false;
        char who[32] = "teacher";
        if (i) snprintf(who, sizeof who, "teacher %u", i + 1);
        rt_watch_tell(&a->opts->watch, "hashing the models", 1 + i, 1 + teachers.count);
        RT_TRY(check_model(v, a, who, teachers.list[i].model,
                           i ? json_array_get(others, i - 1) : json_object_get(m, "teacher"), &ok, e));
        a->teacher = ok && (i == 0 || a->teacher); /* all of them, or none is measured again */
    }
out:
    return rc;
}

/* ---- data ---- */

/* A source of the manifest against its files as they are now: the first that is another into why. was null: the run did
 * not hash them. */
static int compare_files(const json_t *was, const rt_data_list *l, uint32_t source, uint32_t *count, rt_err *why)
{
    int rc;
    json_t *now = NULL;
    RT_TRY(rt_data_files_json(&now, l, source, 1, why));
    for (size_t i = 0; i < json_array_size(was) || i < json_array_size(now); i++) {
        const json_t *a = json_array_get(was, i), *b = json_array_get(now, i);
        const char *name = json_string_value(json_object_get(a ? a : b, "name"));
        if (!json_equal(a, b))
            RT_TRY(rt_fail(why, RT_INVALID, "%s is not what was tokenized", name ? name : l->sources[source].name));
    }
    *count += (uint32_t)json_array_size(now);
out:
    json_decref(now);
    return rc;
}

/* One list of the data, "train" or "eval". Shards that were given as such have no files but themselves. */
static int compare_sources(rt_audit *v, const rt_again *a, const char *kind, uint32_t *count, rt_err *why)
{
    int rc = RT_OK;
    bool eval = strcmp(kind, "eval") == 0, any = false;
    rt_data_list l = { 0 };
    const rt_setting_list *specs = eval ? &v->settings.eval_data : &v->settings.data;
    const json_t *sources = json_object_get(json_object_get(v->manifest, "data"), kind), *source;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)sources, i, source)
    {
        const json_t *shard = json_array_get(json_object_get(source, "shards"), 0);
        const char *name = json_string_value(json_object_get(shard, "name"));
        if (!name || !rt_inputs_is_name(name)) continue;
        if (!json_object_get(shard, "files"))
            RT_TRY(rt_fail(why, RT_NOT_FOUND, "the run was made before the files of its data were hashed"));
        any = true;
    }
    if (!any) return RT_OK;
    RT_TRY((eval ? rt_data_list_open_eval : rt_data_list_open)(&l, specs->text, specs->count, a->opts->env, why));
    if (l.source_count != json_array_size(sources))
        RT_TRY(rt_fail(why, RT_INVALID, "the %s data is of other sources than those that were tokenized", kind));
    json_array_foreach((json_t *)(uintptr_t)sources, i, source)
    {
        const json_t *files = json_object_get(json_array_get(json_object_get(source, "shards"), 0), "files");
        const char *name =
            json_string_value(json_object_get(json_array_get(json_object_get(source, "shards"), 0), "name"));
        if (name && rt_inputs_is_name(name)) RT_TRY(compare_files(files, &l, (uint32_t)i, count, why));
    }
out:
    rt_data_list_close(&l);
    return rc;
}

/* The files that the tokens were made from. Only the tokens count for the run; what they came from is its identity. */
static int check_data_files(rt_audit *v, const rt_again *a, rt_err *e)
{
    rt_err why = { 0 };
    uint32_t count = 0;
    int rc = compare_sources(v, a, "train", &count, &why);
    if (rc >= 0) rc = compare_sources(v, a, "eval", &count, &why);
    if (fatal(rc)) return rt_fail(e, rc, "%s", why.text);
    if (rc < 0)
        rt_audit_tell(v, "data files", rc == RT_INVALID ? RT_CHECK_FAIL : RT_CHECK_NOT_CHECKED, "%s", why.text);
    else if (count)
        rt_audit_tell(v, "data files", RT_CHECK_PASS, "%" PRIu32 " as they were when they were tokenized", count);
    return RT_OK;
}

static int check_shards(rt_audit *v, rt_again *a, rt_err *why)
{
    int rc;
    json_t *now = NULL;
    RT_TRY(rt_inputs_to_json(&now, a->in, why));
    if (!json_equal(now, json_object_get(v->manifest, "data")))
        RT_TRY(rt_fail(why, RT_INVALID, "the token shards are not those of the manifest"));
    for (uint32_t i = 0; i < a->in->shard_count; i++) RT_TRY(rt_shard_verify(a->in->shards[i], why));
out:
    json_decref(now);
    return rc;
}

/* All rows of the run once more, those of the first step kept. */
static int walk_rows(rt_audit *v, rt_again *a, rt_err *why)
{
    int rc;
    rt_loop rest = a->first;
    RT_TRY(rt_loop_begin(&a->first, why));
    RT_TRY(rt_loop_begin(&rest, why));
    for (uint32_t step = 0; step < v->step_count; step++) {
        rt_loop *l = step ? &rest : &a->first;
        rt_row_totals now = { .rows = l->batch };
        const rt_row_totals *log = &v->steps[step].of;
        rt_watch_tell(&a->opts->watch, "reading the rows again", step, v->step_count);
        RT_TRY(rt_loop_read(l, &now.tokens, why));
        for (uint32_t m = 0; m < l->micro_count; m++)
            now.trained += rt_batch_trained(&l->micro[m], l->micro_batch * l->seq_len);
        if (now.rows != log->rows || now.tokens != log->tokens || now.trained != log->trained)
            RT_TRY(rt_fail(why, RT_INVALID,
                           "step %" PRIu32 ": the data gives %" PRIu64 " tokens, %" PRIu64
                           " to train; the log has %" PRIu64 " and %" PRIu64,
                           step + 1, now.tokens, now.trained, log->tokens, log->trained));
    }
out:
    rt_loop_free(&rest);
    return rc;
}

/* Models, shards and rows as the run had them. Without its student the output stands in, which has the same shape. */
static int open_inputs(rt_audit *v, rt_again *a, rt_err *why)
{
    int rc;
    rt_run_facts f = { 0 };
    char *folder = rt_path_join(&v->arena, v->run, "data");
    char *index = folder ? rt_path_join(&v->arena, folder, "train.json") : NULL;
    char *eval = folder ? rt_path_join(&v->arena, folder, "eval.json") : NULL;
    rt_inputs_opts io = { .env = a->opts->env, .pool = a->opts->pool, .folder = folder };
    if (!index || !eval) RT_TRY(rt_no_memory(why, "a path"));
    a->settings = v->settings;
    a->settings.allow_degenerate = true;                           /* the verdict is about that */
    rt_settings_forget(&a->settings, RT_SETTING_ID_chat_template); /* text was tokenized long ago */
    if (!a->student) a->settings.student = v->root;
    if (!a->teacher) rt_settings_forget(&a->settings, RT_SETTING_ID_teacher);
    RT_TRY(rt_inputs_open(&a->in, &a->settings, &io, why));
    if (!rt_path_exists(index) || (v->settings.eval_data.count && !rt_path_exists(eval)))
        RT_TRY(rt_fail(why, RT_NOT_FOUND, "%s is not there", index));
    RT_TRY(rt_inputs_data(a->in, &a->settings, &io, why));
    RT_TRY(rt_inputs_facts(a->in, &f, why));
    f.old = !a->settings.given[RT_SETTING_ID_eval_rows];
    if (v->facts.teacher && !f.teacher) f.teacher = f.student;
    RT_TRY(rt_resolve_before_rows(&a->settings, &f, &a->resolved, why));
    RT_TRY(rt_inputs_rows(a->in, &a->settings, &a->resolved, &f, why));
    RT_TRY(rt_resolve_with_rows(&a->settings, &f, &a->resolved, why));
    uint32_t meant = rt_evidence_steps_meant(&v->facts);
    if (a->resolved.steps != meant)
        RT_TRY(rt_fail(why, RT_INVALID, "by settings and data the run has %" PRIu32 " steps, by the log %" PRIu32,
                       a->resolved.steps, meant));
    a->first = (rt_loop){ .source = a->in->train,
                          .pair = a->in->teacher ? &a->in->pair : NULL,
                          .id_rows = rt_inputs_id_rows(a->in),
                          .batch = a->resolved.batch,
                          .micro_batch = a->resolved.micro_batch,
                          .seq_len = a->resolved.seq_len };
out:
    return rc;
}

static int check_data(rt_audit *v, rt_again *a, rt_err *e)
{
    rt_err why = { 0 };
    bool whole = a->student && (a->teacher || !v->facts.teacher), adapters = a->recorded.lora.rank > 0;
    if (!a->student && adapters) {
        rt_audit_tell(v, "data", RT_CHECK_NOT_CHECKED, "it needs the student that the run began with");
        return RT_OK;
    }
    int rc = open_inputs(v, a, &why);
    if (rc < 0 && !whole) why.status = RT_NOT_FOUND; /* a model that is not there may be all that is wrong */
    if (rc >= 0) rc = check_shards(v, a, &why);
    if (rc >= 0 && v->same_from == 0) rc = walk_rows(v, a, &why);
    if (fatal(rc)) return rt_fail(e, rc, "%s", why.text);
    a->data = rc >= 0;
    if (rc < 0)
        rt_audit_tell(v, "data",
                      why.status == RT_NOT_FOUND || why.status == RT_IO ? RT_CHECK_NOT_CHECKED : RT_CHECK_FAIL, "%s",
                      why.text);
    else if (v->same_from)
        rt_audit_tell(v, "data", RT_CHECK_PASS,
                      "%" PRIu32 " token shards whole; rows were not gone through again, "
                      "since the settings were changed in a resumed run",
                      a->in->shard_count);
    else
        rt_audit_tell(v, "data", RT_CHECK_PASS,
                      "%" PRIu32 " token shards whole; read again they give the rows of all %" PRIu32
                      " steps, token for token as counted in the log",
                      a->in->shard_count, v->step_count);
    return RT_OK;
}

/* ---- measuring again ---- */

/* The teacher's layers where the run had them; on a device whose memory is the host's there is no other one. */
static int put_home(const rt_again *a, rt_step_opts *o, rt_err *e)
{
    rt_dev_info info;
    rt_teacher_memory m = a->resolved.teacher_memory;
    int rc = a->dev->api->info(a->dev, &info, e);
    if (rc < 0 || !rt_inputs_live(a->in)) return rc;
    o->teacher_home = info.host && m == RT_TEACHER_HOST ? RT_CLASS_PARAM : rt_teacher_memory_class(m);
    return RT_OK;
}

static int open_trainer(rt_audit *v, rt_again *a, rt_err *e)
{
    int rc;
    const rt_inputs *in = a->in;
    const rt_resolved *r = &a->resolved;
    rt_dtype *base, *teacher;
    rt_step_other *others = NULL;
    /* AUTO: as settings of an early run have it */
    rt_teacher_weights weights = r->teacher_weights == RT_WEIGHTS_AUTO ? RT_WEIGHTS_NATIVE : r->teacher_weights;
    RT_TRY(rt_inputs_dtypes(&base, in->student, &v->arena, e));
    RT_TRY(rt_inputs_teacher_dtypes(&teacher, in, &v->arena, e));
    if (rt_inputs_live(in)) rt_weights_dtypes(teacher, teacher, &in->teacher->config, weights);
    RT_TRY(rt_inputs_others(&others, in, weights, &v->arena, e));
    rt_step_opts o = { .B = r->micro_batch,
                       .T = r->seq_len,
                       .chunk = r->head_chunk,
                       .loss = r->loss,
                       .policy = *rt_device_policy(a->dev),
                       .student = &in->student->config,
                       .student_dtypes = r->lora.rank ? base : NULL,
                       .lora = r->lora,
                       .eval_only = true };
    rt_inputs_put_teacher(in, teacher, weights, others, &o);
    RT_TRY(put_home(a, &o, e));
    RT_TRY(rt_trainer_open(&a->trainer, a->dev, &o, &(rt_seal_opts){ 0 }, e));
    a->trainer->watch = &a->opts->watch;
    if (in->cache) a->trainer->source = rt_cache_source_of(in->cache);
    RT_TRY(rt_inputs_load(in, a->trainer, r->seed, e));
    RT_TRY(rt_eval_set_new(&a->held, in->held, r->micro_batch, r->seq_len, RT_EVAL_MOST_ROWS, e));
    RT_TRY(rt_eval_set_pick(a->held, r->eval_rows, r->seed, e));
out:
    return rc;
}

/* On the device of the run; where that does not take the models after all, another program having its memory say, on
 * the CPU. */
static int open_somewhere(rt_audit *v, rt_again *a, rt_err *e)
{
    int rc;
    rt_err fault = { 0 };
    RT_TRY(rt_audit_device_open(v, a, e));
    rc = open_trainer(v, a, &fault);
    bool device = rc == RT_NOMEM || rc == RT_DEVICE || rc == RT_NO_BACKEND || rc == RT_UNSUPPORTED;
    if (rc >= 0) return rc;
    if (!device || !rt_audit_device_chosen(a)) RT_TRY(rt_fail(e, rc, "%s", fault.text));
    rt_eval_set_free(a->held);
    rt_trainer_free(a->trainer);
    a->held = NULL;
    a->trainer = NULL;
    RT_TRY(rt_audit_device_leave(v, a, &fault, e));
    RT_TRY(open_trainer(v, a, e));
out:
    return rc;
}

/* How far a measure may be from the one that was recorded: sums in another order on the same backend, which 16-bit
 * activations round to their neighbours here and there; other arithmetic on another one. */
static double tolerance(const rt_audit *v, const rt_again *a)
{
    bool narrow = rt_dtype_bytes(rt_device_policy(a->dev)->act, 1) < sizeof(float);
    return !rt_audit_same_backend(v, a) ? 1e-2 : narrow ? 1e-3 : 1e-4;
}

static bool near(double a, double b, double t) { return fabs(a - b) <= t * (1 + fabs(a)) || (isnan(a) && isnan(b)); }
static bool near_measure(rt_measure a, rt_measure b, double t)
{
    return near(a.mean, b.mean, t) && near(a.error, b.error, t) &&
           (!(a.paired > 0 && b.paired > 0) || near(a.paired, b.paired, t));
}

/* The teacher's measures only where the teacher is there. Agreement counts whole positions: one that is on the edge may
 * fall to either side. */
static void compare_evals(rt_audit *v, const rt_again *a, const char *name, const rt_eval_result *was,
                          const rt_eval_result *now)
{
    double t = tolerance(v, a), one = 2.0 / (double)(was->positions ? was->positions : 1);
    const char *what = was->positions != now->positions || was->documents != now->documents ? "the held-out rows"
                       : !near_measure(was->ce, now->ce, t)                                 ? "cross-entropy"
                                                                                            : NULL;
    if (!what && now->teacher)
        what = !near_measure(was->kl, now->kl, t)                       ? "KL(teacher||student)"
               : !near_measure(was->div, now->div, t)                   ? "the divergence"
               : !near_measure(was->agreement, now->agreement, t + one) ? "agreement"
               : !near_measure(was->teacher_ce, now->teacher_ce, t)     ? "the teacher's cross-entropy"
                                                                        : NULL;
    if (what)
        rt_audit_tell(v, name, RT_CHECK_FAIL, "%s differs when measured again: CE %.6f recorded, %.6f now%s", what,
                      was->ce.mean, now->ce.mean, now->teacher ? ", with the teacher's measures" : "");
    else if (was->teacher && !now->teacher)
        rt_audit_tell(v, name, RT_CHECK_PASS,
                      "CE %.6f, measured again %.6f; KL and agreement not checked, since the teacher is not there",
                      was->ce.mean, now->ce.mean);
    else if (now->teacher)
        rt_audit_tell(v, name, RT_CHECK_PASS, "CE %.6f, KL %.6f, agreement %.4f; measured again %.6f, %.6f, %.4f",
                      was->ce.mean, was->kl.mean, was->agreement.mean, now->ce.mean, now->kl.mean, now->agreement.mean);
    else
        rt_audit_tell(v, name, RT_CHECK_PASS, "CE %.6f, measured again %.6f", was->ce.mean, now->ce.mean);
}

/* The losses of the first training step, of which the weights are known: the student's own. */
static int check_first_step(rt_audit *v, rt_again *a, rt_err *e)
{
    int rc = RT_OK;
    size_t B = (size_t)a->first.micro_batch * a->first.seq_len;
    /* A cache that keeps lists has those of training for training, not to be looked at. */
    bool lists = rt_source_lists(&a->trainer->plan->opts.source);
    rt_source *source = a->trainer->source;
    double sums[3] = { 0 }, count = 0, t = tolerance(v, a);
    float *values = rt_alloc_zero(3 * B * sizeof *values, 64);
    const rt_logged_step *log = &v->steps[0];
    if (!values) RT_TRY(rt_no_memory(e, "a batch"));
    if (lists) a->trainer->source = NULL;
    for (uint32_t m = 0; m < a->first.micro_count; m++) {
        const rt_batch *b = &a->first.micro[m];
        RT_TRY(rt_watch_step(&a->opts->watch, "computing the first step again", m, a->first.micro_count, e));
        RT_TRY(rt_trainer_eval(a->trainer, b, &(rt_eval_out){ .ce = values, .div = values + B, .top1 = values + 2 * B },
                               e));
        for (size_t i = 0; i < B; i++) {
            if (b->target[i] < 0) continue;
            count++;
            for (int k = 0; k < 3; k++) sums[k] += (double)values[(size_t)k * B + i];
        }
    }
    bool same = near(log->ce, sums[0] / count, t) &&
                (!a->teacher || lists ||
                 (near(log->div, sums[1] / count, t) && near(log->agreement, sums[2] / count, t + 2 / count)));
    rt_audit_tell(v, "first step", same ? RT_CHECK_PASS : RT_CHECK_FAIL,
                  "CE %.6f in the log, %.6f when measured again over all %.0f trained positions of its rows%s", log->ce,
                  sums[0] / count, count,
                  lists ? "; the divergence from a cache of id lists is not measured again" : "");
out:
    a->trainer->source = source;
    rt_free(values);
    return rc;
}

static int measure_before(rt_audit *v, rt_again *a, rt_err *why)
{
    int rc;
    rt_eval_result now;
    RT_TRY(rt_evaluate(a->trainer, a->held, &now, NULL, why));
    (void)rt_eval_set_rebase(a->held);
    compare_evals(v, a, "held-out before", &v->facts.first, &now);
    if (v->step_count && v->same_from == 0) RT_TRY(check_first_step(v, a, why));
out:
    return rc;
}

/* The log against the files. That rounding undid what was trained is a claim of the run: where its verdict says so, and
 * the files measure what was recorded, nothing was altered. */
static void check_logged(rt_audit *v, const rt_again *a, const rt_eval_result *now)
{
    static const char claim[] = "F-OUTPUT-RELOAD-001";
    double t = rt_reload_tolerance(v->facts.saved_dtype) + tolerance(v, a), was = v->facts.logged.ce.mean;
    bool same = near(was, now->ce.mean, t),
         known = !same && near_measure(v->facts.saved.ce, now->ce, tolerance(v, a)) && rt_audit_claim_failed(v, claim);
    if (known) {
        v->result->claim = claim;
        v->result->claimed++;
    }
    rt_audit_tell(v, "held-out logged", same ? RT_CHECK_PASS : RT_CHECK_FAIL,
                  "the log has CE %.6f for step %" PRIu32 ", whose weights, rounded to %s, are in the files%s", was,
                  v->facts.saved_step, rt_dtype_name(v->facts.saved_dtype),
                  known ? ": they measure what the run says they do, and its verdict says that this is too far" : "");
}

static int measure_after(rt_audit *v, rt_again *a, rt_err *why)
{
    int rc;
    rt_eval_result now;
    if (a->resolved.lora.rank)
        RT_TRY(rt_output_reload(v->root, a->trainer, &(rt_output){ .lora = a->resolved.lora }, why));
    else
        RT_TRY(rt_load_weights(a->trainer->x, a->trainer->plan->student, a->output, a->trainer->watch, why));
    RT_TRY(rt_evaluate(a->trainer, a->held, &now, NULL, why));
    compare_evals(v, a, "held-out after", &v->facts.saved, &now);
    if (v->facts.has_logged) check_logged(v, a, &now);
out:
    return rc;
}

/* Both measurements; a fault in one of them is that check's. */
static int measure(rt_audit *v, rt_again *a, rt_err *e)
{
    rt_err why = { 0 };
    int rc = RT_OK;
    if (!a->data || !a->output || (a->recorded.lora.rank && !a->student)) {
        rt_audit_tell(v, "held-out after", RT_CHECK_NOT_CHECKED, "%s",
                      !a->data     ? "it needs the data"
                      : !a->output ? "it needs the output"
                                   : "it needs the student");
        return RT_OK;
    }
    rc = open_somewhere(v, a, &why);
    if (rc >= 0 && a->student) rc = measure_before(v, a, &why);
    if (rc >= 0 && !a->student)
        rt_audit_tell(v, "held-out before", RT_CHECK_NOT_CHECKED, "it needs the student that the run began with");
    if (rc >= 0) rc = measure_after(v, a, &why);
    if (fatal(rc)) return rt_fail(e, rc, "%s", why.text);
    if (rc < 0) rt_audit_tell(v, "held-out after", RT_CHECK_FAIL, "%s", why.text);
    return RT_OK;
}

int rt_audit_models(rt_audit *v, rt_again *a, rt_err *e)
{
    int rc;
    RT_TRY(check_models(v, a, e));
    RT_TRY(check_data_files(v, a, e));
    RT_TRY(check_data(v, a, e));
    rt_watch_tell(&a->opts->watch, "comparing the weights", 0, 0);
    RT_TRY(rt_audit_weights(v, a, e));
    RT_TRY(measure(v, a, e));
out:
    return rc;
}
