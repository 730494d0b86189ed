/* teacher_memory.c - see teacher_memory.h. */
#include "teacher/teacher_memory.h"

#include <string.h>

static const char *const names[] = { "device", "host", "disk", "auto" };

const char *rt_teacher_memory_name(rt_teacher_memory m) { return names[m]; }

bool rt_teacher_memory_parse(const char *name, rt_teacher_memory *out)
{
    for (int i = 0; i <= RT_TEACHER_AUTO; i++)
        if (strcmp(name, names[i]) == 0) return *out = (rt_teacher_memory)i, true;
    return false;
}

rt_class rt_teacher_memory_class(rt_teacher_memory m)
{
    return m == RT_TEACHER_HOST ? RT_CLASS_HOST : m == RT_TEACHER_DISK ? RT_CLASS_DISK : RT_CLASS_PARAM;
}

void rt_memory_say(rt_str *out, const rt_memory_choice *c)
{
    static const char *const where[] = { "on the device", "in the host's memory", "on disk" };
    char a[32], b[32], h[32], l[32];
    if (c->why == RT_MEMORY_UNSAID || c->memory == RT_TEACHER_DEVICE) return;
    rt_str_printf(out, "the teacher's layers are %s", where[c->memory]);
    if (c->why == RT_MEMORY_ASKED) {
        rt_str_append(out, ", as the settings say");
        return;
    }
    rt_str_printf(out, ": on the device the run would take at least %s, and the limit is %s",
                  rt_format_bytes(a, c->device), rt_format_bytes(b, c->limit));
    if (c->why == RT_MEMORY_NO_HOST && c->host)
        rt_str_printf(out, "; in host memory they would take %s, and %s is available", rt_format_bytes(h, c->host),
                      rt_format_bytes(l, c->host_limit));
}
