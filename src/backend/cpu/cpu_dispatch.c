/* cpu_dispatch.c - which of the instruction sets that were built this machine can run.
 *
 * Owns: the list, best first, found once. The Makefile says by RT_HAVE_<isa> what was built; the processor and the
 * operating system say the rest. `generic` needs nothing beyond the architecture itself, so the list is never empty. */
#include "backend/cpu/cpu_texts.h"

#include <pthread.h>
#include <string.h>

#if defined(RT_HAVE_avx2) || defined(RT_HAVE_avx512)
#include <cpuid.h>

/* __builtin_cpu_supports also asks whether the system saves the wide registers; not every compiler knows "f16c". */
static bool has_avx2(void)
{
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma");
}
#endif

#if defined(RT_HAVE_avx512)
static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

#if defined(RT_HAVE_neon)
#include <asm/hwcap.h>
#include <sys/auxv.h>

/* armv8.2-a with half precision: the v8.1 atomics and rounding multiplies the compiler may use, and both f16 sets */
static bool has_neon(void)
{
    unsigned long need = HWCAP_ASIMD | HWCAP_FPHP | HWCAP_ASIMDHP | HWCAP_ATOMICS | HWCAP_ASIMDRDM | HWCAP_CRC32;
    return (getauxval(AT_HWCAP) & need) == need;
}
#endif

static const rt_cpu_isa *list[5];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void)
{
    uint32_t n = 0;
#if defined(RT_HAVE_avx512)
    if (has_avx512()) list[n++] = &rt_cpu_table_avx512;
#endif
#if defined(RT_HAVE_avx2)
    if (has_avx2()) list[n++] = &rt_cpu_table_avx2;
#endif
#if defined(RT_HAVE_neon)
    if (has_neon()) list[n++] = &rt_cpu_table_neon;
#endif
    list[n] = &rt_cpu_table_generic;
}

const rt_cpu_isa *const *rt_cpu_isas(void)
{
    pthread_once(&once, find);
    return list;
}

bool rt_cpu_has_dot(const rt_cpu_isa *isa)
{
#if defined(RT_HAVE_avx512_dot)
    if (isa == &rt_cpu_table_avx512) return __builtin_cpu_supports("avx512vnni");
#endif
#if defined(RT_HAVE_avx2_dot)
    unsigned a, b, c, d;
    if (isa == &rt_cpu_table_avx2) return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4); /* AVX-VNNI */
#endif
#if defined(RT_HAVE_neon_dot)
    if (isa == &rt_cpu_table_neon) return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#endif
    (void)isa;
    return false;
}

const rt_cpu_texts *rt_cpu_isa_texts(const rt_cpu_isa *isa)
{
#if defined(RT_HAVE_avx512)
    if (isa == &rt_cpu_table_avx512) return &rt_cpu_texts_avx512;
#endif
#if defined(RT_HAVE_avx2)
    if (isa == &rt_cpu_table_avx2) return &rt_cpu_texts_avx2;
#endif
#if defined(RT_HAVE_neon)
    if (isa == &rt_cpu_table_neon) return &rt_cpu_texts_neon;
#endif
    (void)isa;
    return &rt_cpu_texts_generic;
}
