/* dynlib.h - libraries that are opened at run time: a list of names to try, a list of symbols to find.
 *
 * Owns: dlopen. A library that was opened stays in the process (drivers start threads and never end them); closing
 * forgets the handle. Nothing here knows what a library is for. */
#ifndef RT_BASE_DYNLIB_H
#define RT_BASE_DYNLIB_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct rt_dynlib {
    void *handle;   /* null: not open */
    char path[512]; /* where the loader found it */
} rt_dynlib;

typedef struct rt_dynlib_symbol {
    const char *name;
    size_t offset; /* of the function pointer in the table that rt_dynlib_bind fills */
    bool optional; /* may be missing: the pointer is then null */
} rt_dynlib_symbol;

/* A path, or a name that the loader looks for. RT_NOT_FOUND with the loader's reason. */
int rt_dynlib_open(rt_dynlib *l, const char *name, rt_err *e);
void rt_dynlib_close(rt_dynlib *l); /* accepts zeroes; leaves zeroes */
/* Fills table; RT_NOT_FOUND names the first symbol that is missing. */
int rt_dynlib_bind(const rt_dynlib *l, void *table, const rt_dynlib_symbol *symbols, size_t count, rt_err *e);

#endif
