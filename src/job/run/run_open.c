/* run_open.c - opening a run: inputs, settings, programs, and where it resumes. See run.h. */
#include "job/run/run_internal.h"

#include "base/json.h"
#include "base/sys.h"
#include "job/prepare/budget.h"
#include "job/run/dump.h"
#include "job/run/run_cost.h"
#include "text/tokenizer/vocab_convert.h"
#include "train/follow.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int tell(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    const rt_run_events *v = &((const rt_run *)ctx)->events;
    if (v->progress) v->progress(v->ctx, what, done, total);
    return v->stop && v->stop(v->ctx);
}

/* Steps that are timed before the loop begins are told of by whoever times them. */
static int tell_step(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    const rt_run *r = ctx;
    const rt_run_events *v = &r->events;
    const rt_run_computing c = { r->loop.state.step + 1, r->loop.steps, (uint32_t)done, (uint32_t)total };
    (void)what;
    if (v->computing && c.steps) v->computing(v->ctx, &c);
    return rt_run_device_slow(r) || (v->stop && v->stop(v->ctx));
}

static int holds(void *ctx, rt_err *e) { return rt_run_holds(ctx, e); }

static bool same_share(rt_share a, rt_share b) { return a.value == b.value && a.percent == b.percent; }

/* Of a resumed run with other settings: what its record has as the default of what it had then is the default of what
 * it has now, unless it is given now. said: what is given. */
static void derive_again(rt_run *r, const bool *said)
{
    rt_settings *s = r->settings, *then = r->own && r->changed ? rt_arena_alloc(&r->arena, sizeof *then) : NULL;
    rt_resolved v = r->resolved;
    if (!then) return;
    *then = *r->own;
    rt_settings_forget(then, RT_SETTING_ID_warmup);
    rt_settings_forget(then, RT_SETTING_ID_eval_every);
    if (rt_settings_defaults(then, NULL) < 0 || rt_resolve_with_rows(then, &r->facts, &v, NULL) < 0) return;
    if (!said[RT_SETTING_ID_warmup] && same_share(then->warmup, r->own->warmup))
        rt_settings_forget(s, RT_SETTING_ID_warmup);
    if (!said[RT_SETTING_ID_eval_every] && same_share(then->eval_every, r->own->eval_every))
        rt_settings_forget(s, RT_SETTING_ID_eval_every);
}

/* A run that was trained before its record had --eval-rows goes on measuring all rows, and so does its control. */
static int find_age(rt_run *r, rt_err *e)
{
    int rc = RT_OK;
    char *checkpoint = NULL;
    if (r->opts->control_of) r->facts.old = r->opts->control_of->facts.old;
    if (!r->own || r->own->given[RT_SETTING_ID_eval_rows]) return RT_OK;
    RT_TRY(rt_checkpoint_newest(&checkpoint, &r->arena, r->out, e));
    r->facts.old = checkpoint != NULL;
out:
    return rc;
}

static int open_inputs(rt_run *r, const bool *said, rt_err *e)
{
    int rc;
    rt_settings *s = r->settings;
    rt_inputs_opts o = { .env = r->opts->env,
                         .pool = r->pool,
                         .folder = r->data,
                         .now = r->opts->now,
                         .stop = r->events.stop,
                         .progress = r->events.progress,
                         .ctx = r->events.ctx,
                         .may_write = { holds, r } };
    if (!s->student) RT_TRY(rt_fail(e, RT_USAGE, "--student is missing; give the model to train"));
    RT_TRY(rt_watch_step(&r->watch, "opening the models", 0, 0, e));
    RT_TRY(rt_run_find_inputs(r, e));
    RT_TRY(rt_inputs_open(&r->in, &r->found, &o, e));
    RT_TRY(rt_run_cache_settings(r, said, e));
    if (said[RT_SETTING_ID_teacher_batch] && rt_inputs_prompted(r->in))
        RT_TRY(rt_fail(e, RT_INVALID,
                       "--teacher-batch and prompt= exclude one another, since a teacher with a prompt reads rows "
                       "of its own; leave one of them out"));
    RT_TRY(rt_samples_open(&r->samples, &r->found, r->in, o.now, e));
    if (r->samples) r->samples->may_write = o.may_write;
    RT_TRY(rt_inputs_data(r->in, &r->found, &o, e));
    RT_TRY(rt_watch_step(&r->watch, "arranging the data", 0, 0, e));
    RT_TRY(rt_inputs_facts(r->in, &r->facts, e));
    RT_TRY(find_age(r, e));
    RT_TRY(rt_run_fit_begin(r, said, e));
    RT_TRY(rt_resolve_before_rows(s, &r->facts, &r->resolved, e));
    RT_TRY(rt_run_check_source(r, e));
    RT_TRY(rt_inputs_rows(r->in, s, &r->resolved, &r->facts, e));
    derive_again(r, said);
    r->asked = *s; /* --time settles the rest again when steps have been timed */
    RT_TRY(rt_resolve_with_rows(s, &r->facts, &r->resolved, e));
    if (r->facts.rows_per_epoch < r->resolved.batch)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "the data makes %" PRIu64 " rows of %u tokens, less than one --batch of %u; give more "
                       "data, or lower --batch or --seq-len",
                       r->facts.rows_per_epoch, r->resolved.seq_len, r->resolved.batch));
    RT_TRY(rt_run_check_ranks(r, e));
    for (uint32_t i = 0; i < r->in->notes.count; i++) rt_run_note(r, "%s", r->in->notes.text[i]);
    if (r->resolved.batch < RT_BATCH && !r->asked.given[RT_SETTING_ID_batch])
        rt_run_note(r, "the data makes %" PRIu64 " row%s of %u tokens, so a step takes %u of them (--batch)",
                    r->facts.rows_per_epoch, r->facts.rows_per_epoch == 1 ? "" : "s", r->resolved.seq_len,
                    r->resolved.batch);
    if (r->resolved.steps < 200)
        rt_run_note(r, "only %u step%s: %s usually needs some hundreds; --epochs or --steps asks for more",
                    r->resolved.steps, r->resolved.steps == 1 ? "" : "s",
                    s->teacher.count ? "distillation" : "training");
out:
    return rc;
}

/* A prompt that no document is read with would be none. */
static int check_prompts(rt_run *r, rt_err *e)
{
    int rc = RT_OK;
    const rt_batch all = rt_eval_set_all(r->held);
    for (uint32_t k = 0; k < r->in->teachers.count; k++) {
        uint32_t prompted, documents;
        const rt_teacher_spec *t = &r->in->teachers.list[k];
        if (!t->prompt) continue;
        RT_TRY(rt_inputs_count_prompted(r->in, k, &all, rt_eval_set_rows(r->held), r->resolved.seq_len, &prompted,
                                        &documents, e));
        if (documents && !prompted)
            RT_TRY(
                rt_fail(e, RT_INVALID,
                        "--teacher %s: none of the %u held-out documents is a conversation without a system message, "
                        "so the prompt would never be read; leave prompt= out, or remove such messages",
                        t->model, documents));
        rt_run_note(r, "--teacher %s reads %u ids of %s before %u of %u held-out documents", t->model,
                    r->in->prompts[k].put_count, rt_path_base(t->prompt), prompted, documents);
    }
out:
    return rc;
}

/* Targets that the divergence knows nothing of would be trained by CE alone; the pair check promised that there are
 * none. Rows of training are checked as they come. */
static int open_evaluation(rt_run *r, rt_err *e)
{
    int rc;
    int32_t bad;
    RT_TRY(rt_eval_set_new(&r->held, r->in->held, r->resolved.micro_batch, r->resolved.seq_len, RT_EVAL_MOST_ROWS, e));
    if (!rt_eval_set_below(r->held, rt_inputs_id_rows(r->in), &bad))
        RT_TRY(rt_fail(e, RT_INVALID,
                       "id %d is in the held-out data, and an embedding has %u rows; the data is of "
                       "another tokenizer",
                       bad, rt_inputs_id_rows(r->in)));
    if (r->in->teacher && !rt_eval_set_within(r->held, r->in->pair.mask, r->in->pair.student_rows, &bad))
        RT_TRY(rt_fail(e, RT_INVALID, "id %d is a target in the held-out data, and teacher and student do not share it",
                       bad));
    RT_TRY(check_prompts(r, e));
out:
    return rc;
}

/* Prompts are the beginnings of held-out texts, of whichever rows are then measured. */
static int pick_rows(rt_run *r, rt_err *e)
{
    int rc;
    RT_TRY(rt_samples_from_held(r->samples, r->held, e));
    RT_TRY(rt_eval_set_pick(r->held, r->resolved.eval_rows, r->resolved.seed, e));
    RT_TRY(rt_run_smoke_rows(r, e));
out:
    return rc;
}

/* generation_config.json with every id that ends a text: those of the model, and the one that ends a turn under the
 * template that was trained. Without the last a chat would never stop. */
static int generation_config(rt_run *r, rt_span from, rt_err *e)
{
    int rc = RT_OK;
    const rt_model_config *c = &r->in->student->config;
    const rt_text_source *turns =
        r->in->template_from && strcmp(r->in->template_from, "teacher") == 0 ? r->in->teacher_text : r->in->text;
    int64_t eot = turns ? turns->end_of_turn : -1;
    char *text = NULL;
    json_error_t why = { 0 };
    json_t *j = from.data ? rt_json_load(from.data, from.len, 0, &why) : json_object(), *ids = json_array();
    bool has = false, kept = ids != NULL;
    if (from.data && !json_is_object(j) && (j || json_error_code(&why) != json_error_out_of_memory))
        RT_TRY(rt_fail(e, RT_FORMAT, "the student's generation_config.json is not an object"));
    for (uint32_t i = 0; i < c->eos_count; i++) {
        kept = kept && json_array_append_new(ids, json_integer(c->eos[i])) == 0;
        has = has || c->eos[i] == eot;
    }
    if (eot >= 0 && !has) kept = kept && json_array_append_new(ids, json_integer(eot)) == 0;
    if (kept && json_array_size(ids) == 0) goto out;
    kept = kept && json_object_set(j, "eos_token_id", json_array_size(ids) == 1 ? json_array_get(ids, 0) : ids) == 0;
    text = kept ? rt_json_dump(j, JSON_INDENT(2)) : NULL;
    char *copy = text ? rt_arena_strdup(&r->arena, text) : NULL;
    if (!copy) RT_TRY(rt_no_memory(e, "generation_config.json"));
    r->text.generation_config = (rt_span){ copy, strlen(copy) };
out:
    rt_free(text);
    json_decref(j);
    json_decref(ids);
    return rc;
}

/* What an adapter calls its base, to be found again from anywhere: org/name where that is how it was found. */
static const char *base_name(rt_arena *a, const rt_model_file *m)
{
    char real[PATH_MAX];
    if (m->hub == m->name || !realpath(m->path, real)) return m->name;
    return rt_arena_strdup(a, real);
}

/* Tokenizer and template of the output. A base student often has no template; it gets the one it was trained with. */
static int prepare_output(rt_run *r, rt_err *e)
{
    int rc;
    rt_inputs *in = r->in;
    rt_model_text text = in->student->text;
    if (!text.tokenizer_json.data && !text.has_vocab && in->teacher) {
        rt_span own = text.generation_config;
        text = in->teacher->text;
        text.generation_config = own;
    }
    rt_span was = text.chat_template, now = in->template_text;
    text.template_new = now.data && (!was.data || was.len != now.len || memcmp(was.data, now.data, now.len) != 0);
    if (text.template_new) text.chat_template = now;
    r->text = text;
    /* A vocabulary of GGUF becomes the tokenizer.json that a Hugging Face directory has. */
    rc = rt_model_text_for(&r->text, &text, RT_CONTAINER_HF, in->student->config.vocab, &r->arena, NULL, e);
    if (rc == RT_UNSUPPORTED)
        rt_run_note(r, "the output gets no tokenizer.json: %s", e ? e->text : "it has no such form");
    if (rc < 0 && rc != RT_UNSUPPORTED) return rc;
    r->output = (rt_output){ .student = in->student,
                             .text = &r->text,
                             .dtype = r->resolved.save_dtype,
                             .lora = r->resolved.lora,
                             .base_name = base_name(&r->arena, in->student) };
    if (!r->output.base_name) return rt_no_memory(e, "a path");
    rc = generation_config(r, in->student->text.generation_config, e);
    if (r->opts->control_of) r->text = r->opts->control_of->text; /* the template that both were trained with */
    return rc;
}

/* What is likely not meant. */
static void warn_of_settings(const rt_run *r, const bool *said)
{
    const rt_resolved *v = &r->resolved;
    if (said[RT_SETTING_ID_lr] && v->schedule.lr > 10 * v->lr_far)
        rt_run_note(r,
                    "--lr %.3g is more than ten times the highest default, %.3g: the loss will probably diverge; leave "
                    "--lr out, or give less",
                    v->schedule.lr, v->lr_far);
    rt_str flags = { 0 };
    if (v->eval_share > RT_EVAL_MUCH)
        rt_run_note(r, "evaluations are about %.0f %% of the run's arithmetic; %s takes less", 100 * v->eval_share,
                    rt_eval_advise(&flags, v->eval_room) && flags.data ? flags.data : "a longer run");
    rt_str_free(&flags);
}

bool rt_run_plain_text(const rt_run *r)
{
    const uint64_t *n = r->in ? r->in->stats.kinds : NULL;
    return n && n[RT_RECORD_TEXT] && !n[RT_RECORD_CHAT] && !n[RT_RECORD_COMPLETION];
}

/* A model that answers in a chat forgets how, where it only continues text. */
static void warn_of_data(const rt_run *r)
{
    if (rt_run_plain_text(r) && r->in->template_from && !r->opts->control_of)
        rt_run_note(r,
                    "the data is plain text alone, and the chat format of the model is not trained; add chats to keep "
                    "it");
}

static int make_loop(rt_run *r, rt_err *e)
{
    const rt_resolved *v = &r->resolved;
    r->loop.trainer = r->trainer;
    r->loop.source = r->in->train;
    r->loop.pair = r->in->teacher ? &r->in->pair : NULL;
    r->loop.id_rows = rt_inputs_id_rows(r->in);
    r->loop.batch = v->batch;
    r->loop.micro_batch = v->micro_batch;
    r->loop.seq_len = v->seq_len;
    r->loop.seed = v->seed;
    return rt_loop_begin(&r->loop, e);
}

/* Weights from the files of the models, or from the checkpoint that the run resumes from. */
static int begin(rt_run *r, rt_err *e)
{
    int rc;
    char *path;
    rt_hash128 now;
    const rt_inputs *in = r->in;
    RT_TRY(rt_inputs_load(in, r->trainer, r->resolved.seed, e));
    RT_TRY(rt_programs_hash(r->trainer, false, &now, e));
    r->loop.state.best = NAN;
    r->loop.state.programs = now;
    if (!r->opts->resume) return rt_run_open_metrics(r, 0, e);
    RT_TRY(rt_checkpoint_newest(&path, &r->arena, r->out, e));
    if (!path && rt_run_has_root(r))
        RT_TRY(rt_fail(
            e, RT_INVALID,
            "%s has ended and its checkpoints were removed, so there is nothing to resume from; train its "
            "model further in a new run: %s",
            r->out, rt_run_further_command(&r->arena, r->out, r->settings->teacher.text, r->settings->teacher.count)));
    if (!path) {
        rt_run_note(r, "no checkpoint was written yet; the run begins anew");
        return rt_run_open_metrics(r, 0, e);
    }
    RT_TRY(rt_watch_step(&r->watch, "loading the checkpoint", 0, 0, e));
    RT_TRY(rt_checkpoint_check(path, &r->loop.state, e));
    RT_TRY(rt_run_hashes_check(r, path, e));
    RT_TRY(rt_run_evidence_resume(r, e));
    RT_TRY(rt_checkpoint_load(path, r->trainer, e));
    RT_TRY(rt_rows_seek(r->in->train, &r->loop.state.cursor, e));
    if (r->loop.state.programs.hi != now.hi || r->loop.state.programs.lo != now.lo)
        rt_run_note(
            r, "the programs are not those of the checkpoint (another machine, build or setting): the curve continues, "
               "but not to the same bits");
    r->loop.state.programs = now;
    rt_run_note(r, "resuming from %s, step %u of %u", rt_path_base(path), r->loop.state.step, r->resolved.steps);
    RT_TRY(rt_run_open_metrics(r, r->loop.state.metrics_bytes, e));
out:
    return rc;
}

static int check_fit(const rt_settings *s, const rt_run_opts *o, rt_err *e)
{
    const bool *said = s->given;
    bool chosen = said[RT_SETTING_ID_micro_batch] || said[RT_SETTING_ID_recompute] ||
                  said[RT_SETTING_ID_teacher_weights] || said[RT_SETTING_ID_teacher_memory];
    if (!o->fit || !chosen) return RT_OK;
    return rt_fail(
        e, RT_USAGE,
        "--fit chooses --micro-batch, --recompute, --teacher-weights and --teacher-memory; leave them out, or "
        "--fit");
}

int rt_run_open(rt_run **out, rt_settings *s, const rt_run_opts *o, rt_err *e)
{
    int rc;
    bool said[RT_SETTING_COUNT_ALL];
    rt_run *r = rt_alloc_zero(sizeof *r, 16);
    if (!r) RT_TRY(rt_no_memory(e, "a run"));
    r->settings = s;
    r->opts = o;
    r->smoke.opened = rt_now();
    r->evaluated = -1;
    if (o->events) r->events = *o->events;
    r->watch = (rt_watch){ tell, r };
    r->step_watch = (rt_watch){ tell_step, r };
    RT_TRY(check_fit(s, o, e));
    memcpy(said, s->given, sizeof said);
    RT_TRY(rt_run_take_folder(r, e));
    RT_TRY(o->resume ? rt_run_join_settings(r, e) : rt_run_write_settings(r, e));
    RT_TRY(rt_run_origin_write(r, e));
    RT_TRY(rt_run_supply_keep(r, e));
    if (o->resume && !r->changed) RT_TRY(rt_run_look_ended(r, e));
    if (r->ended) goto open;
    if (o->resume) RT_TRY(rt_run_root_check(r, e));
    RT_TRY(rt_run_make_folders(r, e));
    RT_TRY(rt_settings_defaults(s, e));
    RT_TRY(rt_settings_check_needs(s, said, e));
    RT_TRY(rt_pool_new(&r->pool, s->threads ? (uint32_t)s->threads : rt_cpu_count(), e));
    rc = open_inputs(r, said, e);
    rt_run_explain_missing(r, rc, e);
    RT_TRY(rc);
    warn_of_settings(r, said);
    warn_of_data(r);
    RT_TRY(open_evaluation(r, e));
    RT_TRY(pick_rows(r, e));
    RT_TRY(prepare_output(r, e));
    RT_TRY(rt_run_choices_read(r, e));
    if (!o->resume) RT_TRY(rt_run_check_cache(r, e));
    RT_TRY(rt_watch_step(&r->watch, "preparing the programs", 0, 0, e));
    RT_TRY(rt_run_fit(r, e));
    RT_TRY(rt_run_seal(r, e));
    rt_run_tell_plain(r);
    if (!o->resume) RT_TRY(rt_run_write_settings(r, e));
    r->begun = true;
    RT_TRY(rt_run_choices_keep(r, e));
    RT_TRY(make_loop(r, e));
    if (!o->dry) RT_TRY(begin(r, e));
    if (o->resume) RT_TRY(rt_run_check_cache(r, e));
    r->smoke.whole = r->loop.state.step == 0;
    if (!o->dry) RT_TRY(rt_run_write_plan(r, e));
    /* What was changed is written when the run is known to continue with it. */
    if (o->resume) RT_TRY(rt_run_write_settings(r, e));
    if (r->events.ready) r->events.ready(r->events.ctx, r);
open:
    *out = r;
    r = NULL;
out:
    if (r) rc = rt_run_failed(r, rc, e);
    rt_run_close(r);
    return rc;
}

void rt_run_close(rt_run *r)
{
    if (!r) return;
    rt_run_supply_end(r);
    rt_run_copy_end(r);
    rt_run_close_metrics(r);
    rt_samples_close(r->samples);
    rt_eval_set_free(r->held);
    rt_trainer_free(r->trainer);
    rt_inputs_close(r->in);
    rt_pool_free(r->pool);
    rt_loop_free(&r->loop);
    rt_dump_free(r->dump);
    json_decref(r->identity);
    json_decref(r->best_files);
    json_decref(r->earlier_logs);
    json_decref(r->root);
    rt_hasher_free(r->metrics_hash);
    rt_run_leave_folder(r);
    rt_arena_free(&r->arena);
    rt_free(r);
}

void rt_run_abandon(rt_run *r)
{
    rt_run_copy_end(r);
    rt_lock_release(r->lock);
}

const rt_inputs *rt_run_inputs(const rt_run *r) { return r->in; }
const rt_resolved *rt_run_resolved(const rt_run *r) { return &r->resolved; }
const rt_run_facts *rt_run_known(const rt_run *r) { return &r->facts; }
const rt_trainer *rt_run_trainer(const rt_run *r) { return r->trainer; }
const rt_fit *rt_run_fitted(const rt_run *r) { return &r->fit; }
const rt_progress_state *rt_run_state(const rt_run *r) { return &r->loop.state; }
uint32_t rt_run_held_rows(const rt_run *r) { return r->smoke.rows ? r->smoke.rows : rt_eval_set_rows(r->held); }
uint32_t rt_run_held_of(const rt_run *r) { return rt_eval_set_of(r->held); }
const rt_eval_set *rt_run_held(const rt_run *r) { return r->held; }
const char *rt_run_checkpoints(const rt_run *r) { return r->checkpoints; }
