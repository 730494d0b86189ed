/* registry.c - the list of backends, in the order in which `retort` tries and prints them. The only file of this
 * room that names a concrete one. */
#include "backend/backend.h"

#include <string.h>

extern const rt_backend rt_backend_cpu, rt_backend_ref;

static const rt_backend *const all[] = { &rt_backend_cpu, &rt_backend_ref, NULL };

const rt_backend *const *rt_backends(void) { return all; }

int rt_backend_find(const char *name, const rt_backend **out, rt_err *e)
{
    char known[200] = "";
    *out = NULL;
    for (int i = 0; all[i]; i++) {
        if (name && strcmp(name, all[i]->name) == 0) {
            *out = all[i];
            return RT_OK;
        }
        if (i) strncat(known, ", ", sizeof known - strlen(known) - 1);
        strncat(known, all[i]->name, sizeof known - strlen(known) - 1);
    }
    return rt_fail(e, RT_NO_BACKEND, "no backend is called '%s'; this binary has: %s", name ? name : "", known);
}
