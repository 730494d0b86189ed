/* test_hub.c - the local Hugging Face cache: where it is, refs, snapshots, revisions, and what is said when something
 * is missing. */
#include "format_case.h"

#include "format/model_file.h"

#define HASH_A "0123456789abcdef0123456789abcdef01234567"
#define HASH_B "fedcba9876543210fedcba9876543210fedcba98"

static rt_arena arena;

static int find(char **folder, const char *kind, const char *repo, rt_err *e)
{
    rt_hub_env env = { .hf_hub_cache = in_dir("cache") };
    return rt_hub_find(folder, &arena, kind, repo, &env, e);
}

static void found(const char *kind, const char *repo, const char *end)
{
    rt_err e = { 0 };
    char *folder;
    if (find(&folder, kind, repo, &e) < 0) fail_msg("%s: %s", repo, e.text);
    if (!rt_path_ends(folder, end)) fail_msg("%s is %s", repo, folder);
    assert_true(rt_path_is_dir(folder));
    rt_arena_free(&arena);
}

static void not_found(const char *repo, int status, const char *words)
{
    rt_err e = { 0 };
    char *folder;
    int rc = find(&folder, "models", repo, &e);
    if (rc != status) fail_msg("%s: status %d, not %d: %s", repo, rc, status, e.text);
    assert_null(folder);
    assert_says(&e, words);
    rt_arena_free(&arena);
}

static void refs_and_snapshots(void **state)
{
    (void)state;
    put_text("cache/models--org--a/refs/main", HASH_A);
    put_text("cache/models--org--a/refs/v1", HASH_B "\n");
    put_text("cache/models--org--a/refs/pr/3", HASH_B);
    put_text("cache/models--org--a/snapshots/" HASH_A "/config.json", "{}");
    put_text("cache/models--org--a/snapshots/" HASH_B "/config.json", "{}");
    put_text("cache/datasets--org--a/refs/main", HASH_B);
    put_text("cache/datasets--org--a/snapshots/" HASH_B "/x.jsonl", "");
    put_text("cache/models--gpt2/refs/main", HASH_A);
    put_text("cache/models--gpt2/snapshots/" HASH_A "/config.json", "{}");
    found("models", "org/a", "models--org--a/snapshots/" HASH_A);
    found("models", "org/a@v1", HASH_B);
    found("models", "org/a@pr/3", HASH_B);
    found("models", "org/a@" HASH_B, HASH_B);
    found("datasets", "org/a", "datasets--org--a/snapshots/" HASH_B);
    found("models", "gpt2", "models--gpt2/snapshots/" HASH_A);
    not_found("org/a@v2", RT_NOT_FOUND, "org/a@v2|v2|hf download org/a --revision v2");
}

static void without_refs(void **state)
{
    (void)state;
    put_text("cache/models--org--one/snapshots/" HASH_A "/config.json", "{}");
    put_text("cache/models--org--two/snapshots/" HASH_A "/config.json", "{}");
    put_text("cache/models--org--two/snapshots/" HASH_B "/config.json", "{}");
    put_text("cache/models--org--none/blobs/x", "");
    put_text("cache/models--org--gone/refs/main", HASH_A);
    put_text("cache/models--org--bad/refs/main", "../../../etc");
    put_text("cache/models--org--empty/refs/main", "\n");
    found("models", "org/one", HASH_A);
    not_found("org/two", RT_INVALID, "2 snapshots|org/two@|" HASH_A "|" HASH_B);
    not_found("org/none", RT_NOT_FOUND, "org/none|no snapshot|hf download org/none");
    not_found("org/gone", RT_NOT_FOUND, HASH_A "|hf download org/gone");
    not_found("org/bad", RT_FORMAT, "refs/main|snapshot");
    not_found("org/empty", RT_FORMAT, "refs/main");
    not_found("org/absent", RT_NOT_FOUND, "org/absent|models--org--absent|HF_HUB_CACHE|hf download org/absent");
}

static void names_that_are_none(void **state)
{
    (void)state;
    static const char *const bad[] = { "",         "/",       "org/",     "/name",      "a/b/c",     "../x",
                                       "org/..",   "org/a b", "org/a@",   "org/a@../x", "org/a@/x",  "org/a--b",
                                       "org/a..b", "-org/a",  "org/a@x/", "~/models",   "org/a@a\nb" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) not_found(bad[i], RT_INVALID, "org/name");
}

static void place_of_the_cache(void **state)
{
    (void)state;
    char top[400], home[400];
    char *folder;
    rt_err e = { 0 };
    snprintf(top, sizeof top, "%s", in_dir("place"));
    snprintf(home, sizeof home, "%s", in_dir("place/home"));
    put_text("place/hub/models--o--n/snapshots/s/x", "");
    put_text("place/huggingface/hub/models--o--n/snapshots/s/x", "");
    put_text("place/home/.cache/huggingface/hub/models--o--n/snapshots/s/x", "");
    put_text("place/home/hf/hub/models--o--n/snapshots/s/x", "");
    const struct {
        rt_hub_env env;
        const char *end;
    } want[] = { { { .hf_hub_cache = in_dir("place/hub"), .hf_home = "/nowhere", .home = "/nowhere" }, "place/hub" },
                 { { .hf_home = top, .xdg_cache_home = "/nowhere", .home = "/nowhere" }, "place/hub" },
                 { { .hf_hub_cache = "", .xdg_cache_home = top, .home = "/nowhere" }, "place/huggingface/hub" },
                 { { .home = home }, "home/.cache/huggingface/hub" },
                 { { .hf_home = "~/hf", .home = home }, "home/hf/hub" } };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        if (rt_hub_find(&folder, &arena, "models", "o/n", &want[i].env, &e) < 0) fail_msg("%s", e.text);
        char end[200];
        snprintf(end, sizeof end, "%s/models--o--n/snapshots/s", want[i].end);
        if (!rt_path_ends(folder, end)) fail_msg("case %zu is %s", i, folder);
    }
    rt_hub_env nothing = { 0 };
    assert_int_equal(rt_hub_find(&folder, &arena, "models", "o/n", &nothing, &e), RT_NOT_FOUND);
    assert_says(&e, "HF_HUB_CACHE|HF_HOME|HOME");
    assert_int_equal(rt_hub_find(&folder, &arena, "models", "o/n", NULL, &e), RT_NOT_FOUND);
    rt_hub_env elsewhere = { .home = "/nowhere" };
    assert_int_equal(rt_hub_find(&folder, &arena, "datasets", "o/n", &elsewhere, &e), RT_NOT_FOUND);
    assert_says(&e, "/nowhere/.cache/huggingface/hub/datasets--o--n|hf download o/n --repo-type dataset");
    rt_arena_free(&arena);
}

static int look_up(void *ctx, rt_err *e)
{
    char *folder;
    int rc = find(&folder, "models", ctx, e);
    rt_arena_free(&arena);
    return rc;
}

static void out_of_memory(void **state)
{
    (void)state;
    put_text("cache/models--m--m/refs/main", HASH_A);
    put_text("cache/models--m--m/snapshots/" HASH_A "/config.json", "{}");
    put_text("cache/models--m--s/snapshots/" HASH_A "/config.json", "{}");
    fail_each(look_up, (void *)(uintptr_t) "m/m", 0);
    fail_each(look_up, (void *)(uintptr_t) "m/s", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refs_and_snapshots), cmocka_unit_test(without_refs),  cmocka_unit_test(names_that_are_none),
        cmocka_unit_test(place_of_the_cache), cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
