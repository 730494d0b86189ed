/* wire_teacher.c - the description of a teacher as bytes. See wire.h.
 *
 * at  type       description, 32 bytes, then: a JSON object, and the bytes of the files that it lists, in their order
 *  0  8 bytes    RTTEACH1
 *  8  u64        bytes of the object
 * 16  hash       of the object */
#include "teacher/remote/wire.h"

#include <string.h>

enum { HEADER = 32, LONGEST_NAME = 100 };
static const char magic[8] = "RTTEACH1";
static const char format_name[] = "retort teacher";

bool rt_wire_teacher_hash(const json_t *about, rt_hash128 *out)
{
    char *text = rt_json_dump(json_object_get(about, "teacher"), JSON_COMPACT | JSON_SORT_KEYS);
    if (text) *out = rt_hash(text, strlen(text));
    rt_free(text);
    return text != NULL;
}

bool rt_wire_put_teacher(json_t *about, const rt_wire_file *files, uint32_t count, rt_str *out)
{
    char h[HEADER] = { 0 };
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:o}", "name", files[i].name, "bytes",
                                              (json_int_t)files[i].bytes.len, "hash",
                                              rt_hash_to_json(rt_hash(files[i].bytes.data, files[i].bytes.len))));
    json_object_set_new(about, "format", json_string(format_name));
    json_object_set_new(about, "version", json_integer(1));
    json_object_set_new(about, "files", list);
    char *text = rt_json_dump(about, JSON_COMPACT);
    if (!text) return false;
    const rt_hash128 all = rt_hash(text, strlen(text));
    memcpy(h, magic, sizeof magic);
    rt_store_le(h + 8, strlen(text), 8);
    rt_store_le(h + 16, all.hi, 8);
    rt_store_le(h + 24, all.lo, 8);
    rt_str_append_n(out, h, sizeof h);
    rt_str_append(out, text);
    for (uint32_t i = 0; i < count; i++) rt_str_append_n(out, files[i].bytes.data, files[i].bytes.len);
    rt_free(text);
    return !out->failed;
}

static int bad(rt_err *e, const char *what)
{
    return rt_fail(e, RT_FORMAT, "its answer does not describe a teacher: %s", what);
}

/* A name that leads nowhere but into the folder that it is written to. */
static bool good_name(const char *s)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return s && *s && *s != '.' && strlen(s) <= LONGEST_NAME && strspn(s, allowed) == strlen(s);
}

static int get_files(rt_wire_teacher *t, const char *at, size_t left, rt_err *e)
{
    size_t i;
    json_t *one;
    const json_t *list = json_object_get(t->about, "files");
    if (!json_is_array(list) || json_array_size(list) > RT_WIRE_FILES) return bad(e, "it lists no files, or too many");
    json_array_foreach(list, i, one)
    {
        rt_hash128 was;
        const char *name = json_string_value(json_object_get(one, "name"));
        const json_int_t bytes = json_integer_value(json_object_get(one, "bytes"));
        if (!good_name(name)) return bad(e, "the name of a file is none");
        if (bytes < 0 || (uint64_t)bytes > left) return bad(e, "it ends within a file");
        if (!rt_hash_from_json(json_object_get(one, "hash"), &was) || !rt_hash_equal(was, rt_hash(at, (size_t)bytes)))
            return bad(e, "a file was altered on its way");
        t->file[t->count++] = (rt_wire_file){ name, { at, (size_t)bytes } };
        at += bytes;
        left -= (size_t)bytes;
    }
    return left ? bad(e, "something follows its files") : RT_OK;
}

static int get_numbers(rt_wire_teacher *t, rt_err *e)
{
    const json_int_t vocab = json_integer_value(json_object_get(t->about, "vocab")),
                     width = json_integer_value(json_object_get(t->about, "width")),
                     positions = json_integer_value(json_object_get(t->about, "positions"));
    const char *act = json_string_value(json_object_get(t->about, "act"));
    if (vocab < 1 || vocab > RT_WIRE_WIDEST || width < 1 || width > RT_WIRE_WIDEST)
        return bad(e, "its sizes are out of range");
    if (!json_is_object(json_object_get(t->about, "teacher"))) return bad(e, "it does not say which teacher it is");
    t->vocab = (uint32_t)vocab;
    t->width = (uint32_t)width;
    t->positions = positions < 0 || positions > RT_WIRE_POSITIONS ? 0 : (uint32_t)positions;
    t->act = RT_DTYPE_COUNT;
    for (int d = 0; act && d < RT_DTYPE_COUNT; d++)
        if (rt_dtype_is_float((rt_dtype)d) && strcmp(rt_dtype_name((rt_dtype)d), act) == 0) t->act = (rt_dtype)d;
    return t->act == RT_DTYPE_COUNT ? bad(e, "it does not say how it has its activations") : RT_OK;
}

int rt_wire_get_teacher(rt_wire_teacher *t, const void *data, size_t len, rt_err *e)
{
    int rc;
    const char *at = data;
    *t = (rt_wire_teacher){ 0 };
    if (len < HEADER || memcmp(at, magic, sizeof magic) != 0) return bad(e, "it does not begin with RTTEACH1");
    const uint64_t bytes = rt_load_le(at + 8, 8);
    const rt_hash128 was = { rt_load_le(at + 16, 8), rt_load_le(at + 24, 8) };
    if (bytes > len - HEADER) return bad(e, "it ends too early");
    if (!rt_hash_equal(was, rt_hash(at + HEADER, (size_t)bytes))) return bad(e, "it was altered on its way");
    t->about = rt_json_load(at + HEADER, (size_t)bytes, 0, NULL);
    const char *format = json_string_value(json_object_get(t->about, "format"));
    if (!format || strcmp(format, format_name) != 0) RT_TRY(bad(e, "it is of another format"));
    if (json_integer_value(json_object_get(t->about, "version")) != 1)
        RT_TRY(bad(e, "it is of another version of retort; use the same on both sides"));
    RT_TRY(get_numbers(t, e));
    RT_TRY(get_files(t, at + HEADER + bytes, len - HEADER - (size_t)bytes, e));
out:
    if (rc < 0) {
        json_decref(t->about);
        t->about = NULL;
    }
    return rc;
}
