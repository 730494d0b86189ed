/* fuzz_yaml.c - any bytes as a settings file: an error that says where, or settings that are written, read again and
 * still the same.
 *
 * With -DRT_FUZZ_REPLAY it has a main() of its own (replay.h). */
#include "settings/settings.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

static void require_error(int rc, const rt_err *e)
{
    require(rc == RT_FORMAT || rc == RT_INVALID || rc == RT_NOMEM);
    require(e->status == rc);
    require(rc == RT_NOMEM || (strncmp(e->text, "fuzz.yaml:", 10) == 0 && e->text[10] >= '1' && e->text[10] <= '9'));
}

static void use(const rt_settings *s)
{
    rt_settings back = { 0 };
    rt_settings_notes used;
    rt_err e = { 0 };
    rt_arena a = { 0 };
    rt_str one = { 0 }, two = { 0 }, diff = { 0 };
    require(rt_settings_to_yaml(s, &one, &e) == RT_OK);
    require(rt_settings_from_yaml(&back, one.data ? one.data : "", one.len, "fuzz.yaml", &a, &used, &e) == RT_OK);
    require(used.count == 0);
    require(memcmp(s->given, back.given, sizeof s->given) == 0);
    rt_settings_diff(s, &back, RT_BIND_FREE, &diff);
    require(diff.len == 0);
    require(rt_settings_to_yaml(&back, &two, &e) == RT_OK);
    require(one.len == two.len && (one.len == 0 || memcmp(one.data, two.data, one.len) == 0));
    rt_arena_free(&a);
    rt_str_free(&one);
    rt_str_free(&two);
    rt_str_free(&diff);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rt_settings s = { 0 };
    rt_settings_notes used;
    rt_err e = { 0 };
    rt_arena a = { 0 };
    int rc = rt_settings_from_yaml(&s, (const char *)data, size, "fuzz.yaml", &a, &used, &e);
    if (rc < 0) {
        require_error(rc, &e);
        require(rc == RT_INVALID || used.count == 0);
    } else {
        use(&s);
    }
    for (uint32_t i = 0; i < used.count; i++) require(used.items[i].line >= 1 && used.items[i].text[0]);
    rt_arena_free(&a);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
