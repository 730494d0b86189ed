/* test_tfevents.c - event files read back by a decoder of our own: framing, checksums, fields, order of files, faults.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/json.h"
#include "memory_case.h"
#include "report/tfevents.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int put_scalar(rt_tfevents *t, const char *tag, uint64_t step, double value, double wall_time, rt_err *e)
{
    return rt_tfevents_scalars(t, step, wall_time, &(rt_tfevents_value){ tag, value }, 1, e);
}

static char folder[64];
static rt_arena arena;

static int set_up(void **state)
{
    (void)state;
    rt_json_init();
    snprintf(folder, sizeof folder, "/tmp/retort-test-tfevents-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}
static int tear_down(void **state)
{
    (void)state;
    rt_dir_remove(folder);
    rt_arena_free(&arena);
    return 0;
}

/* ---- a reader ---- */

enum { MOST = 64 };
typedef struct event {
    double wall_time;
    uint64_t step, status; /* status: of a session log, 0 none */
    char version[32];
    uint32_t count;
    char tags[MOST][64];
    float values[MOST];
} event;

static uint64_t fixed(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}
static uint64_t varint(const uint8_t **p, const uint8_t *end)
{
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(*p < end && shift < 64);
        uint8_t b = *(*p)++;
        v |= (uint64_t)(b & 127) << shift;
        if (!(b & 128)) return v;
    }
}
/* The payload of a field with a length. */
static const uint8_t *bytes(const uint8_t **p, const uint8_t *end, uint64_t *len)
{
    *len = varint(p, end);
    assert_true(*len <= (uint64_t)(end - *p));
    const uint8_t *at = *p;
    *p += *len;
    return at;
}
static void read_value(event *v, const uint8_t *p, const uint8_t *end)
{
    uint64_t len;
    assert_true(v->count < MOST);
    assert_int_equal(varint(&p, end), 1 << 3 | 2);
    const uint8_t *tag = bytes(&p, end, &len);
    assert_true(len < 64);
    memcpy(v->tags[v->count], tag, len);
    assert_int_equal(varint(&p, end), 2 << 3 | 5);
    assert_int_equal(end - p, 4);
    uint32_t bits = (uint32_t)fixed(p, 4);
    memcpy(&v->values[v->count++], &bits, 4);
}
static void read_event(event *v, const uint8_t *p, const uint8_t *end)
{
    *v = (event){ 0 };
    while (p < end) {
        uint64_t key = varint(&p, end), len, bits;
        const uint8_t *inner;
        switch (key) {
        case 1 << 3 | 1:
            assert_true(end - p >= 8);
            bits = fixed(p, 8);
            memcpy(&v->wall_time, &bits, 8);
            p += 8;
            break;
        case 2 << 3 | 0: v->step = varint(&p, end); break;
        case 3 << 3 | 2:
            inner = bytes(&p, end, &len);
            assert_true(len < sizeof v->version);
            memcpy(v->version, inner, len);
            break;
        case 5 << 3 | 2:
            inner = bytes(&p, end, &len);
            for (const uint8_t *stop = inner + len; inner < stop;) {
                assert_int_equal(varint(&inner, stop), 1 << 3 | 2);
                const uint8_t *value = bytes(&inner, stop, &len);
                read_value(v, value, value + len);
            }
            break;
        case 7 << 3 | 2:
            inner = bytes(&p, end, &len);
            assert_int_equal(len, 2);
            assert_int_equal(inner[0], 1 << 3);
            v->status = inner[1];
            break;
        default: fail_msg("a field with key %llu", (unsigned long long)key);
        }
    }
}

/* Every record of a file, checksums checked. */
static uint32_t read_file(const char *path, event *out, uint32_t most)
{
    rt_str text = { 0 };
    uint32_t count = 0;
    assert_int_equal(rt_file_read(path, 1 << 26, &text, NULL), RT_OK);
    const uint8_t *p = (const uint8_t *)text.data, *end = p + text.len;
    while (p < end) {
        assert_true(end - p >= 16 && count < most);
        uint64_t len = fixed(p, 8);
        assert_int_equal(fixed(p + 8, 4), rt_crc32c_mask(rt_crc32c(0, p, 8)));
        assert_true(len <= (uint64_t)(end - p) - 16);
        assert_int_equal(fixed(p + 12 + len, 4), rt_crc32c_mask(rt_crc32c(0, p + 12, len)));
        read_event(&out[count++], p + 12, p + 12 + len);
        p += 16 + len;
    }
    rt_str_free(&text);
    return count;
}

static rt_tfevents *open_file(const rt_tfevents_opts *o, char **path)
{
    rt_err e = { 0 };
    rt_tfevents *t;
    if (rt_tfevents_open(&t, folder, o, &e) < 0) fail_msg("%s", e.text);
    *path = rt_arena_strdup(&arena, rt_tfevents_path(t));
    assert_non_null(*path);
    return t;
}

/* ---- tests ---- */

static void checksums(void **state)
{
    (void)state;
    uint8_t same[32];
    assert_int_equal(rt_crc32c(0, "", 0), 0);
    assert_int_equal(rt_crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(rt_crc32c(rt_crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
    /* RFC 3720, B.4 */
    memset(same, 0, sizeof same);
    assert_int_equal(rt_crc32c(0, same, 32), 0x8a9136aau);
    memset(same, 0xff, sizeof same);
    assert_int_equal(rt_crc32c(0, same, 32), 0x62a8ab43u);
    for (int i = 0; i < 32; i++) same[i] = (uint8_t)i;
    assert_int_equal(rt_crc32c(0, same, 32), 0x46dd794eu);
}

static void first_record(void **state)
{
    (void)state;
    char *path;
    rt_str text = { 0 };
    /* The twelve bytes that event files begin with everywhere, and the whole first record for the time 0. */
    static const uint8_t begin[] = { 0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22, 0x09 };
    assert_int_equal(rt_tfevents_close(open_file(&(rt_tfevents_opts){ .now = 5.5, .host = "h" }, &path), NULL), RT_OK);
    assert_int_equal(rt_file_read(path, 1 << 20, &text, NULL), RT_OK);
    assert_true(text.len > 12 + 24 + 4);
    assert_memory_equal(text.data, begin, sizeof begin);
    assert_memory_equal(text.data + 12 + 9,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15);
    assert_non_null(strstr(path, "/events.out.tfevents.0000000005.h."));
    rt_str_free(&text);
}

static void scalars(void **state)
{
    (void)state;
    char *path, tag[200];
    static event v[8];
    rt_tfevents *t = open_file(&(rt_tfevents_opts){ .now = 1000.25 }, &path);
    const rt_tfevents_value two[] = { { "train/loss", 2.5 }, { "train/lr", 1e-4 } };
    assert_int_equal(put_scalar(t, "a", 0, NAN, 1001, NULL), RT_OK);
    assert_int_equal(rt_tfevents_scalars(t, 300, 1002.5, two, 2, NULL), RT_OK);
    assert_int_equal(put_scalar(t, "b", 1ull << 40, -INFINITY, 1003, NULL), RT_OK);
    assert_int_equal(read_file(path, v, 8), 2); /* not flushed */
    assert_int_equal(rt_tfevents_flush(t, NULL), RT_OK);
    assert_int_equal(read_file(path, v, 8), 5);
    assert_string_equal(v[0].version, "brain.Event:2");
    assert_true(v[0].wall_time == 1000.25);
    assert_true(v[2].count == 1 && isnan(v[2].values[0]) && v[2].step == 0);
    assert_true(v[3].step == 300 && v[3].wall_time == 1002.5 && v[3].count == 2);
    assert_string_equal(v[3].tags[1], "train/lr");
    assert_true(v[3].values[0] == 2.5f && v[3].values[1] == 1e-4f);
    assert_true(v[4].step == 1ull << 40 && isinf(v[4].values[0]));
    /* A tag whose length takes two bytes. */
    memset(tag, 'x', 199);
    tag[199] = 0;
    assert_int_equal(put_scalar(t, tag, 1, 1, 1, NULL), RT_OK);
    assert_int_equal(rt_tfevents_close(t, NULL), RT_OK);
    rt_str text = { 0 };
    assert_int_equal(rt_file_read(path, 1 << 20, &text, NULL), RT_OK);
    assert_memory_equal(text.data + text.len - 4 - 5 - 199 - 3, "\x0a\xc7\x01", 3);
    rt_str_free(&text);
}

static void lines(void **state)
{
    (void)state;
    char *path;
    static event v[8];
    static const char *const texts[] = {
        "{\"event\":\"step\",\"step\":7,\"loss\":1.5,\"tokens\":400,\"seconds\":2.0}",
        "{\"event\":\"eval\",\"step\":7,\"ce\":[2.5,0.25],\"agreement\":[0.5,null],\"documents\":3}",
        "{\"event\":\"other\",\"step\":7}",
        "{}",
    };
    rt_tfevents *t = open_file(&(rt_tfevents_opts){ .now = 2000 }, &path);
    for (int i = 0; i < 4; i++) {
        json_t *j = json_loads(texts[i], 0, NULL);
        assert_non_null(j);
        assert_int_equal(rt_tfevents_line(t, j, 2001, NULL), RT_OK);
        json_decref(j);
    }
    assert_int_equal(rt_tfevents_close(t, NULL), RT_OK);
    assert_int_equal(read_file(path, v, 8), 4);
    assert_true(v[2].step == 7 && v[2].count == 4);
    assert_string_equal(v[2].tags[0], "train/loss");
    assert_string_equal(v[2].tags[3], "train/tokens_per_second");
    assert_true(v[2].values[3] == 200.0f);
    assert_int_equal(v[3].count, 4);
    assert_string_equal(v[3].tags[0], "held_out/ce");
    assert_string_equal(v[3].tags[1], "held_out_error/ce");
    assert_string_equal(v[3].tags[2], "held_out/agreement");
    assert_true(v[3].values[1] == 0.25f);
}

/* A resumed run in the same second: a later name, and a session start at the first step that is done again. */
static void resumed(void **state)
{
    (void)state;
    char *first, *second, *third;
    static event v[4];
    assert_int_equal(rt_tfevents_close(open_file(&(rt_tfevents_opts){ .now = 9000, .host = "z" }, &first), NULL),
                     RT_OK);
    rt_tfevents_opts again = { .now = 9000, .host = "a/b.c", .resumed = true, .keep_to = 41 };
    assert_int_equal(rt_tfevents_close(open_file(&again, &second), NULL), RT_OK);
    again.now = 8000; /* a clock that was put back */
    assert_int_equal(rt_tfevents_close(open_file(&again, &third), NULL), RT_OK);
    assert_true(strcmp(first, second) < 0 && strcmp(second, third) < 0);
    assert_non_null(strstr(second, ".a-b-c."));
    assert_int_equal(read_file(second, v, 4), 2);
    assert_true(v[1].status == 1 && v[1].step == 42);
    assert_int_equal(read_file(first, v, 4), 2);
    assert_true(v[1].status == 1 && v[1].step == 0);
}

/* More than the buffer holds is written without being asked. */
static void many(void **state)
{
    (void)state;
    char *path;
    uint64_t size = 0;
    static event v[5002];
    rt_tfevents *t = open_file(&(rt_tfevents_opts){ .now = 20000 }, &path);
    for (uint64_t i = 1; i <= 5000; i++) assert_int_equal(put_scalar(t, "t", i, (double)i, 1, NULL), RT_OK);
    assert_int_equal(rt_file_size(path, &size, NULL), RT_OK);
    assert_true(size > 64 << 10);
    assert_int_equal(rt_tfevents_close(t, NULL), RT_OK);
    assert_int_equal(read_file(path, v, 5002), 5002);
    for (uint64_t i = 1; i <= 5000; i++) assert_true(v[i + 1].step == i && v[i + 1].values[0] == (float)i);
}

/* The C library's, found before it: a system may write less than was asked for. */
static size_t most_written = SIZE_MAX;
ssize_t write(int fd, const void *data, size_t n)
{
    return syscall(SYS_write, fd, data, n < most_written ? n : most_written);
}

static void short_writes(void **state)
{
    (void)state;
    char *path;
    static event v[64];
    rt_tfevents *t = open_file(&(rt_tfevents_opts){ .now = 25000 }, &path);
    for (int i = 0; i < 10; i++) assert_int_equal(put_scalar(t, "t", 1, i, 1, NULL), RT_OK);
    most_written = 100;
    int rc = rt_tfevents_flush(t, NULL);
    most_written = SIZE_MAX;
    assert_int_equal(rc, RT_OK);
    assert_int_equal(rt_tfevents_close(t, NULL), RT_OK);
    assert_int_equal(read_file(path, v, 64), 12);
}

static void faults(void **state)
{
    (void)state;
    char *path;
    rt_err e = { 0 };
    rt_tfevents *t;
    static event v[64];
    assert_int_equal(rt_tfevents_open(&t, "/tmp/retort-there-is-no-such-folder", &(rt_tfevents_opts){ 0 }, &e),
                     RT_NOT_FOUND);
    assert_null(t);
    assert_non_null(strstr(e.text, "/tmp/retort-there-is-no-such-folder"));
    assert_int_equal(rt_tfevents_close(NULL, NULL), RT_OK);

    /* A disk that takes 100 bytes more: the fault names the file, and nothing is written twice after it. */
    t = open_file(&(rt_tfevents_opts){ .now = 30000 }, &path);
    for (int i = 0; i < 10; i++) assert_int_equal(put_scalar(t, "t", 1, i, 1, NULL), RT_OK);
    struct rlimit was, less;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    less = (struct rlimit){ 140, was.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    int rc = rt_tfevents_flush(t, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(rc, RT_IO);
    assert_non_null(strstr(e.text, path));
    assert_int_equal(rt_tfevents_close(t, NULL), RT_OK);
    assert_int_equal(read_file(path, v, 64), 12);
}

/* ---- every allocation fails in turn ---- */

static int whole_life(const char *where, rt_err *e)
{
    int rc, closed;
    rt_tfevents *t = NULL;
    char tag[64] = "a/long/tag/so/that/the/strings/must/grow";
    RT_TRY(rt_tfevents_open(&t, where, &(rt_tfevents_opts){ .now = 1, .resumed = true }, e));
    for (uint64_t i = 0; i < 40; i++) RT_TRY(put_scalar(t, tag, i, 1, 1, e));
out:
    closed = rt_tfevents_close(t, e);
    return rc < 0 ? rc : closed;
}

static void out_of_memory(void **state)
{
    (void)state;
    rt_err e = { 0 };
    char where[128];
    snprintf(where, sizeof where, "%s/oom", folder);
    assert_int_equal(rt_dir_make(where, NULL), RT_OK);
    rt_arena_free(&arena);
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    rt_allocator_set(&failing);
    uint64_t before = rt_alloc_count();
    assert_int_equal(whole_life(where, &e), RT_OK);
    uint64_t total = rt_alloc_count() - before, live = rt_alloc_live();
    assert_true(total > 5);
    for (uint64_t i = 0; i < total; i++) {
        e = (rt_err){ 0 };
        allowed = (int64_t)i;
        int rc = whole_life(where, &e);
        allowed = -1;
        if (rc != RT_NOMEM || !e.text[0]) fail_msg("allocation %d: status %d '%s'", (int)i, rc, e.text);
        assert_int_equal(rt_alloc_live(), live);
        rt_dir_remove(where); /* the same number of names each time */
        assert_int_equal(rt_dir_make(where, NULL), RT_OK);
    }
    rt_allocator_set(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums),    cmocka_unit_test(first_record), cmocka_unit_test(scalars),
        cmocka_unit_test(lines),        cmocka_unit_test(resumed),      cmocka_unit_test(many),
        cmocka_unit_test(short_writes), cmocka_unit_test(faults),       cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
