/* data_shard_set.c - one shard, or a directory of them, that appear together or not at all. */
#include "text/data/data_shard.h"

#include "base/file.h"

#define SUFFIX ".rtok"
#define DEFAULT_TOKENS (1ull << 28)

struct rt_shard_set {
    rt_arena arena;
    const char *path;
    char *temp; /* the directory before it has its name; null: one file */
    rt_shard_identity id;
    uint64_t max_tokens;
    rt_shard_writer *now;
    rt_shard_writer **full; /* not committed yet: what they came from is only known at the end */
    uint32_t full_count, full_cap;
};

static int open_next(rt_shard_set *s, rt_err *e)
{
    const char *path = s->path;
    if (s->temp) {
        char *name = rt_arena_printf(&s->arena, "shard-%05u" SUFFIX, s->full_count);
        path = name ? rt_path_join(&s->arena, s->temp, name) : NULL;
        if (!path) return rt_no_memory(e, "token shards");
    }
    return rt_shard_writer_new(&s->now, path, &s->id, e);
}

int rt_shard_set_new(rt_shard_set **out, const char *path, const rt_shard_identity *id, uint64_t max_tokens, rt_err *e)
{
    int rc;
    rt_shard_set *s = rt_alloc_zero(sizeof *s, 64);
    *out = NULL;
    if (!s) return rt_no_memory(e, "token shards");
    s->id = *id;
    s->max_tokens = max_tokens ? max_tokens : DEFAULT_TOKENS;
    s->path = rt_arena_strdup(&s->arena, path);
    if (!s->path) RT_TRY(rt_no_memory(e, "token shards"));
    if (!rt_path_ends(path, SUFFIX)) RT_TRY(rt_dir_temp(&s->temp, &s->arena, path, e));
    RT_TRY(open_next(s, e));
    *out = s;
    return RT_OK;
out:
    rt_shard_set_free(s);
    return rc;
}

void rt_shard_set_new_only(rt_shard_set *s)
{
    if (!s->temp) rt_shard_writer_new_only(s->now);
}

void rt_shard_set_free(rt_shard_set *s)
{
    if (!s) return;
    rt_shard_writer_free(s->now);
    for (uint32_t i = 0; i < s->full_count; i++) rt_shard_writer_free(s->full[i]);
    rt_free(s->full);
    if (s->temp) rt_dir_remove(s->temp);
    rt_arena_free(&s->arena);
    rt_free(s);
}

int rt_shard_set_add(rt_shard_set *s, const rt_encoded *r, uint32_t source, unsigned parts, rt_err *e)
{
    int rc;
    if (s->temp && (parts & RT_PART_FIRST) && rt_shard_writer_tokens(s->now) >= s->max_tokens) {
        if (!rt_grow((void **)&s->full, &s->full_cap, s->full_count + 1, sizeof(rt_shard_writer *)))
            return rt_no_memory(e, "token shards");
        RT_TRY(rt_shard_writer_rest(s->now, e));
        s->full[s->full_count++] = s->now;
        s->now = NULL;
        RT_TRY(open_next(s, e));
    }
    rc = rt_shard_writer_add(s->now, r, source, parts, e);
out:
    return rc;
}

int rt_shard_set_commit(rt_shard_set *s, const char *text, uint32_t *shards, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < s->full_count; i++) RT_TRY(rt_shard_writer_commit(s->full[i], text, e));
    RT_TRY(rt_shard_writer_commit(s->now, text, e));
    *shards = s->full_count + 1;
    if (s->temp) {
        RT_TRY(rt_dir_commit(s->temp, s->path, e));
        s->temp = NULL;
    }
out:
    return rc;
}
