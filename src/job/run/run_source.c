/* run_source.c - a teacher that is a cache: what the run takes from it, and that it has all that the run will read. */
#include "job/run/dump.h"
#include "job/run/run_internal.h"

#include "base/json.h"

#include <inttypes.h>
#include <string.h>

static const json_t *about(const rt_inputs *in) { return rt_cache_about(rt_cache_source_cache(in->cache)); }

/* ---- settings ---- */

static void put_share(rt_settings *s, const json_t *held)
{
    rt_share v = { json_number_value(json_object_get(held, "value")), json_is_true(json_object_get(held, "percent")) };
    RT_SETTINGS_PUT(s, held_out, v);
}

/* Lists are of one temperature; hidden states have none. */
static int take_temperature(rt_run *r, const bool *said, rt_err *e)
{
    rt_settings *s = r->settings;
    const double T = rt_cache_source_temperature(r->in->cache);
    if (rt_cache_source_keeps(r->in->cache)->form == RT_FORM_HIDDEN) return RT_OK;
    if (said[RT_SETTING_ID_temperature] && (float)s->temperature != (float)T)
        return rt_fail(
            e, RT_INVALID,
            "--temperature %g: the cache was made at %g; leave --temperature out, or make another with retort cache "
            "--temperature %g (one of hidden states serves any)",
            s->temperature, T, s->temperature);
    RT_SETTINGS_PUT(s, temperature, T);
    return RT_OK;
}

int rt_run_cache_settings(rt_run *r, const bool *said, rt_err *e)
{
    rt_settings *s = r->settings;
    if (!r->in->cache) return RT_OK;
    const json_t *a = about(r->in), *held = json_object_get(a, "held_out");
    uint64_t seq_len = (uint64_t)json_integer_value(json_object_get(a, "seq_len"));
    if (!s->given[RT_SETTING_ID_seq_len] && seq_len) RT_SETTINGS_PUT(s, seq_len, seq_len);
    if (!held || s->eval_data.count) return take_temperature(r, said, e);
    if (!s->given[RT_SETTING_ID_held_out]) put_share(s, held);
    if (!s->given[RT_SETTING_ID_held_seed])
        RT_SETTINGS_PUT(s, held_seed, (uint64_t)json_integer_value(json_object_get(held, "seed")));
    return take_temperature(r, said, e);
}

int rt_run_check_source(const rt_run *r, rt_err *e)
{
    if (!r->in->cache) return RT_OK;
    const rt_source_shape shape = rt_cache_source_shape(r->in->cache);
    if (rt_source_lists(&shape) && rt_dump_picks(r->settings))
        return rt_fail(e, RT_INVALID,
                       "--dump-step writes the teacher's logits down, and a cache of %s has none; give the model, or a "
                       "cache of hidden states",
                       rt_source_form_name(shape.form));
    return rt_source_check(shape.form, r->resolved.loss.divergence, r->resolved.loss.mix, e);
}

/* ---- what is missing ---- */

/* Up to `most` rows, and none of an epoch behind `last`. */
static int look_at_rows(rt_run *r, rt_rows *rows, uint64_t most, uint64_t last, rt_cache_missing *m, rt_err *e)
{
    int rc, more = 1;
    uint32_t T = r->resolved.seq_len;
    uint64_t of = r->facts.rows_per_epoch < most ? r->facts.rows_per_epoch : most;
    int32_t *all = rt_alloc_zero((size_t)4 * T * sizeof *all, 64);
    rt_row row = { .ids = all, .target = all + T, .start = all + 2 * T, .pos = all + 3 * T };
    const rt_source_rows one = { row.ids, row.start, row.target, 1, T };
    if (!all) RT_TRY(rt_no_memory(e, "a row"));
    for (uint64_t i = 0; i < most; i++) {
        if (i % 256 == 0) RT_TRY(rt_watch_step(&r->watch, "looking up positions in the cache", i % of, of, e));
        RT_TRY(more = rt_rows_next(rows, &row, e));
        if (!more || row.epoch > last) break;
        RT_TRY(rt_cache_source_look(r->in->cache, RT_USE_TRAIN, &one, m, e));
    }
    rc = RT_OK;
out:
    rt_free(all);
    return rc;
}

/* Every record once, whichever of them the run reads and how often. */
static int look_at_data(rt_run *r, rt_cache_missing *m, rt_err *e)
{
    rt_rows *rows = NULL;
    int rc = rt_inputs_rows_once(&rows, r->in, r->settings, &r->resolved, false, e);
    if (rc >= 0) rc = look_at_rows(r, rows, UINT64_MAX, UINT64_MAX, m, e);
    rt_rows_close(rows);
    return rc;
}

/* Rows of the training data from where the run stands to its last step; the cursor is put back. Where they are more
 * than a pass the data itself is looked at first: most often nothing of it is missing. */
static int look_at_training(rt_run *r, rt_cache_missing *m, rt_err *e)
{
    int rc = RT_OK;
    const rt_cursor at = rt_rows_tell(r->in->train);
    uint64_t left = (uint64_t)(r->resolved.steps - r->loop.state.step) * r->resolved.batch;
    rt_cache_missing all = { 0 };
    if (left > r->facts.rows_per_epoch) {
        RT_TRY(look_at_data(r, &all, e));
        if (!all.positions) return RT_OK;
    }
    RT_TRY(look_at_rows(r, r->in->train, left, at.epoch + rt_run_epochs_of_all(r->in), m, e));
    RT_TRY(rt_rows_seek(r->in->train, &at, e));
out:
    return rc;
}

static int look_at_held(rt_run *r, rt_cache_missing *m, rt_err *e)
{
    int rc;
    const rt_batch b = rt_eval_set_all(r->held);
    const rt_source_rows rows = { b.ids, b.start, b.target, rt_eval_set_rows(r->held), r->resolved.seq_len };
    RT_TRY(rt_cache_source_look(r->in->cache, RT_USE_HELD, &rows, m, e));
    if (r->resolved.loss.temperature != 1) RT_TRY(rt_cache_source_look(r->in->cache, RT_USE_HELD_LOSS, &rows, m, e));
out:
    return rc;
}

/* Why positions may be missing, most likely first. */
static const char *likely(const rt_run *r, char text[200])
{
    rt_hash128 was;
    const json_t *a = about(r->in);
    uint64_t seq_len = (uint64_t)json_integer_value(json_object_get(a, "seq_len"));
    rt_span t = r->in->template_text;
    bool known = rt_hash_from_json(json_object_get(a, "template"), &was);
    if (seq_len != r->resolved.seq_len)
        snprintf(text, 200, "it was made with --seq-len %" PRIu64 ", which would find all of its rows", seq_len);
    else if (known != (t.data != NULL) || (known && !rt_hash_equal(was, rt_hash(t.data, t.len))))
        snprintf(text, 200, "it was made with another chat template");
    else
        snprintf(text, 200, "it was made from other data");
    return text;
}

int rt_run_check_cache(rt_run *r, rt_err *e)
{
    int rc;
    char why[200];
    rt_cache_missing train = { 0 }, held = { 0 };
    if (!r->in->cache) return RT_OK;
    RT_TRY(look_at_training(r, &train, e));
    RT_TRY(look_at_held(r, &held, e));
    if (!train.positions && !held.positions) return RT_OK;
    if (r->opts->unasked) {
        rt_run_note(r,
                    "%" PRIu64 " of %" PRIu64 " positions to be trained and %" PRIu64 " of %" PRIu64 " held-out ones "
                    "are still to be asked of the server",
                    train.positions, train.wanted, held.positions, held.wanted);
        return RT_OK;
    }
    if (r->opts->supply) {
        rt_run_note(r,
                    "%s is asked while the run goes on: for %" PRIu64 " of %" PRIu64 " positions to be trained and "
                    "%" PRIu64 " of %" PRIu64 " held-out ones",
                    r->opts->supply->url, train.positions, train.wanted, held.positions, held.wanted);
        return rt_run_supply_begin(r, e);
    }
    RT_TRY(rt_fail(e, RT_INVALID,
                   "the cache lacks %" PRIu64 " of %" PRIu64 " training positions and %" PRIu64 " of %" PRIu64
                   " held-out ones; perhaps %s. Use the settings it was made with, or add what is missing: retort "
                   "cache --fill with the model, this data and these settings",
                   train.positions, train.wanted, held.positions, held.wanted, likely(r, why)));
out:
    return rc;
}
