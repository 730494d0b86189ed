/* cpu_table.c - the table from op kind to kernel of one instruction set, and the names of those kernels.
 *
 * Compiled once per ISA like the kernels. No slot is empty. */
#include "backend/cpu/cpu_texts.h"

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

const rt_cpu_isa RT_CPU(table) = { .name = TEXT(RT_ISA),
#define X(kind, name, args, text) .op[RT_OP_##kind] = RT_CPU(name),
                                   RT_OP_LIST(X)
#undef X
#define X(kind, name, args, text) .work[RT_OP_##kind] = RT_CPU(work_##name),
                                       RT_OP_LIST(X)
#undef X
};

const rt_cpu_texts RT_CPU(texts) = {
#define X(kind, name, args, text) .op[RT_OP_##kind] = #name " " TEXT(RT_ISA),
    RT_OP_LIST(X)
#undef X
#define X(kind, name, block, bytes, cls) .tiles[RT_DTYPE_##kind] = "sgemm tiles " name " " TEXT(RT_ISA),
        RT_DTYPE_LIST(X)
#undef X
#define X(kind, name, block, bytes, cls) .dots[RT_DTYPE_##kind] = "row dots " name " " TEXT(RT_ISA),
            RT_DTYPE_LIST(X)
#undef X
};
