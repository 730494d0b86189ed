/* dynlib.c - see dynlib.h. */
#include "base/dynlib.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

int rt_dynlib_open(rt_dynlib *l, const char *name, rt_err *e)
{
    struct link_map *map = NULL;
    *l = (rt_dynlib){ 0 };
    l->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!l->handle) {
        const char *why = dlerror();
        return rt_fail(e, RT_NOT_FOUND, "%s", why ? why : name);
    }
    bool known = dlinfo(l->handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && map->l_name[0];
    snprintf(l->path, sizeof l->path, "%s", known ? map->l_name : name);
    return RT_OK;
}

void rt_dynlib_close(rt_dynlib *l)
{
    if (l->handle) dlclose(l->handle);
    *l = (rt_dynlib){ 0 };
}

int rt_dynlib_bind(const rt_dynlib *l, void *table, const rt_dynlib_symbol *symbols, size_t count, rt_err *e)
{
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(l->handle, symbols[i].name);
        if (!found && !symbols[i].optional)
            return rt_fail(e, RT_NOT_FOUND, "%s has no function %s", l->path, symbols[i].name);
        memcpy((char *)table + symbols[i].offset, &found, sizeof found);
    }
    return RT_OK;
}
