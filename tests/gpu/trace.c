/* trace.c - an auditor of the dynamic loader (LD_AUDIT): whatever retort looks up in libcuda and libcublasLt is
 * answered with a function that writes its name to the file in RETORT_TRACE and then does what was asked for. order.py
 * reads it.
 *
 * All those functions take integers and addresses alone, so one shape passes on any of them: callees read as many words
 * as they have parameters, and the rest is whatever stood on the caller's stack. */
#include "backend/cuda/libs/cuda_driver.h"
#include "backend/cuda/libs/cuda_lt.h"

#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned la_version(unsigned version);
unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie);
uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                       const char *name);

#define TAKEN                                                                                                          \
    long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l, long m, long n,    \
        long o, long p
#define GIVEN a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p

static void write_down(const char *name)
{
    static int file = -1;
    const char *path = getenv("RETORT_TRACE");
    if (file < 0 && path) file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || write(file, name, strlen(name)) < 0 || write(file, "\n", 1) < 0) return;
}

#define WRAP(symbol)                                                                                                   \
    static long (*real_##symbol)(TAKEN);                                                                               \
    static long wrap_##symbol(TAKEN)                                                                                   \
    {                                                                                                                  \
        write_down(#symbol);                                                                                           \
        return real_##symbol(GIVEN);                                                                                   \
    }
#define X(member, symbol, params) WRAP(symbol)
RT_CU_LIST(X)
RT_CU_OPTIONAL_LIST(X)
#undef X
#define X(member, symbol, result, params) WRAP(symbol)
RT_LT_LIST(X)
#undef X

static const struct {
    const char *name;
    long (**real)(TAKEN);
    long (*wrap)(TAKEN);
} table[] = {
#define X(member, symbol, params) { #symbol, &real_##symbol, wrap_##symbol },
    RT_CU_LIST(X) RT_CU_OPTIONAL_LIST(X)
#undef X
#define X(member, symbol, result, params) { #symbol, &real_##symbol, wrap_##symbol },
        RT_LT_LIST(X)
#undef X
};

unsigned la_version(unsigned version) { return version; }

/* Only what the program itself looks up: NVIDIA's libraries call one another a great deal. */
unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
    (void)namespace;
    (void)cookie;
    return map->l_name[0] ? LA_FLG_BINDTO : LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                       const char *name)
{
    (void)index;
    (void)from;
    (void)to;
    (void)flags;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0) {
            *table[i].real = (long (*)(TAKEN))symbol->st_value;
            return (uintptr_t)table[i].wrap;
        }
    return symbol->st_value;
}
