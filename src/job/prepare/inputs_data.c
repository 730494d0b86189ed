/* inputs_data.c - the data of a run: text tokenized into shards once, shards opened, rows over them. See inputs.h. */
#include "job/prepare/inputs.h"

#include "base/json.h"
#include "text/data/data_held.h"

#include <stdio.h>
#include <string.h>

/* One of a run's own is made by the run again, from the text; a person names it in no command. */
static const char *remedy(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    bool own = strncmp(path, folder, n) == 0 && path[n] == '/';
    return own ? "remove the tokens and the .json of their name beside them, and resume: the text is tokenized again"
               : NULL;
}

static int open_shard(rt_inputs *in, const char *path, const char *folder, const rt_settings *s, rt_err *e)
{
    rt_hash128 id;
    rt_shard_expect x = { .vocab = (uint32_t)s->vocab, .remedy = remedy(path, folder) };
    if (in->text) {
        id = rt_tokenizer_hash(in->text->tokenizer);
        x.tokenizer = &id;
        if (!x.vocab) x.vocab = rt_tokenizer_size(in->text->tokenizer);
    }
    if (!rt_grow((void **)&in->shards, &in->shard_cap, in->shard_count + 1, sizeof *in->shards))
        return rt_no_memory(e, "token shards");
    int rc = rt_shard_open(&in->shards[in->shard_count], path, &x, e);
    if (rc < 0) return rc;
    return rt_shard_check(in->shards[in->shard_count++], e);
}

/* ---- tokenizing ---- */

typedef struct sink {
    rt_inputs *in;
    rt_shard_writer *w;
    const rt_inputs_opts *o;
    const rt_data_source *source;
    uint64_t total;
} sink;

/* Whether its files are told apart: of more, as of a text per file, nobody asks for each. */
static bool tells_files(const rt_data_source *s) { return s->file_count > 1 && s->file_count <= RT_PARTS_MOST; }

static int put_record(void *ctx, const rt_data_place *where, const rt_encoded *r, rt_err *e)
{
    sink *s = ctx;
    uint32_t number = tells_files(s->source) ? where->file - s->source->first_file : 0;
    return rt_shard_writer_add(s->w, r, number, where->parts, e);
}

static bool wants_stop(void *ctx)
{
    sink *s = ctx;
    return s->o->stop && s->o->stop(s->o->ctx);
}

static void tell(void *ctx, const rt_tokenize_stats *so_far)
{
    sink *s = ctx;
    if (s->o->progress) s->o->progress(s->o->ctx, "tokenizing", so_far->disk_done, s->total);
}

static void note(void *ctx, const char *text)
{
    sink *s = ctx;
    rt_note(&s->in->notes, "%s", text);
}

static void add_stats(rt_tokenize_stats *to, const rt_tokenize_stats *from)
{
    to->records += from->records;
    to->bad += from->bad;
    to->no_target += from->no_target;
    to->bytes += from->bytes;
    to->tokens += from->tokens;
    to->trained += from->trained;
    for (int i = 0; i < RT_RECORD_KINDS; i++) to->kinds[i] += from->kinds[i];
    if (!to->first_bad[0]) memcpy(to->first_bad, from->first_bad, sizeof to->first_bad);
}

/* How many bytes the paths of a source's files have in common, up to a slash: the rest does not depend on where the
 * data lies. */
static size_t common_folder(const rt_data_list *l, const rt_data_source *s)
{
    const char *first = l->files[s->first_file].path;
    size_t n = strlen(first);
    for (uint32_t i = 1; i < s->file_count; i++) {
        const char *path = l->files[s->first_file + i].path;
        size_t k = 0;
        while (k < n && path[k] == first[k]) k++;
        n = k;
    }
    while (n && first[n - 1] != '/') n--;
    return n;
}

/* Where a shard comes from: its files by their hashes, and where there are several, what the numbers of the records
 * mean. */
static int origin(char **out, const rt_data_list *l, uint32_t source, rt_err *e)
{
    const rt_data_source *s = &l->sources[source];
    json_t *files, *names = NULL, *j;
    int rc = rt_data_files_json(&files, l, source, 1, e);
    if (rc < 0) return rc;
    j = json_pack("{s:o}", "files", files);
    if (tells_files(s)) names = json_array();
    size_t common = common_folder(l, s);
    for (uint32_t i = 0; i < s->file_count && names; i++) {
        json_t *name = json_string(l->files[s->first_file + i].path + common);
        json_array_append_new(names, name ? name : json_sprintf("file %u", i + 1)); /* a path that is not UTF-8 */
    }
    bool whole = !tells_files(s) || json_array_size(names) == s->file_count;
    if (names && json_object_set(j, "sources", names) != 0) whole = false;
    *out = whole ? rt_json_dump(j, JSON_COMPACT) : NULL;
    json_decref(names);
    json_decref(j);
    return *out ? RT_OK : rt_no_memory(e, "a token shard");
}

static int tokenize_source(rt_inputs *in, const rt_data_list *l, uint32_t source, const char *path,
                           const rt_settings *s, const rt_inputs_opts *o, rt_err *e)
{
    int rc;
    sink k = { .in = in, .o = o, .source = &l->sources[source] };
    char *from = NULL;
    rt_tokenize_stats stats = { 0 };
    if (!in->text)
        return rt_fail(e, RT_INVALID, "%s is text, and neither model has a tokenizer; give token shards",
                       l->sources[source].name);
    rt_data_text text = rt_inputs_text(in, o->now);
    rt_shard_identity id = { rt_tokenizer_hash(in->text->tokenizer), rt_tokenizer_size(in->text->tokenizer) };
    bool everything = strcmp(s->loss_on, "all") == 0;
    if (!everything && strcmp(s->loss_on, "turns") != 0)
        return rt_fail(e, RT_USAGE, "--loss-on is turns or all, not '%s'", s->loss_on);
    for (uint32_t i = 0; i < l->sources[source].file_count; i++)
        k.total += l->files[l->sources[source].first_file + i].size;
    RT_TRY(rt_may_write_ask(&o->may_write, e));
    RT_TRY(rt_shard_writer_new(&k.w, path, &id, e));
    rt_tokenize_opts t = { .text = &text,
                           .loss = everything ? RT_LOSS_ALL : RT_LOSS_TURNS,
                           .skip_bad = s->skip_bad > in->stats.bad ? s->skip_bad - in->stats.bad : 0,
                           .pool = o->pool,
                           .sink = put_record,
                           .stop = wants_stop,
                           .progress = tell,
                           .note = note,
                           .ctx = &k };
    RT_TRY(rt_data_tokenize(l, source, 1, &t, &stats, e));
    add_stats(&in->stats, &stats);
    RT_TRY(origin(&from, l, source, e));
    RT_TRY(rt_may_write_ask(&o->may_write, e));
    RT_TRY(rt_shard_writer_commit(k.w, from, e));
out:
    rt_free(from);
    rt_shard_writer_free(k.w);
    return rc;
}

static bool is_tokens(const rt_data_list *l, const rt_data_source *s)
{
    rt_data_format f = l->files[s->first_file].format;
    return f == RT_DATA_SHARD || f == RT_DATA_BIN;
}

/* Source i of a list: shards as they are, or one shard below the run's folder. */
static int open_source(rt_inputs *in, const rt_data_list *l, uint32_t i, const char *kind, const rt_settings *s,
                       const rt_inputs_opts *o, rt_err *e)
{
    int rc;
    const rt_data_source *src = &l->sources[i];
    if (is_tokens(l, src)) {
        for (uint32_t k = 0; k < src->file_count; k++)
            RT_TRY(open_shard(in, l->files[src->first_file + k].path, o->folder, s, e));
        return RT_OK;
    }
    char *path = rt_arena_printf(&in->arena, "%s/%s-%02u.tokens", o->folder, kind, i);
    if (!path) RT_TRY(rt_no_memory(e, "a path"));
    if (!rt_path_exists(path)) RT_TRY(tokenize_source(in, l, i, path, s, o, e));
    RT_TRY(open_shard(in, path, o->folder, s, e));
out:
    return rc;
}

bool rt_inputs_is_name(const char *name)
{
    size_t n = strncmp(name, "train", 5) == 0 ? 5 : strncmp(name, "eval", 4) == 0 ? 4 : 0;
    unsigned source;
    int end = 0;
    if (sscanf(name, "prompt-%u.json%n", &source, &end) == 1 && end && !name[end]) return true;
    end = 0;
    if (!n) return false;
    if (strcmp(name + n, ".json") == 0) return true;
    return sscanf(name + n, "-%u.tokens%n", &source, &end) == 1 && end && !name[n + (size_t)end];
}

/* ---- what a run has tokenized: KIND.json, written when all of it is there ---- */

/* {"file": path, or the name of a file in the folder; "hash"}; null when out of memory or not UTF-8 */
static json_t *index_shard(rt_inputs *in, const rt_shard *s, const char *folder)
{
    const char *name = rt_shard_about(s)->path;
    size_t n = strlen(folder);
    bool own = strncmp(name, folder, n) == 0 && name[n] == '/';
    /* a name alone is one of the folder's */
    if (!own && !strchr(name, '/')) name = rt_arena_printf(&in->arena, "./%s", name);
    return json_pack("{s:s, s:o}", "file",
                     !name ? NULL
                     : own ? name + n + 1
                           : name,
                     "hash", rt_hash_to_json(rt_shard_about(s)->hash));
}

/* {"sources": [{"name", "weight", "hub", "shards": [{"file", "hash"}]}], "held_out": "records", "hash"} */
static int write_index(rt_inputs *in, const rt_rows_source *list, const bool *hub, uint32_t count, uint32_t first,
                       const char *path, const char *folder, rt_err *e)
{
    int rc;
    json_t *all = json_array(), *j = json_pack("{s:o, s:s}", "sources", all, "held_out", "records");
    for (uint32_t i = 0; j && i < count; i++) {
        json_t *shards = json_array();
        for (uint32_t k = 0; k < list[i].count; k++)
            json_array_append_new(shards, index_shard(in, in->shards[first++], folder));
        json_t *one = json_pack("{s:s, s:f, s:b, s:o}", "name", list[i].name, "weight", list[i].weight, "hub", hub[i],
                                "shards", shards);
        if (!one || json_array_size(json_object_get(one, "shards")) != list[i].count) {
            json_decref(one);
            RT_TRY(rt_fail(e, RT_NOMEM, "no memory for %s, or a path is not UTF-8", path));
        }
        json_array_append_new(all, one);
    }
    if (!j || json_array_size(all) != count) RT_TRY(rt_no_memory(e, path));
    RT_TRY(rt_checked_json_write(path, j, NULL, e));
out:
    json_decref(j);
    return rc;
}

static int index_fault(const char *path, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s cannot be read, or was altered; remove it to tokenize again", path);
}

/* A shard of the index, which must be the one that it was when the index was written. */
static int open_indexed(rt_inputs *in, const json_t *j, const char *path, const rt_settings *s, const rt_inputs_opts *o,
                        rt_err *e)
{
    int rc;
    rt_hash128 hash;
    bool old = json_is_string(j);
    const char *file = json_string_value(old ? j : json_object_get(j, "file"));
    if (!file || (!old && !rt_hash_from_json(json_object_get(j, "hash"), &hash))) RT_TRY(index_fault(path, e));
    if (!strchr(file, '/') && !(file = rt_path_join(&in->arena, o->folder, file))) RT_TRY(rt_no_memory(e, "a path"));
    RT_TRY(open_shard(in, file, o->folder, s, e));
    if (!old && !rt_hash_equal(hash, rt_shard_about(in->shards[in->shard_count - 1])->hash))
        RT_TRY(rt_fail(e, RT_INVALID,
                       "%s is not the token shard that the run began with (its hash is another); put that one back, or "
                       "begin a new run",
                       file));
out:
    return rc;
}

/* The shards that an earlier session of the run wrote down, whatever became of the text. Before hashes were written
 * it was the array of the sources alone; before --held-out was exact, nothing was said of it. */
static int open_index(rt_inputs *in, const char *path, const rt_settings *s, const rt_inputs_opts *o,
                      rt_rows_source **sources, bool **hub, uint32_t *count, rt_err *e)
{
    int rc;
    json_t *j = NULL;
    bool checked = false;
    rc = rt_checked_json_read_old(&j, &checked, path, e);
    if (rc == RT_FORMAT || (rc >= 0 && !checked && !json_is_array(j))) rc = index_fault(path, e);
    RT_TRY(rc);
    const json_t *all = checked ? json_object_get(j, "sources") : j;
    if (!checked)
        rt_note(&in->notes, "%s was written before it was hashed: that it is as it was is not checked",
                rt_path_base(path));
    in->by_share = !json_object_get(j, "held_out");
    *count = (uint32_t)json_array_size(all);
    *sources = rt_arena_alloc(&in->arena, *count * sizeof **sources + 1);
    *hub = rt_arena_alloc(&in->arena, *count * sizeof **hub + 1);
    if (!*count || !*sources || !*hub) RT_TRY(index_fault(path, e));
    for (uint32_t i = 0; i < *count; i++) {
        const json_t *one = json_array_get(all, i), *shards = json_object_get(one, "shards");
        const char *name = json_string_value(json_object_get(one, "name"));
        uint32_t first = in->shard_count;
        (*hub)[i] = json_is_true(json_object_get(one, "hub"));
        for (size_t k = 0; k < json_array_size(shards); k++)
            RT_TRY(open_indexed(in, json_array_get(shards, k), path, s, o, e));
        (*sources)[i] = (rt_rows_source){ .name = rt_arena_strdup(&in->arena, name ? name : "data"),
                                          .count = in->shard_count - first,
                                          .weight = json_number_value(json_object_get(one, "weight")) };
        if (!(*sources)[i].name) RT_TRY(rt_no_memory(e, "the data's sources"));
    }
out:
    json_decref(j);
    return rc;
}

/* The shards of a list, as sources of rows. shards grows while they are opened, so pointers are set afterwards. */
static int open_list(rt_inputs *in, const rt_setting_list *specs, const char *kind, const rt_settings *s,
                     const rt_inputs_opts *o, rt_rows_source **sources, bool **hub, uint32_t *count, rt_err *e)
{
    int rc;
    rt_data_list l = { 0 };
    uint32_t before = in->shard_count;
    const char *path = rt_arena_printf(&in->arena, "%s/%s.json", o->folder, kind);
    if (!path) RT_TRY(rt_no_memory(e, "a path"));
    if (rt_path_exists(path)) return open_index(in, path, s, o, sources, hub, count, e);
    bool eval = o->measure || strcmp(kind, "eval") == 0;
    RT_TRY((eval ? rt_data_list_open_eval : rt_data_list_open)(&l, specs->text, specs->count, o->env, e));
    for (uint32_t i = 0; i < l.note_count; i++) rt_note(&in->notes, "%s", l.notes[i]);
    rt_rows_source *list = rt_arena_alloc(&in->arena, l.source_count * sizeof *list);
    *hub = rt_arena_alloc(&in->arena, l.source_count * sizeof **hub + 1);
    if (!list || !*hub) RT_TRY(rt_no_memory(e, "the data's sources"));
    for (uint32_t i = 0; i < l.source_count; i++) {
        uint32_t first = in->shard_count;
        (*hub)[i] = !rt_path_exists(l.sources[i].name) && rt_hub_name_is(l.sources[i].name);
        RT_TRY(open_source(in, &l, i, kind, s, o, e));
        list[i] = (rt_rows_source){ .name = rt_arena_strdup(&in->arena, l.sources[i].name),
                                    .count = in->shard_count - first,
                                    .weight = l.sources[i].weight };
        if (!list[i].name) RT_TRY(rt_no_memory(e, "the data's sources"));
    }
    *sources = list;
    *count = l.source_count;
    RT_TRY(rt_may_write_ask(&o->may_write, e));
    RT_TRY(write_index(in, list, *hub, *count, before, path, o->folder, e));
out:
    rt_data_list_close(&l);
    return rc;
}

int rt_inputs_data(rt_inputs *in, const rt_settings *s, const rt_inputs_opts *o, rt_err *e)
{
    int rc;
    uint32_t at = 0;
    if (!s->data.count) RT_TRY(rt_fail(e, RT_USAGE, "--data is missing; give the text to train on"));
    RT_TRY(open_list(in, &s->data, "train", s, o, &in->train_sources, &in->train_hub, &in->train_count, e));
    if (s->eval_data.count)
        RT_TRY(open_list(in, &s->eval_data, "eval", s, o, &in->eval_sources, &in->eval_hub, &in->eval_count, e));
    for (uint32_t i = 0; i < in->train_count; at += in->train_sources[i++].count)
        in->train_sources[i].shards = in->shards + at;
    for (uint32_t i = 0; i < in->eval_count; at += in->eval_sources[i++].count)
        in->eval_sources[i].shards = in->shards + at;
    if (in->teachers.count) RT_TRY(rt_inputs_assign(in, e));
    RT_TRY(rt_inputs_prompts(in, o, e));
    if (in->stats.bad)
        rt_note(&in->notes, "%llu records at fault were skipped; the first: %s", (unsigned long long)in->stats.bad,
                in->stats.first_bad);
    if (in->stats.kinds[RT_RECORD_COMPLETION] && in->template_from)
        rt_note(&in->notes, "prompt and completion are trained as plain text, without the chat template of the model; "
                            "--columns question=prompt,answer=completion makes turns of them");
out:
    return rc;
}

static void add_counts(rt_rows_count *to, const rt_rows_count *from)
{
    to->records += from->records;
    to->split += from->split;
    to->cut += from->cut;
    to->too_long += from->too_long;
    to->no_target += from->no_target;
    to->targets += from->targets;
    to->lost += from->lost;
    to->held += from->held;
    to->copies += from->copies;
    to->units += from->units;
    to->tokens += from->tokens;
    to->trained += from->trained;
    to->per_epoch += from->per_epoch;
}

/* The sources, each record once: what is measured of a held-out part is not a matter of weights. */
static int unweighted(rt_inputs *in, rt_rows_source **out, rt_err *e)
{
    rt_rows_source *list = rt_arena_alloc(&in->arena, in->train_count * sizeof *list);
    if (!list) return rt_no_memory(e, "the data's sources");
    for (uint32_t i = 0; i < in->train_count; i++) {
        list[i] = in->train_sources[i];
        list[i].weight = 1;
    }
    *out = list;
    return RT_OK;
}

rt_rows_count rt_inputs_count(const rt_rows *r, uint32_t sources)
{
    rt_rows_count all = { 0 };
    for (uint32_t i = 0; i < sources; i++) add_counts(&all, rt_rows_of_source(r, i));
    return all;
}

static int32_t pad_of(const rt_inputs *in)
{
    int64_t pad = in->text ? in->text->pad >= 0 ? in->text->pad : in->text->eos >= 0 ? in->text->eos : 0 : 0;
    return (int32_t)pad;
}

int rt_inputs_rows_once(rt_rows **out, rt_inputs *in, const rt_settings *s, const rt_resolved *r, bool held, rt_err *e)
{
    int rc;
    rt_rows_source *from;
    bool file = in->eval_count > 0;
    rt_rows_opts o = { .seq_len = r->seq_len,
                       .seed = r->seed,
                       .in_order = true,
                       .held_out = in->chosen ? (double)rt_held_count(in->chosen) : r->held_out,
                       .held = in->chosen,
                       .side = file   ? RT_SIDE_ALL
                               : held ? RT_SIDE_HELD
                                      : RT_SIDE_TRAIN,
                       .epochs = 1,
                       .allow_drop = s->allow_drop,
                       .pad = pad_of(in) };
    if (file && held) {
        o.held_out = 0;
        return rt_rows_open(out, in->eval_sources, in->eval_count, &o, e);
    }
    RT_TRY(unweighted(in, &from, e));
    RT_TRY(rt_rows_open(out, from, in->train_count, &o, e));
out:
    return rc;
}

/* Of the rows that a run trains on, without an end, or of those that it holds out; once it is known which these are. */
static rt_rows_opts run_opts(const rt_inputs *in, const rt_settings *s, const rt_resolved *r, bool held)
{
    const bool file = in->eval_count > 0;
    return (rt_rows_opts){ .seq_len = r->seq_len,
                           .seed = r->seed,
                           .in_order = held,
                           .held_out = in->chosen     ? (double)rt_held_count(in->chosen)
                                       : file && held ? 0
                                                      : r->held_out,
                           .held = in->chosen,
                           .side = file   ? RT_SIDE_ALL
                                   : held ? RT_SIDE_HELD
                                          : RT_SIDE_TRAIN,
                           .epochs = held,
                           .allow_drop = s->allow_drop,
                           .pad = pad_of(in) };
}

int rt_inputs_rows_again(rt_rows **out, rt_inputs *in, const rt_settings *s, const rt_resolved *r, bool held, rt_err *e)
{
    int rc;
    const rt_rows_opts o = run_opts(in, s, r, held);
    rt_rows_source *from = in->train_sources;
    if (held && in->eval_count) return rt_rows_open(out, in->eval_sources, in->eval_count, &o, e);
    if (held && !in->by_share) RT_TRY(unweighted(in, &from, e));
    RT_TRY(rt_rows_open(out, from, in->train_count, &o, e));
out:
    return rc;
}

/* Settles what of the training data is held out. */
static int choose_held(rt_inputs *in, const rt_settings *s, const rt_resolved *r, rt_err *e)
{
    int rc;
    rt_rows_opts by = run_opts(in, s, r, false);
    by.seed = r->held_seed;
    if (in->by_share || in->eval_count) return RT_OK;
    RT_TRY(rt_held_choose(&in->chosen, in->train_sources, in->train_count, &by, r->held_records, r->held_out, e));
out:
    return rc;
}

int rt_inputs_rows(rt_inputs *in, const rt_settings *s, const rt_resolved *r, rt_run_facts *f, rt_err *e)
{
    int rc;
    RT_TRY(choose_held(in, s, r, e));
    RT_TRY(rt_inputs_rows_again(&in->train, in, s, r, false, e));
    in->counted = rt_inputs_count(in->train, in->train_count);
    RT_TRY(rt_inputs_rows_again(&in->held, in, s, r, true, e));
    in->eval_counted = rt_inputs_count(in->held, in->eval_count);
    if (rt_rows_is_stretch(in->train))
        rt_note(&in->notes, "the data is one text: its last %g %% are held out (--held-out P%%, or --eval-data FILE)",
                100.0 * r->held_out);
    RT_TRY(rt_rows_in_epoch(in->train, 0, &f->rows_per_epoch, e));
out:
    return rc;
}
