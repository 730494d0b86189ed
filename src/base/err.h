/* err.h - the status codes of the project and the message that travels with one.
 *
 * Owns: the list of statuses (and so of exit codes), `rt_err`, `RT_TRY`.
 * A fallible function returns int: RT_OK or a negative status. The message is written where the fault is known, into
 * an rt_err that the caller owns; a null rt_err is allowed. Library code never prints and never exits. */
#ifndef RT_BASE_ERR_H
#define RT_BASE_ERR_H

/* name, value (the process exit code is its negative), what it means to a person */
#define RT_STATUS_LIST(X)                                                                                              \
    X(OK, 0, "ok")                                                                                                     \
    X(INTERNAL, -1, "internal error")                                                                                  \
    X(USAGE, -2, "usage")                                                                                              \
    X(NOT_FOUND, -3, "not found")                                                                                      \
    X(FORMAT, -4, "bad file format")                                                                                   \
    X(INVALID, -5, "invalid request")                                                                                  \
    X(UNSUPPORTED, -6, "unsupported")                                                                                  \
    X(IO, -7, "input/output")                                                                                          \
    X(DEVICE, -8, "device failure")                                                                                    \
    X(NO_BACKEND, -9, "backend not available")                                                                         \
    X(NETWORK, -10, "network")                                                                                         \
    X(NONFINITE, -12, "non-finite")                                                                                    \
    X(NOMEM, -13, "out of memory")                                                                                     \
    X(INTERRUPTED, -130, "interrupted")

typedef enum rt_status {
#define X(name, value, text) RT_##name = (value),
    RT_STATUS_LIST(X)
#undef X
} rt_status;

typedef struct rt_err {
    int status;     /* RT_OK until something failed */
    char text[500]; /* one sentence: what, where, what to do next; no trailing newline */
} rt_err;

/* Writes status and message into e (which may be null) and returns status, so that `return rt_fail(...)` reads well. */
int rt_fail(rt_err *e, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* RT_NOMEM, "no memory for WHAT". */
int rt_no_memory(rt_err *e, const char *what);
/* Puts "context: " before the message already in e. */
void rt_err_context(rt_err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "RT_NOMEM" and "out of memory" for a status; never null. */
const char *rt_status_name(int status);
const char *rt_status_text(int status);
/* The exit code of a process that ends with this status (DESIGN section 6). */
int rt_status_exit(int status);

/* `int rc` and a label `out:` must be in scope. */
#define RT_TRY(expr)                                                                                                   \
    do {                                                                                                               \
        rc = (expr);                                                                                                   \
        if (rc < 0) goto out;                                                                                          \
    } while (0)

#endif
