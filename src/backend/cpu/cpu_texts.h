/* cpu_texts.h - what the plan printer says about each kernel, per instruction set, as static text. */
#ifndef RT_BACKEND_CPU_CPU_TEXTS_H
#define RT_BACKEND_CPU_CPU_TEXTS_H

#include "backend/cpu/cpu.h"

typedef struct rt_cpu_texts {
    const char *op[RT_OP_COUNT];
    const char *tiles[RT_DTYPE_COUNT], *dots[RT_DTYPE_COUNT]; /* matmul, by the dtype of b */
} rt_cpu_texts;

/* One table of functions and one of texts for each ISA that was built (cpu_table.c). */
#define RT_CPU_BUILD(isa)                                                                                              \
    extern const rt_cpu_isa rt_cpu_table_##isa;                                                                        \
    extern const rt_cpu_texts rt_cpu_texts_##isa;
RT_CPU_BUILD(generic)
RT_CPU_BUILD(avx2)
RT_CPU_BUILD(avx512)
RT_CPU_BUILD(neon)
#undef RT_CPU_BUILD

/* Of one that rt_cpu_isas() lists. */
const rt_cpu_texts *rt_cpu_isa_texts(const rt_cpu_isa *isa);

#endif
