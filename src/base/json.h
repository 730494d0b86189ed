/* json.h - where jansson gets its memory: from rt_alloc, like everything else.
 *
 * jansson has one allocator for the whole process, so it must be set before the first value is made: the command line
 * does it when it starts, and rooms that use jansson do it again, which costs nothing. */
#ifndef RT_BASE_JSON_H
#define RT_BASE_JSON_H

#include <stdbool.h>

/* Routes jansson's memory through rt_alloc, once. */
void rt_json_init(void);
/* jansson tells only that something failed. True when, on this thread, memory was refused since the last call. */
bool rt_json_out_of_memory(void);

#endif
