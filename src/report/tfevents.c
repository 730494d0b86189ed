/* tfevents.c - see tfevents.h. Field numbers are those of TensorFlow's event.proto and summary.proto. */
#include "report/tfevents.h"

#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "events.out.tfevents."
enum { FLUSH_BYTES = 64 << 10, LINE_VALUES = 64 };

struct rt_tfevents {
    rt_arena arena;
    int fd;
    const char *path;
    rt_str out;         /* records that are not in the file yet */
    rt_str event, part; /* of the record that is being written */
};

/* ---- protobuf ---- */

static void put_varint(rt_str *s, uint64_t v)
{
    char buf[10];
    size_t n = 0;
    do buf[n++] = (char)((v & 127) | (v > 127 ? 128 : 0));
    while ((v >>= 7) != 0);
    rt_str_append_n(s, buf, n);
}

static void put_fixed(rt_str *s, uint64_t bits, int bytes)
{
    char buf[8];
    for (int i = 0; i < bytes; i++) buf[i] = (char)(bits >> 8 * i);
    rt_str_append_n(s, buf, (size_t)bytes);
}

static void put_double(rt_str *s, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_fixed(s, bits, 8);
}

static void put_float(rt_str *s, double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    put_fixed(s, bits, 4);
}

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
static void put_key(rt_str *s, unsigned field, unsigned kind) { put_varint(s, field << 3 | kind); }

static void put_bytes(rt_str *s, unsigned field, const char *data, size_t n)
{
    put_key(s, field, BYTES);
    put_varint(s, n);
    rt_str_append_n(s, data, n);
}

/* Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log. */
static void begin_event(rt_tfevents *t, double wall_time, uint64_t step)
{
    t->event.len = 0;
    put_key(&t->event, 1, FIXED64);
    put_double(&t->event, wall_time);
    if (!step) return; /* as every writer of these files leaves out zero */
    put_key(&t->event, 2, VARINT);
    put_varint(&t->event, step);
}

static int end_event(rt_tfevents *t, rt_err *e)
{
    rt_str *s = &t->out;
    const char *data = t->event.data;
    size_t n = t->event.len, before = s->len;
    if (!t->event.failed && !t->part.failed) {
        put_fixed(s, n, 8);
        if (!s->failed) put_fixed(s, rt_crc32c_mask(rt_crc32c(0, s->data + before, 8)), 4);
        rt_str_append_n(s, data, n);
        put_fixed(s, rt_crc32c_mask(rt_crc32c(0, data, n)), 4);
    }
    if (t->event.failed || t->part.failed || s->failed) {
        /* A record is whole or not there. */
        s->len = before;
        s->failed = t->event.failed = t->part.failed = false;
        return rt_fail(e, RT_NOMEM, "no memory for a record of %s", t->path);
    }
    return s->len < FLUSH_BYTES ? RT_OK : rt_tfevents_flush(t, e);
}

/* ---- the file ---- */

/* A time later than that of every event file in the folder, and not before now. */
static int free_time(rt_tfevents *t, const char *folder, double now, uint64_t *out, rt_err *e)
{
    char **names;
    uint32_t count;
    int rc = rt_dir_list(&names, &count, &t->arena, folder, e);
    *out = now > 0 ? (uint64_t)now : 0;
    for (uint32_t i = 0; rc >= 0 && i < count; i++) {
        if (strncmp(names[i], PREFIX, sizeof PREFIX - 1) != 0) continue;
        uint64_t time = strtoull(names[i] + sizeof PREFIX - 1, NULL, 10);
        if (time >= *out && time < 9999999999u) *out = time + 1;
    }
    return rc;
}

static int create(rt_tfevents *t, const char *folder, const rt_tfevents_opts *o, rt_err *e)
{
    int rc;
    uint64_t time;
    char host[256] = "";
    if (o->host) snprintf(host, sizeof host, "%s", o->host);
    if (!o->host && gethostname(host, sizeof host - 1) != 0) host[0] = 0;
    for (char *p = host; *p; p++)
        if (*p == '/' || *p == '.') *p = '-';
    RT_TRY(free_time(t, folder, o->now, &time, e));
    char *name =
        rt_arena_printf(&t->arena, PREFIX "%010" PRIu64 ".%s.%ld", time, host[0] ? host : "localhost", (long)getpid());
    t->path = name ? rt_path_join(&t->arena, folder, name) : NULL;
    if (!t->path) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for an event file in %s", folder));
    t->fd = open(t->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (t->fd < 0) RT_TRY(rt_fail(e, RT_IO, "%s cannot be made: %s", t->path, strerror(errno)));
out:
    return rc;
}

int rt_tfevents_open(rt_tfevents **out, const char *folder, const rt_tfevents_opts *o, rt_err *e)
{
    int rc;
    rt_tfevents *t = rt_alloc_zero(sizeof *t, 16);
    *out = NULL;
    if (!t) return rt_fail(e, RT_NOMEM, "no memory for an event file in %s", folder);
    t->fd = -1;
    RT_TRY(create(t, folder, o, e));
    begin_event(t, o->now, 0);
    put_bytes(&t->event, 3, "brain.Event:2", 13);
    RT_TRY(end_event(t, e));
    begin_event(t, o->now, o->resumed ? o->keep_to + 1 : 0);
    put_bytes(&t->event, 7, "\x08\x01", 2); /* status START */
    RT_TRY(end_event(t, e));
    RT_TRY(rt_tfevents_flush(t, e));
    *out = t;
    t = NULL;
out:
    if (t) {
        if (t->fd >= 0) (void)unlink(t->path); /* without its first record it is no event file */
        t->out.len = 0;
        (void)rt_tfevents_close(t, NULL);
    }
    return rc;
}

const char *rt_tfevents_path(const rt_tfevents *t) { return t->path; }

int rt_tfevents_flush(rt_tfevents *t, rt_err *e)
{
    size_t at = 0;
    while (at < t->out.len) {
        ssize_t got = write(t->fd, t->out.data + at, t->out.len - at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            int code = errno;
            /* What is in the file is not written twice when the caller tries again. */
            memmove(t->out.data, t->out.data + at, t->out.len - at);
            t->out.len -= at;
            return rt_fail(e, RT_IO, "%s cannot be written: %s", t->path, strerror(code));
        }
        at += (size_t)got;
    }
    t->out.len = 0;
    return RT_OK;
}

int rt_tfevents_sync(rt_tfevents *t, rt_err *e)
{
    int rc = t ? rt_tfevents_flush(t, e) : RT_OK;
    if (!t || rc < 0 || fsync(t->fd) == 0 || errno == EINVAL || errno == ENOTSUP) return rc;
    return rt_fail(e, RT_IO, "%s cannot be written: %s", t->path, strerror(errno));
}

int rt_tfevents_close(rt_tfevents *t, rt_err *e)
{
    if (!t) return RT_OK;
    int rc = rt_tfevents_flush(t, e);
    if (t->fd >= 0 && close(t->fd) != 0 && rc >= 0)
        rc = rt_fail(e, RT_IO, "%s cannot be written: %s", t->path, strerror(errno));
    rt_str_free(&t->out);
    rt_str_free(&t->event);
    rt_str_free(&t->part);
    rt_arena_free(&t->arena);
    rt_free(t);
    return rc;
}

/* ---- values ---- */

int rt_tfevents_scalars(rt_tfevents *t, uint64_t step, double wall_time, const rt_tfevents_value *v, uint32_t count,
                        rt_err *e)
{
    begin_event(t, wall_time, step);
    /* Summary: 1 value, repeated; Value: 1 tag, 2 simple_value. The length goes first, so it is worked out: the key and
     * length of the tag, the tag, the key and four bytes of the value. */
    t->part.len = 0;
    for (uint32_t i = 0; i < count; i++) {
        rt_str *s = &t->part;
        size_t n = strlen(v[i].tag), prefix = 1;
        for (size_t left = n >> 7; left; left >>= 7) prefix++;
        put_key(s, 1, BYTES);
        put_varint(s, 1 + prefix + n + 5);
        put_bytes(s, 1, v[i].tag, n);
        put_key(s, 2, FIXED32);
        put_float(s, v[i].value);
    }
    put_bytes(&t->event, 5, t->part.data ? t->part.data : "", t->part.len);
    return end_event(t, e);
}

typedef struct gathered {
    rt_tfevents_value v[LINE_VALUES];
    char tags[LINE_VALUES][160];
    uint32_t count;
} gathered;

static void gather(gathered *g, const char *group, const char *name, const json_t *value)
{
    if (!json_is_number(value) || g->count == LINE_VALUES) return;
    snprintf(g->tags[g->count], sizeof g->tags[0], "%s/%s", group, name);
    g->v[g->count] = (rt_tfevents_value){ g->tags[g->count], json_number_value(value) };
    g->count++;
}

/* "held_out/forward_kl/NAME": a panel for each measure with a curve for each part. */
static void gather_parts(gathered *g, const json_t *parts)
{
    static const char *const measures[] = { "ce", "forward_kl" };
    for (size_t i = 0; i < json_array_size(parts); i++)
        for (size_t k = 0; k < sizeof measures / sizeof *measures; k++) {
            const json_t *part = json_array_get(parts, i);
            const char *name = json_string_value(json_object_get(part, "name"));
            char group[32];
            snprintf(group, sizeof group, "held_out_%s", measures[k]);
            if (name) gather(g, group, name, json_array_get(json_object_get(part, measures[k]), 0));
        }
}

int rt_tfevents_line(rt_tfevents *t, const json_t *line, double wall_time, rt_err *e)
{
    gathered g = { .count = 0 };
    const char *event = json_string_value(json_object_get(line, "event")), *name;
    const json_t *value;
    bool step = event && strcmp(event, "step") == 0;
    if (!step && (!event || strcmp(event, "eval") != 0)) return RT_OK;
    json_object_foreach((json_t *)line, name, value)
    {
        if (strcmp(name, "step") == 0) continue;
        if (step)
            gather(&g, "train", name, value);
        else if (strcmp(name, "parts") == 0)
            gather_parts(&g, value);
        else if (json_is_array(value)) {
            gather(&g, "held_out", name, json_array_get(value, 0));
            gather(&g, "held_out_error", name, json_array_get(value, 1));
        } else
            gather(&g, "held_out", name, value);
    }
    double seconds = json_number_value(json_object_get(line, "seconds")),
           tokens = json_number_value(json_object_get(line, "tokens"));
    if (step && seconds > 0 && g.count < LINE_VALUES)
        g.v[g.count++] = (rt_tfevents_value){ "train/tokens_per_second", tokens / seconds };
    json_int_t at = json_integer_value(json_object_get(line, "step"));
    return rt_tfevents_scalars(t, at > 0 ? (uint64_t)at : 0, wall_time, g.v, g.count, e);
}
