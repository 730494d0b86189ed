/* lock.h - one writer for a folder: a lock that dies with the process that holds it.
 *
 * Owns: the file retort.lock in the folder, and the message that names whoever holds it. The lock is one of the open
 * file description (fcntl, F_OFD_SETLK): the system lets go of it when the process ends, however it ends, and NFS
 * carries it from host to host. The file itself stays where it is and says nothing by being there; while it is held, it
 * holds a line about the holder, for people. It may be removed only by who holds it: whoever waited for the old file
 * then finds another one under the name, or none, and begins anew. Whoever else removes it, or renames the folder,
 * takes its protection away; the holder finds that with rt_lock_held, which it asks before it writes anything by that
 * path.
 *
 * Where a file system has no locks at all, a second file, retort.owner, is created and none may be there before. A
 * killed process leaves it, and a person removes it: no process can tell that a process of another host has ended.
 *
 * Of several ranks that share a folder one holds the lock and writes. */
#ifndef RT_BASE_LOCK_H
#define RT_BASE_LOCK_H

#include "base/err.h"

#include <stdbool.h>

typedef struct rt_lock rt_lock;

/* Takes the lock of folder, without waiting; what: the thing that it protects, as the user calls it. RT_INVALID when
 * another holds it, and when a file of that name is there that is not ours; RT_NOT_FOUND without the folder. */
int rt_lock_take(rt_lock **out, const char *folder, const char *what, rt_err *e);
/* RT_INVALID, with the same message, when somebody holds it. Takes nothing and creates nothing. */
int rt_lock_check(const char *folder, const char *what, rt_err *e);
/* RT_INVALID when the file of the lock is no longer under its name: it was removed, or the folder is another one. */
int rt_lock_held(const rt_lock *l, const char *what, rt_err *e);
/* For who writes there without knowing of the lock: asked before each write. Zeroes: there is none. */
typedef struct rt_may_write {
    int (*ask)(void *ctx, rt_err *e);
    void *ctx;
} rt_may_write;
static inline int rt_may_write_ask(const rt_may_write *m, rt_err *e) { return m->ask ? m->ask(m->ctx, e) : RT_OK; }
/* Lets go; accepts null. remove: the file goes too, if rt_lock_take has created it and it still has the name. */
void rt_lock_free(rt_lock *l, bool remove);
/* Lets go at once, for a process that is going to be another program; l is freed by nobody. Accepts null. */
void rt_lock_release(rt_lock *l);
/* Whether a name in the folder is that of a lock. */
bool rt_lock_is_name(const char *name);

#endif
