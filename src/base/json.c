/* json.c - see json.h. */
#include "base/json.h"

#include "base/mem.h"

#include <jansson.h>
#include <pthread.h>

static _Thread_local bool out_of_memory;

static void *json_alloc(size_t bytes)
{
    void *p = rt_alloc(bytes, 16);
    if (!p) out_of_memory = true;
    return p;
}

static void set_alloc_funcs(void) { json_set_alloc_funcs(json_alloc, rt_free); }

void rt_json_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_alloc_funcs);
}

bool rt_json_out_of_memory(void)
{
    bool was = out_of_memory;
    out_of_memory = false;
    return was;
}
