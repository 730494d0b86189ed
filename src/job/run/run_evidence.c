/* run_evidence.c - the evidence that a run leaves: manifest.json when it begins, completed when it ends, and
 * verdict.json.
 *
 * Owns: gathering the facts while the run has them in memory. What they mean is falsifiers.c; reading them again is
 * evidence/audit.h. */
#include "job/run/run_internal.h"

#include "base/json.h"
#include "base/sys.h"
#include "job/prepare/identity.h"
#include "job/run/moved.h"

#include <stdio.h>
#include <string.h>

/* ---- what goes in ---- */

/* Put into j under a name; takes the reference. */
static int put(json_t *j, const char *key, json_t *value, rt_err *e)
{
    return json_object_set_new(j, key, value) == 0 ? RT_OK : rt_no_memory(e, "the evidence of a run");
}

/* Takes the reference. */
static int put_model(json_t *j, const char *who, json_t *identity, rt_hash128 *values, rt_err *e)
{
    (void)rt_hash_from_json(json_object_get(identity, "content_hash"), values);
    return put(j, who, identity, e);
}

/* Models, tokenizer, template, data: by their hashes. */
static int put_inputs(rt_run *r, json_t *j, rt_err *e)
{
    int rc;
    const rt_inputs *in = r->in;
    rt_evidence *v = r->evidence;
    uint64_t models = 1 + in->teachers.count;
    json_t *identity;
    RT_TRY(rt_watch_step(&r->watch, "hashing the models", 0, models, e));
    RT_TRY(rt_identity_new(&identity, in->student, r->pool, e));
    RT_TRY(put_model(j, "student", identity, &v->student_hash, e));
    if (in->teacher) {
        RT_TRY(rt_watch_step(&r->watch, "hashing the models", 1, models, e));
        RT_TRY(rt_inputs_teacher_identity(&identity, in, r->pool, e));
        RT_TRY(put_model(j, "teacher", identity, &v->teacher_hash, e));
        RT_TRY(rt_inputs_others_identity(&identity, in, r->pool, e));
        if (identity) RT_TRY(put(j, RT_MANIFEST_OTHERS, identity, e));
        rt_manifest_suspect(j, v);
    }
    if (in->text)
        RT_TRY(put(j, "tokenizer",
                   json_pack("{s:s, s:o, s:I}", "of", in->text == in->student_text ? "student" : "teacher", "hash",
                             rt_hash_to_json(rt_tokenizer_hash(in->text->tokenizer)), "ids",
                             (json_int_t)rt_tokenizer_size(in->text->tokenizer)),
                   e));
    if (in->template_text.data)
        RT_TRY(put(j, "chat_template",
                   json_pack("{s:s, s:o}", "of", in->template_from ? in->template_from : "student", "hash",
                             rt_hash_to_json(rt_hash(in->template_text.data, in->template_text.len))),
                   e));
    json_t *data;
    RT_TRY(rt_inputs_to_json(&data, in, e));
    RT_TRY(put(j, "data", data, e));
out:
    return rc;
}

/* r->identity, once. */
static int identify(rt_run *r, rt_err *e)
{
    int rc = RT_OK;
    if (r->identity) return RT_OK;
    rt_json_init();
    r->evidence = rt_arena_alloc(&r->arena, sizeof *r->evidence);
    json_t *j = json_object();
    if (!j || !r->evidence) RT_TRY(rt_no_memory(e, "the evidence of a run"));
    RT_TRY(put_inputs(r, j, e));
    r->identity = j;
    j = NULL;
out:
    json_decref(j);
    return rc;
}

/* ---- what went in before ---- */

/* Refused, or with --override told. */
static int changed(rt_run *r, const char *what, const char *part, rt_err *e)
{
    const char *how = strcmp(part, "values") == 0 ? "have" : "has";
    if (!r->opts->override)
        return rt_fail(e, RT_INVALID,
                       "%s: its %s %s changed since the run began; put it back as it was, or say --override (the curve "
                       "is then another)",
                       what, part, how);
    rt_run_note(r, "%s: its %s %s changed since the run began, and --override was said", what, part, how);
    return RT_OK;
}

/* *old: the record is of a time before files were hashed; it stays true. */
static int compare_model(rt_run *r, const char *who, const json_t *was, const json_t *now, bool *old, rt_err *e)
{
    bool older = false;
    const char *part = was && now ? rt_identity_differs(was, now, &older) : NULL;
    *old = *old || older;
    return part ? changed(r, who, part, e) : RT_OK;
}

int rt_run_evidence_resume(rt_run *r, rt_err *e)
{
    static const char *const models[] = { "student", "teacher" };
    int rc = RT_OK;
    json_t *before = NULL;
    bool old = false;
    if (!rt_path_exists(r->manifest_path)) {
        rt_run_note(r, "manifest.json is not there: that the models are those that the run began with is not checked");
        return RT_OK;
    }
    rc = rt_checked_json_read(&before, r->manifest_path, e);
    if (rc == RT_FORMAT)
        RT_TRY(
            rt_fail(e, rc,
                    "%s is damaged or was altered (its hash is another); remove it to resume without a comparison of "
                    "the models with those that the run began with",
                    r->manifest_path));
    RT_TRY(rc);
    RT_TRY(identify(r, e));
    for (int i = 0; i < 2; i++)
        RT_TRY(compare_model(r, models[i], json_object_get(before, models[i]), json_object_get(r->identity, models[i]),
                             &old, e));
    const json_t *others = json_object_get(r->identity, RT_MANIFEST_OTHERS),
                 *before_others = json_object_get(before, RT_MANIFEST_OTHERS);
    for (size_t i = 0; i < json_array_size(others); i++) {
        char who[32];
        snprintf(who, sizeof who, "teacher %zu", i + 2);
        RT_TRY(compare_model(r, who, json_array_get(before_others, i), json_array_get(others, i), &old, e));
    }
    const json_t *was = json_object_get(before, "chat_template"), *now = json_object_get(r->identity, "chat_template");
    if (was && !json_equal(was, now)) RT_TRY(changed(r, "the chat template", "text", e));
    if (old)
        rt_run_note(r, "the run was begun before configurations and tokenizers were hashed: that they are as they were "
                       "is not checked");
out:
    json_decref(before);
    return rc;
}

/* Who computed, and from which step on. */
static int session_json(rt_run *r, json_t **out, const json_t *settings, rt_err *e)
{
    int rc;
    char id[RT_BUILD_ID_TEXT];
    rt_dev_info info = { 0 };
    rt_hash128 bound;
    rt_dev *d = r->opts->dev;
    rt_sys_build_id(id);
    RT_TRY(d->api->info(d, &info, e));
    RT_TRY(rt_manifest_bound_hash(settings, &bound, e));
    *out = json_pack("{s:I, s:{s:s?, s:s?, s:s?}, s:{s:s, s:s, s:s}, s:o, s:o}", "from_step",
                     (json_int_t)r->loop.state.step, "binary", "version", r->opts->version, "build", r->opts->build,
                     "build_id", *id ? id : NULL, "device", "backend", d->api->name, "name", info.name, "detail",
                     info.detail, "programs", rt_hash_to_json(r->loop.state.programs), "settings_hash",
                     rt_hash_to_json(bound));
    if (!*out) RT_TRY(rt_no_memory(e, "the evidence of a run"));
    const rt_run_device *v = r->opts->device;
    if (v && v->passed_over[0]) RT_TRY(put(*out, "passed_over", json_string(v->passed_over), e));
    if (v && v->failed) RT_TRY(put(*out, "in_place_of", json_string(v->failed), e));
out:
    return rc;
}

/* The sessions of a run that is resumed, and this one. What was written before is believed only when its checksum
 * holds. */
static int put_sessions(rt_run *r, json_t *j, const json_t *settings, rt_err *e)
{
    int rc;
    json_t *before = NULL, *one = NULL, *list = json_array(), *earlier;
    RT_TRY(put(j, "sessions", list, e));
    if (r->opts->resume && rt_path_exists(r->manifest_path) &&
        rt_checked_json_read(&before, r->manifest_path, NULL) < 0)
        rt_run_note(r, "manifest.json of the earlier sessions is damaged; it is begun anew");
    earlier = json_object_get(before, "sessions");
    for (size_t i = 0; r->loop.state.step > 0 && i < json_array_size(earlier); i++)
        if (json_array_append(list, json_array_get(earlier, i)) != 0) RT_TRY(rt_no_memory(e, "the evidence of a run"));
    RT_TRY(session_json(r, &one, settings, e));
    if (json_array_append(list, one) != 0) RT_TRY(rt_no_memory(e, "the evidence of a run"));
out:
    json_decref(before);
    json_decref(one);
    return rc;
}

int rt_run_evidence_begin(rt_run *r, rt_err *e)
{
    int rc;
    json_t *settings = NULL;
    const rt_inputs *in = r->in;
    rt_json_init();
    json_t *j = json_pack("{s:s, s:b, s:s, s:I}", "format", RT_MANIFEST_FORMAT, "finished", 0, "command",
                          in->teacher ? "distill" : "train", "seed", (json_int_t)r->resolved.seed);
    RT_TRY(identify(r, e));
    if (!j || json_object_update(j, r->identity) != 0) RT_TRY(rt_no_memory(e, "the evidence of a run"));
    RT_TRY(
        put(j, "held_out",
            json_pack("{s:I, s:I, s:I}", "records", (json_int_t)rt_eval_set_records(r->held), "rows",
                      (json_int_t)rt_eval_set_rows(r->held), "positions", (json_int_t)rt_eval_set_positions(r->held)),
            e));
    settings = rt_manifest_settings(rt_settings_to_json(r->settings), in->student->name,
                                    in->teacher ? in->teacher->name : NULL);
    if (!settings || json_object_set(j, "settings", settings) != 0) RT_TRY(rt_no_memory(e, "the evidence of a run"));
    RT_TRY(put_sessions(r, j, settings, e));
    RT_TRY(rt_run_root_keep(r, e));
    RT_TRY(rt_run_holds(r, e));
    RT_TRY(rt_checked_json_write(r->manifest_path, j, NULL, e));
out:
    json_decref(settings);
    json_decref(j);
    return rc;
}

/* ---- the end ---- */

static int read_now(void *ctx, uint32_t i, uint64_t first, uint64_t n, float *out, rt_err *e)
{
    return rt_trainer_read_part(ctx, 'w', i, first, n, out, e);
}

int rt_run_evidence_weights(rt_run *r, rt_err *e)
{
    const rt_decoder *d = r->trainer->plan->student;
    bool *trained = rt_arena_alloc(&r->arena, d->param_count * sizeof *trained);
    if (!trained) return rt_no_memory(e, "the evidence of a run");
    for (uint32_t i = 0; i < d->param_count; i++) trained[i] = d->params[i].grad.buf != 0;
    rt_moved_opts o = { .model = d,
                        .trained = trained,
                        .before = r->in->student,
                        .seed = r->resolved.seed,
                        .weight_decay = r->resolved.weight_decay,
                        .frozen = r->trainer->plan->opts.policy.weight,
                        .after = read_now,
                        .ctx = r->trainer };
    return rt_moved_measure(&r->evidence->moved, &o, e);
}

/* The log, which must be what was written to it. */
static int take_metrics(rt_run *r, rt_err *e)
{
    rt_hash128 h;
    int rc = rt_file_hash(r->metrics_path, &h, e);
    if (rc < 0) return rc;
    if (!rt_hash_equal(h, rt_hasher_digest(r->metrics_hash)))
        return rt_fail(e, RT_FORMAT, "%s was altered by somebody else while the run wrote it", r->metrics_path);
    FILE *f = fopen(r->metrics_path, "re");
    if (!f) return rt_fail(e, RT_IO, "%s cannot be read again", r->metrics_path);
    for (json_t *j; (j = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL)); json_decref(j))
        rt_evidence_take_line(r->evidence, j);
    fclose(f);
    return RT_OK;
}

static int take_facts(rt_run *r, const rt_run_summary *s, rt_err *e)
{
    int rc;
    rt_exec_memory m;
    rt_dev_info info = { 0 };
    rt_evidence *v = r->evidence;
    rt_cursor c = rt_rows_tell(r->in->train);
    const rt_pair *p = &r->in->pair;
    const rt_decoder *d = r->trainer->plan->student;
    v->teacher = r->in->teacher != NULL;
    v->ce_weight = r->resolved.loss.ce_weight;
    v->kd_weight = rt_loss_kd_weight(&r->resolved.loss);
    v->steps = r->loop.state.step;
    v->stopped_of = s->stopped_early ? r->resolved.steps : 0;
    v->saved_step = s->saved_step;
    v->saved = s->saved;
    v->vocab_measured = p->measured;
    v->vocab_common = p->common;
    v->vocab_special = p->special_count;
    v->data = (rt_row_totals){ c.rows, c.tokens, c.trained };
    v->difference = s->difference;
    v->saved_dtype = r->resolved.save_dtype;
    rt_exec_memory_query(r->trainer->x, &m);
    RT_TRY(r->opts->dev->api->info(r->opts->dev, &info, e));
    v->planned = m.total;
    v->held = info.host ? rt_sys_process_memory() : info.taken_bytes;
    v->code = info.host ? 0 : info.module_bytes;
    v->own = info.host ? 0 : info.own_bytes;
    if (r->resolved.lora.rank)
        v->wanted_values = rt_decoder_trained(d);
    else if (!rt_config_parameters(&d->config, &v->wanted_values))
        RT_TRY(rt_fail(e, RT_INTERNAL, "a model that was trained has too many parameters to count"));
    RT_TRY(take_metrics(r, e));
out:
    return rc;
}

int rt_run_evidence_end(rt_run *r, rt_run_summary *s, rt_err *e)
{
    int rc;
    rt_hash128 h;
    rt_model_file *output = NULL;
    rt_findings *f = rt_arena_alloc(&r->arena, sizeof *f);
    json_t *j = NULL, *files;
    if (!f) RT_TRY(rt_no_memory(e, "the evidence of a run"));
    RT_TRY(rt_run_sync_logs(r, e));
    RT_TRY(rt_checked_json_read(&j, r->manifest_path, e));
    RT_TRY(take_facts(r, s, e));
    s->logged = r->evidence->logged;
    RT_TRY(rt_manifest_output(&output, r->out, r->resolved.lora.rank > 0, e));
    RT_TRY(rt_model_content_hash(output, r->pool, &h, NULL, e));
    r->evidence->output_values = rt_model_file_parameters(output);
    rt_falsify(f, r->evidence);
    RT_TRY(rt_run_holds(r, e));
    RT_TRY(rt_run_write_json(r->verdict_path, rt_findings_to_json(f), JSON_INDENT(2), e));
    json_object_del(j, "hash");
    RT_TRY(put(j, "finished", json_true(), e));
    RT_TRY(put(j, "measured", rt_evidence_to_json(r->evidence), e));
    RT_TRY(put(j, "output",
               json_pack("{s:I, s:b, s:o}", "step", (json_int_t)s->saved_step, "best", s->is_best, "content_hash",
                         rt_hash_to_json(h)),
               e));
    files = json_object();
    RT_TRY(put(j, "files", files, e));
    RT_TRY(rt_manifest_files(files, r->out, r->root, e));
    RT_TRY(rt_checked_json_write(r->manifest_path, j, &s->checksum, e));
    s->findings = f;
out:
    rt_model_file_close(output);
    json_decref(j);
    return rc;
}

int rt_run_evidence_control(rt_run *r, rt_hash128 control, rt_run_summary *s, rt_err *e)
{
    int rc;
    json_t *j = NULL;
    RT_TRY(rt_checked_json_read(&j, r->manifest_path, e));
    json_object_del(j, "hash");
    RT_TRY(put(j, "control", rt_hash_to_json(control), e));
    RT_TRY(rt_run_holds(r, e));
    RT_TRY(rt_checked_json_write(r->manifest_path, j, &s->checksum, e));
out:
    json_decref(j);
    return rc;
}
