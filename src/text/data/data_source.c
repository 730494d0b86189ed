/* data_source.c - what a user names as data, as a sorted list of files and what each holds.
 *
 * Owns: options behind a name, directories, patterns, the Hugging Face cache, which of a directory's files are data.
 * Which are of a split is data_splits.c. Reading them is for data_split.c and data_shard.c. Nothing is opened here. */
#include "text/data/data_internal.h"

#include "base/json.h"

#include <ctype.h>
#include <fnmatch.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 8, MAX_FILES = 1 << 20 };

enum { NOT_DATA = -1, MOST_LEFT = 3 };

typedef struct list {
    rt_data_list *to;
    rt_arena *a;
    uint32_t file_cap, note_cap;
    rt_data_file *files; /* grown with rt_grow, moved to the arena at the end */
    const char **notes;
    bool for_eval;   /* of a directory with splits the one to measure on is taken, not the one to train on */
    uint32_t passed; /* files of the current directory that are no data */
    const char *left[MOST_LEFT]; /* the first files of it that are left out */
    uint32_t left_count;
    rt_err *e;
} list;

/* ---- kinds of files ---- */

static const struct {
    const char *ending;
    int kind;
} endings[] = {
    { ".jsonl", RT_DATA_JSONL }, { ".ndjson", RT_DATA_JSONL },    { ".json", RT_DATA_JSON },  { ".txt", RT_DATA_TEXT },
    { ".text", RT_DATA_TEXT },   { ".md", RT_DATA_TEXT },         { ".rtok", RT_DATA_SHARD }, { ".bin", RT_DATA_BIN },
    { ".u32", RT_DATA_BIN },     { ".parquet", RT_DATA_PARQUET }, { ".csv", RT_DATA_CSV },    { ".tsv", RT_DATA_TSV },
};

/* By the name, without what says that it is compressed. */
static int kind_of(const char *path)
{
    static const char *const packed[] = { ".gz", ".zst", ".zstd", "" };
    size_t len = strlen(path);
    for (size_t p = 0; p < sizeof packed / sizeof *packed; p++) {
        if (*packed[p] && !rt_path_ends(path, packed[p])) continue;
        len -= strlen(packed[p]);
        break;
    }
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(endings[i].ending);
        if (len > n && strncasecmp(path + len - n, endings[i].ending, n) == 0) return endings[i].kind;
    }
    return NOT_DATA;
}

bool rt_data_format_of(const char *path, rt_data_format *out)
{
    int kind = kind_of(path);
    *out = (rt_data_format)(kind == NOT_DATA ? RT_DATA_TEXT : kind);
    return kind != NOT_DATA;
}

static int refuse_kind(const char *path, rt_err *e)
{
    return rt_fail(e, RT_INVALID,
                   "%s: what this file holds cannot be told from its name; known endings are .jsonl .ndjson .json .csv "
                   ".tsv .txt .md (each also with .gz or .zst), .parquet .rtok .bin .u32",
                   path);
}

/* ---- collecting ---- */

static int add_note(list *l, const char *text)
{
    if (!text || !rt_grow((void **)&l->notes, &l->note_cap, l->to->note_count + 1, sizeof *l->notes))
        return rt_no_memory(l->e, "the list of data files");
    l->notes[l->to->note_count++] = text;
    return RT_OK;
}

static int add_file(list *l, const char *path, int kind)
{
    rt_data_list *to = l->to;
    if (to->file_count == MAX_FILES) return rt_fail(l->e, RT_INVALID, "more than %d data files", MAX_FILES);
    rt_data_file f = { .path = rt_arena_strdup(l->a, path),
                       .format = kind < 0 ? RT_DATA_TEXT : (rt_data_format)kind,
                       .source = to->source_count };
    if (!f.path || !rt_grow((void **)&l->files, &l->file_cap, to->file_count + 1, sizeof *l->files))
        return rt_no_memory(l->e, "the list of data files");
    l->files[to->file_count++] = f;
    return RT_OK;
}

/* Files that lie beside data and are none. */
static bool is_beside(const char *name)
{
    static const char *const names[] = { "dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return name[0] == '.';
}

static int add_found(rt_paths *f, char *path, rt_err *e)
{
    if (!path || !rt_grow((void **)&f->paths, &f->cap, f->count + 1, sizeof *f->paths))
        return rt_no_memory(e, "the list of data files");
    f->paths[f->count++] = path;
    return RT_OK;
}

/* Whether a directory was not seen before, by whatever links it is reached. */
static int enter(list *l, rt_paths *seen, const char *dir, bool *fresh)
{
    char real[PATH_MAX];
    *fresh = true;
    if (!realpath(dir, real)) return RT_OK; /* listing it says why */
    for (uint32_t i = 0; i < seen->count; i++) *fresh = *fresh && strcmp(seen->paths[i], real) != 0;
    return *fresh ? add_found(seen, rt_arena_strdup(l->a, real), l->e) : RT_OK;
}

static void leave_out(list *l, const char *path)
{
    if (l->left_count < MOST_LEFT) l->left[l->left_count++] = path;
}

/* All data below a directory, in order of names; a link to a directory that was walked already adds nothing. */
static int walk(list *l, rt_paths *f, rt_paths *seen, const char *dir, int depth)
{
    char **names;
    uint32_t n;
    int rc;
    bool fresh;
    RT_TRY(enter(l, seen, dir, &fresh));
    if (!fresh) return RT_OK;
    RT_TRY(rt_dir_list(&names, &n, l->a, dir, l->e));
    for (uint32_t i = 0; i < n; i++) {
        if (is_beside(names[i])) continue;
        char *path = rt_path_join(l->a, dir, names[i]);
        if (!path) return rt_no_memory(l->e, "the list of data files");
        bool is_dir = rt_path_is_dir(path);
        if (!is_dir && kind_of(path) == NOT_DATA) {
            leave_out(l, path);
            l->passed++;
        } else if (!is_dir) {
            RT_TRY(add_found(f, path, l->e));
        } else if (depth < MAX_DEPTH) {
            RT_TRY(walk(l, f, seen, path, depth + 1));
        }
    }
out:
    return rc;
}

enum { NO_RANK = 4 };

/* Token shards before records before tables before plain text: a README beside records is not a record. */
static int rank_of(int kind)
{
    return kind == RT_DATA_SHARD || kind == RT_DATA_BIN    ? 0
           : kind == RT_DATA_JSONL || kind == RT_DATA_JSON ? 1
           : kind >= RT_DATA_PARQUET                       ? 2
           : kind == RT_DATA_TEXT                          ? 3
                                                           : NO_RANK;
}

/* ---- directories ---- */

/* " (README.md, b.csv and others)": files of a directory that are left out. */
static const char *left_names(list *l, size_t skip, uint32_t other)
{
    const char *text = "";
    for (uint32_t i = 0; text && i < l->left_count; i++)
        text = rt_arena_printf(l->a, "%s%s%.60s", text, i ? ", " : " (", l->left[i] + skip + (l->left[i][skip] == '/'));
    if (!text || !l->left_count) return text;
    return rt_arena_printf(l->a, "%s%s)", text, other > l->left_count ? " and others" : "");
}

/* asked: the split was named. */
static int note_left_out(list *l, const rt_paths *f, const char *dir, const char *split, bool asked, uint32_t other)
{
    char others[RT_SPLITS_TEXT] = "", taken[RT_SPLITS_TEXT] = "";
    const char *what = l->for_eval ? "to evaluate," : "of the data,";
    if (!other) return RT_OK;
    if (split) rt_split_names(f, strlen(dir), split, taken);
    if (split && !asked) rt_split_others(f, strlen(dir), split, others);
    bool several = strchr(taken, ',') != NULL;
    if (others[0])
        return add_note(l, rt_arena_printf(l->a, "%s %s: its split%s %s %s taken, left out: %s; PATH:SPLIT takes %s",
                                           what, dir, several ? "s" : "", taken, several ? "are" : "is", others,
                                           several ? "one of them" : "another"));
    const char *names = left_names(l, strlen(dir), other);
    if (!names) return rt_no_memory(l->e, "the list of data files");
    return add_note(l,
                    rt_arena_printf(l->a, "%s %s: %u other file%s left out%s%s%s", what, dir, other,
                                    other == 1 ? "" : "s", names, split ? "; taken are those of split " : "", taken));
}

/* Of a directory's files those of the best rank, of a split where one is named. */
static int choose_files(list *l, const rt_paths *all, size_t skip, const char *split, rt_paths *chosen)
{
    int rc = RT_OK, best = NO_RANK;
    for (uint32_t i = 0; i < all->count; i++) {
        int rank = rank_of(kind_of(all->paths[i]));
        if (rank < best && (!split || rt_split_in(all->paths[i] + skip, split))) best = rank;
    }
    for (uint32_t i = 0; i < all->count && best < NO_RANK; i++)
        if (rank_of(kind_of(all->paths[i])) == best && (!split || rt_split_in(all->paths[i] + skip, split)))
            RT_TRY(add_found(chosen, all->paths[i], l->e));
out:
    return rc;
}

static int add_directory(list *l, const char *dir, const char *split)
{
    rt_paths all = { 0 }, seen = { 0 }, chosen = { 0 };
    int rc;
    bool asked = split != NULL;
    uint32_t before = l->to->file_count;
    size_t skip = strlen(dir);
    l->passed = l->left_count = 0;
    RT_TRY(walk(l, &all, &seen, dir, 0));
    if (asked) RT_TRY(rt_split_choose(&all, dir, l->for_eval, &split, l->e));
    RT_TRY(choose_files(l, &all, skip, split, &chosen));
    if (chosen.count == 0)
        RT_TRY(rt_fail(l->e, RT_NOT_FOUND,
                       "%s: this directory holds no data; known endings are .jsonl .ndjson .json "
                       ".csv .tsv .txt .md (each also with .gz or .zst), .parquet .rtok .bin .u32",
                       dir));
    /* Unasked only of what is data here: a train.md beside records is no split. */
    RT_TRY(rt_split_choose(&chosen, dir, l->for_eval, &split, l->e));
    for (uint32_t i = 0, next = 0; i < all.count; i++) {
        bool data = next < chosen.count && chosen.paths[next] == all.paths[i];
        next += data;
        if (data && (!split || rt_split_in(all.paths[i] + skip, split)))
            RT_TRY(add_file(l, all.paths[i], kind_of(all.paths[i])));
        else
            leave_out(l, all.paths[i]);
    }
    RT_TRY(note_left_out(l, &all, dir, split, asked, l->passed + all.count - (l->to->file_count - before)));
out:
    rt_free(all.paths);
    rt_free(seen.paths);
    rt_free(chosen.paths);
    return rc;
}

static bool is_pattern(const char *text) { return strpbrk(text, "*?[") != NULL; }

/* The parts of a pattern from `rest`, below dir ("" for the current one). */
static int match(list *l, rt_paths *f, const char *dir, const char *rest)
{
    char **names;
    uint32_t n;
    int rc = RT_OK;
    while (*rest == '/') rest++;
    const char *slash = strchr(rest, '/');
    size_t len = slash ? (size_t)(slash - rest) : strlen(rest);
    char *part = rt_arena_printf(l->a, "%.*s", (int)len, rest);
    if (!part) return rt_no_memory(l->e, "the list of data files");
    if (!is_pattern(part)) {
        char *path = *dir ? rt_path_join(l->a, dir, part) : part;
        if (!path) return rt_no_memory(l->e, "the list of data files");
        if (!slash) return rt_path_exists(path) ? add_found(f, path, l->e) : RT_OK;
        return rt_path_is_dir(path) ? match(l, f, path, slash) : RT_OK;
    }
    RT_TRY(rt_dir_list(&names, &n, l->a, *dir ? dir : ".", l->e));
    for (uint32_t i = 0; i < n; i++) {
        if (fnmatch(part, names[i], FNM_PERIOD) != 0) continue;
        char *path = *dir ? rt_path_join(l->a, dir, names[i]) : names[i];
        if (!path) return rt_no_memory(l->e, "the list of data files");
        if (!slash)
            RT_TRY(add_found(f, path, l->e));
        else if (rt_path_is_dir(path))
            RT_TRY(match(l, f, path, slash));
    }
out:
    return rc;
}

static int add_path(list *l, const char *path, const char *split)
{
    if (rt_path_is_dir(path)) return add_directory(l, path, split);
    int kind = kind_of(path);
    if (kind == NOT_DATA) return refuse_kind(path, l->e);
    if (split) return rt_fail(l->e, RT_INVALID, "%s is a file; a split is of a directory or of org/name", path);
    return add_file(l, path, kind);
}

static int add_pattern(list *l, const char *pattern)
{
    rt_paths f = { 0 };
    int rc;
    RT_TRY(match(l, &f, pattern[0] == '/' ? "/" : "", pattern));
    if (f.count == 0) RT_TRY(rt_fail(l->e, RT_NOT_FOUND, "%s: no file matches this pattern", pattern));
    for (uint32_t i = 0; i < f.count; i++) RT_TRY(add_path(l, f.paths[i], NULL));
out:
    rt_free(f.paths);
    return rc;
}

/* ---- a spec ---- */

static int bad_option(const char *spec, const char *option, rt_err *e)
{
    return rt_fail(e, RT_INVALID,
                   "%s: '%s' is not an option of a data source; there are weight=NUMBER (above 0, at most "
                   "1000) and split=NAME",
                   spec, option);
}

/* Cuts ",weight=W" and ",split=S" off the end of name. */
static int take_options(char *name, rt_data_source *s, const char **split, rt_err *e)
{
    for (char *comma; (comma = strrchr(name, ','));) {
        char *option = comma + 1, *eq = strchr(option, '=');
        if (rt_path_exists(name) || !eq) return RT_OK; /* a comma of the name's own */
        if (strncmp(option, "weight=", 7) == 0) {
            char *end;
            double w = strtod(eq + 1, &end);
            if (end == eq + 1 || *end || !isfinite(w) || w <= 0 || w > 1000) return bad_option(s->spec, option, e);
            s->weight = w;
            s->weighted = true;
        } else if (strncmp(option, "split=", 6) == 0 && eq[1]) {
            *split = eq + 1;
        } else {
            return bad_option(s->spec, option, e);
        }
        *comma = '\0';
    }
    return RT_OK;
}

/* Cuts ":SPLIT" off the end of name, unless the colon is the name's own. */
static void take_split(char *name, const char **split)
{
    char *colon = strrchr(name, ':');
    if (*split || !colon || colon == name || !colon[1] || strchr(colon, '/') || rt_path_exists(name)) return;
    *split = colon + 1;
    *colon = '\0';
}

/* PATH:train[:10%], as the datasets library takes a part of a split; a pattern of a name is none. */
static int refuse_slice(const char *spec, rt_err *e)
{
    const char *colon = strchr(spec, ':'), *open = colon ? strchr(colon, '[') : NULL;
    if (!open || open == colon + 1 || rt_path_exists(spec) || strchr(colon, '/')) return RT_OK;
    for (const char *p = colon + 1; p < open; p++)
        if (!isalnum((unsigned char)*p) && *p != '_' && *p != '-') return RT_OK;
    return rt_fail(
        e, RT_INVALID,
        "%s: %s is a slice of a split, and a split is read whole; PATH,weight=0.1 takes a share of it in each "
        "pass, else cut the file",
        spec, colon + 1);
}

static bool looks_like_repo(const char *name)
{
    const char *slash = strchr(name, '/');
    if (!slash || slash == name || !slash[1] || strchr(slash + 1, '/')) return false;
    return name[0] != '.' && name[0] != '~' && kind_of(name) == NOT_DATA;
}

static int add_repo(list *l, const char *repo, const char *split, const rt_hub_env *env)
{
    char *folder;
    int rc = rt_hub_find(&folder, l->a, "datasets", repo, env, l->e);
    return rc < 0 ? rc : add_directory(l, folder, split);
}

static int add_source(list *l, const char *spec, const rt_hub_env *env)
{
    static const rt_hub_env nothing;
    rt_data_list *to = l->to;
    rt_data_source *s = &to->sources[to->source_count];
    char *name = rt_arena_strdup(l->a, spec);
    const char *split = NULL;
    int rc;
    *s = (rt_data_source){
        .spec = rt_arena_strdup(l->a, spec), .name = name, .weight = 1, .first_file = to->file_count
    };
    if (!name || !s->spec) return rt_no_memory(l->e, "the list of data files");
    RT_TRY(refuse_slice(spec, l->e));
    RT_TRY(take_options(name, s, &split, l->e));
    take_split(name, &split);
    if (!*name) RT_TRY(rt_fail(l->e, RT_INVALID, "'%s' names no data", spec));
    if (rt_path_exists(name))
        RT_TRY(add_path(l, name, split));
    else if (is_pattern(name))
        RT_TRY(add_pattern(l, name));
    else if (looks_like_repo(name))
        RT_TRY(add_repo(l, name, split, env ? env : &nothing));
    else
        RT_TRY(rt_fail(l->e, RT_NOT_FOUND, "%s: no such file or directory", name));
    s->file_count = to->file_count - s->first_file;
    for (uint32_t i = s->first_file; i < to->file_count; i++)
        RT_TRY(rt_file_size(l->files[i].path, &l->files[i].size, l->e));
    to->source_count++;
out:
    return rc;
}

/* Arrays that grew, into the arena that the list lives in. */
static int keep(list *l)
{
    rt_data_list *to = l->to;
    to->files = rt_arena_alloc(l->a, to->file_count * sizeof *to->files);
    to->notes = rt_arena_alloc(l->a, to->note_count * sizeof *to->notes);
    if (!to->files || !to->notes) return rt_no_memory(l->e, "the list of data files");
    if (to->file_count) memcpy(to->files, l->files, to->file_count * sizeof *to->files);
    if (to->note_count) memcpy(to->notes, l->notes, to->note_count * sizeof *to->notes);
    return RT_OK;
}

static int open_list(rt_data_list *out, const char *const *specs, uint32_t count, const rt_hub_env *env, bool for_eval,
                     rt_err *e)
{
    int rc;
    *out = (rt_data_list){ 0 };
    list l = { .to = out, .a = &out->arena, .for_eval = for_eval, .e = e };
    if (count == 0) return rt_fail(e, RT_INVALID, "no data were named");
    out->sources = rt_arena_alloc(&out->arena, count * sizeof *out->sources);
    if (!out->sources) RT_TRY(rt_no_memory(e, "the list of data files"));
    for (uint32_t i = 0; i < count; i++) RT_TRY(add_source(&l, specs[i], env));
    RT_TRY(keep(&l));
out:
    rt_free(l.files);
    rt_free(l.notes);
    if (rc < 0) rt_data_list_close(out);
    return rc;
}

int rt_data_list_open(rt_data_list *out, const char *const *specs, uint32_t count, const rt_hub_env *env, rt_err *e)
{
    return open_list(out, specs, count, env, false, e);
}

int rt_data_list_open_eval(rt_data_list *out, const char *const *specs, uint32_t count, const rt_hub_env *env,
                           rt_err *e)
{
    return open_list(out, specs, count, env, true, e);
}

void rt_data_list_close(rt_data_list *l)
{
    if (!l) return;
    rt_arena_free(&l->arena);
    *l = (rt_data_list){ 0 };
}

int rt_data_files_json(json_t **out, const rt_data_list *l, uint32_t first, uint32_t count, rt_err *e)
{
    int rc = RT_OK;
    rt_json_init();
    *out = json_array();
    for (uint32_t i = 0; i < l->file_count; i++) {
        const rt_data_file *f = &l->files[i];
        rt_hash128 h;
        if (f->source < first || f->source - first >= count) continue;
        RT_TRY(rt_file_hash(f->path, &h, e));
        if (json_array_append_new(*out, json_pack("{s:s, s:I, s:o}", "name", rt_path_base(f->path), "bytes",
                                                  (json_int_t)f->size, "hash", rt_hash_to_json(h))) != 0)
            RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the files of the data, or %s is not UTF-8", f->path));
    }
    if (!*out) RT_TRY(rt_no_memory(e, "the files of the data"));
out:
    if (rc < 0) {
        json_decref(*out);
        *out = NULL;
    }
    return rc;
}
