/* err.c - writes messages into rt_err and names statuses.
 *
 * Owns: truncation of messages, the tables made from RT_STATUS_LIST. Leaves printing to cli/. */
#include "base/err.h"

#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Both writers format into a text of their own first, because an argument may point into the message being replaced. */
typedef struct message {
    char text[sizeof(((rt_err *)0)->text)];
} message;

/* A message that was cut ends in dots, so that nobody takes it for the whole sentence. */
static void mark_cut(message *m) { memcpy(m->text + sizeof m->text - 4, "...", 4); }

int rt_fail(rt_err *e, int status, const char *format, ...)
{
    /* A failure must not read as success, whatever the caller passed. */
    if (status >= 0) status = RT_INTERNAL;
    if (!e) return status;
    message m;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(m.text, sizeof m.text, format, args);
    va_end(args);
    if (n < 0) m.text[0] = '\0';
    if (n >= (int)sizeof m.text) mark_cut(&m);
    memcpy(e->text, rt_text_tame(m.text), sizeof e->text);
    e->status = status;
    return status;
}

int rt_no_memory(rt_err *e, const char *what) { return rt_fail(e, RT_NOMEM, "no memory for %s", what); }

void rt_err_context(rt_err *e, const char *format, ...)
{
    if (!e || e->status == RT_OK) return;
    message m;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(m.text, sizeof m.text, format, args);
    va_end(args);
    if (n < 0) return;
    size_t used = strnlen(m.text, sizeof m.text - 1);
    int tail = snprintf(m.text + used, sizeof m.text - used, ": %s", e->text);
    if (n >= (int)sizeof m.text || tail >= (int)(sizeof m.text - used)) mark_cut(&m);
    memcpy(e->text, rt_text_tame(m.text), sizeof e->text);
}

const char *rt_status_name(int status)
{
    switch (status) {
#define X(name, value, text)                                                                                           \
    case value: return "RT_" #name;
        RT_STATUS_LIST(X)
#undef X
    default: return "RT_UNKNOWN";
    }
}

const char *rt_status_text(int status)
{
    switch (status) {
#define X(name, value, text)                                                                                           \
    case value: return text;
        RT_STATUS_LIST(X)
#undef X
    default: return "unknown status";
    }
}

int rt_status_exit(int status)
{
    switch (status) {
#define X(name, value, text)                                                                                           \
    case value: return -(value);
        RT_STATUS_LIST(X)
#undef X
    default: return -RT_INTERNAL;
    }
}
