/* hub.c - finds org/name in the local Hugging Face cache, as the huggingface_hub package lays it out.
 *
 * Owns: where the cache is, which snapshot a revision means. Nothing is ever downloaded: what is missing is named, with
 * the command that gets it. */
#include "format/model_file.h"

#include <ctype.h>
#include <string.h>

enum { MAX_REPO = 200, MAX_REVISION = 200, REF_BYTES = 512 };

static bool set(const char *s) { return s && *s; }

/* The folder of all repositories; *how is the variable that it comes from. */
static int cache_folder(char **out, const char **how, rt_arena *a, const rt_hub_env *env, rt_err *e)
{
    const char *base, *below;
    static const rt_hub_env nothing;
    if (!env) env = &nothing;
    if (set(env->hf_hub_cache)) {
        base = env->hf_hub_cache, below = "", *how = "HF_HUB_CACHE";
    } else if (set(env->hf_home)) {
        base = env->hf_home, below = "/hub", *how = "HF_HOME";
    } else if (set(env->xdg_cache_home)) {
        base = env->xdg_cache_home, below = "/huggingface/hub", *how = "XDG_CACHE_HOME";
    } else if (set(env->home)) {
        base = env->home, below = "/.cache/huggingface/hub", *how = "HOME";
    } else {
        return rt_fail(e, RT_NOT_FOUND,
                       "the local Hugging Face cache has no place: none of HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME and "
                       "HOME is set");
    }
    bool tilde = base[0] == '~' && (base[1] == '/' || base[1] == 0) && set(env->home);
    *out = rt_arena_printf(a, "%s%s%s", tilde ? env->home : "", tilde ? base + 1 : base, below);
    return *out ? RT_OK : rt_no_memory(e, "a path in the local cache");
}

/* A part of a repository's name, as the hub allows it. */
static bool good_part(const char *s, size_t n)
{
    if (n == 0 || s[0] == '.' || s[0] == '-') return false;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)s[i]) && s[i] != '.' && s[i] != '_' && s[i] != '-') return false;
        if (i > 0 && (s[i] == '.' || s[i] == '-') && s[i - 1] == s[i]) return false;
    }
    return true;
}

/* A revision becomes a path: no part of it may lead elsewhere. */
static bool good_revision(const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n > MAX_REVISION || s[0] == '/' || s[n - 1] == '/') return false;
    for (size_t i = 0; i < n; i++) {
        if (iscntrl((unsigned char)s[i])) return false;
        if (s[i] == '.' && s[i + 1] == '.') return false;
    }
    return true;
}

/* A repository's name, with or without a revision; old ones have no organisation. */
static bool good_name(const char *repo)
{
    size_t n = strcspn(repo, "@");
    const char *slash = memchr(repo, '/', n);
    size_t first = slash ? (size_t)(slash - repo) : n;
    if (n > MAX_REPO || !good_part(repo, first) || (slash && !good_part(slash + 1, n - first - 1))) return false;
    return repo[n] == 0 || good_revision(repo + n + 1);
}

bool rt_hub_name_is(const char *spec)
{
    const char *slash = strchr(spec, '/');
    return slash && slash < spec + strcspn(spec, "@") && good_name(spec);
}

int rt_model_said_hub(rt_model_file *m, rt_span said, rt_err *e)
{
    static const char site[] = "https://huggingface.co/";
    size_t skip = said.len >= sizeof site - 1 && memcmp(said.data, site, sizeof site - 1) == 0 ? sizeof site - 1 : 0;
    if (m->hub || !said.len || said.len > MAX_REPO + sizeof site || memchr(said.data, 0, said.len) ||
        memchr(said.data, '@', said.len))
        return RT_OK;
    const char *name = rt_arena_printf(&m->arena, "%.*s", (int)(said.len - skip), said.data + skip);
    if (!name) return rt_no_memory(e, m->path);
    if (rt_hub_name_is(name)) m->hub = name;
    return RT_OK;
}

/* "org/name@revision" into the name of its folder, "models--org--name", and the revision, null when none is given. */
static int repo_folder(char **out, const char **revision, rt_arena *a, const char *kind, const char *repo, rt_err *e)
{
    size_t n = strcspn(repo, "@");
    const char *slash = memchr(repo, '/', n);
    int first = (int)(slash ? (size_t)(slash - repo) : n);
    *revision = repo[n] == '@' ? repo + n + 1 : NULL;
    if (!good_name(repo))
        return rt_fail(e, RT_INVALID,
                       "'%.200s' is not the name of a Hugging Face repository: it is org/name, or org/name@revision",
                       repo);
    *out = slash ? rt_arena_printf(a, "%s--%.*s--%.*s", kind, first, repo, (int)n - first - 1, slash + 1)
                 : rt_arena_printf(a, "%s--%.*s", kind, first, repo);
    return *out ? RT_OK : rt_no_memory(e, "a path in the local cache");
}

/* The commit that refs/NAME holds, in *commit; null when there is no such file. */
static int read_ref(const char **commit, rt_arena *a, const char *folder, const char *name, rt_err *e)
{
    int rc = RT_OK;
    rt_str text = { 0 };
    char *path = rt_arena_printf(a, "%s/refs/%s", folder, name);
    *commit = NULL;
    if (!path) return rt_no_memory(e, "a path in the local cache");
    if (!rt_path_exists(path) || rt_path_is_dir(path)) return RT_OK;
    RT_TRY(rt_file_read(path, REF_BYTES, &text, e));
    while (text.len > 0 && isspace((unsigned char)text.data[text.len - 1])) text.data[--text.len] = 0;
    if (text.len == 0 || strlen(text.data) != text.len || !good_part(text.data, text.len)) {
        rc = rt_fail(e, RT_FORMAT, "%s does not hold the name of a snapshot; remove it and download again", path);
        goto out;
    }
    *commit = rt_arena_strdup(a, text.data);
    if (!*commit) rc = rt_no_memory(e, "a path in the local cache");
out:
    rt_str_free(&text);
    return rc;
}

static int snapshot_at(char **out, rt_arena *a, const char *folder, const char *commit, rt_err *e)
{
    *out = rt_arena_printf(a, "%s/snapshots/%s", folder, commit);
    return *out ? RT_OK : rt_no_memory(e, "a path in the local cache");
}

/* Without refs: the only snapshot there is. */
static int only_snapshot(char **out, rt_arena *a, const char *folder, const char *repo, rt_err *e)
{
    int rc = RT_OK;
    char **names = NULL, *all = rt_arena_printf(a, "%s/snapshots", folder);
    uint32_t count = 0;
    rt_str list = { 0 };
    if (!all) return rt_no_memory(e, "a path in the local cache");
    if (rt_path_is_dir(all)) RT_TRY(rt_dir_list(&names, &count, a, all, e));
    if (count == 1) return snapshot_at(out, a, folder, names[0], e);
    for (uint32_t i = 0; i < count && i < 4; i++) rt_str_printf(&list, "%s%.48s", i ? ", " : "", names[i]);
    if (list.failed)
        rc = rt_no_memory(e, "a path in the local cache");
    else if (count == 0)
        rc = rt_fail(e, RT_NOT_FOUND, "%s is known to the local cache, but %s holds no snapshot; run: hf download %s",
                     repo, folder, repo);
    else
        rc = rt_fail(e, RT_INVALID,
                     "%s has %u snapshots in the local cache and no refs/main: say which, as in %s@%s (%s%s)", repo,
                     count, repo, names[0], list.data, count > 4 ? ", ..." : "");
out:
    rt_str_free(&list);
    return rc;
}

static const char *what(const char *kind) { return strcmp(kind, "datasets") == 0 ? " --repo-type dataset" : ""; }

int rt_hub_find(char **folder, rt_arena *a, const char *kind, const char *repo, const rt_hub_env *env, rt_err *e)
{
    int rc = RT_OK;
    char *cache, *name;
    const char *how = "", *revision, *commit;
    *folder = NULL;
    RT_TRY(repo_folder(&name, &revision, a, kind, repo, e));
    RT_TRY(cache_folder(&cache, &how, a, env, e));
    int n = (int)strcspn(repo, "@");
    char *home = rt_path_join(a, cache, name);
    if (!home) return rt_no_memory(e, "a path in the local cache");
    if (!rt_path_is_dir(home))
        return rt_fail(e, RT_NOT_FOUND,
                       "%.*s is not in the local Hugging Face cache (%s, from %s); run: hf download %.*s%s", n, repo,
                       home, how, n, repo, what(kind));
    RT_TRY(read_ref(&commit, a, home, revision ? revision : "main", e));
    if (!commit && !revision) return only_snapshot(folder, a, home, repo, e);
    /* A revision without a ref of its own is a commit. */
    RT_TRY(snapshot_at(folder, a, home, commit ? commit : revision, e));
    if (!rt_path_is_dir(*folder)) {
        rc = rt_fail(e, RT_NOT_FOUND, "%s: the snapshot %s is not in the local cache; run: hf download %.*s%s%s%s",
                     repo, *folder, n, repo, what(kind), revision ? " --revision " : "", revision ? revision : "");
        *folder = NULL;
    }
out:
    return rc;
}
