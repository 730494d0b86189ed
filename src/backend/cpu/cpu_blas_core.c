/* cpu_blas_core.c - which of OpenBLAS's cores (sets of kernels) computes the GEMMs, and what is to be known of it.
 *
 * Owns: the choice of a core where the library's own is less than this CPU can do, and the warning where that remains;
 * whether the core computes all rows of a GEMM alike.
 * Leaves to others: the calls (cpu_gemm.c), the buffers (cpu_blas_guard.c), our own kernels (cpu_dispatch.c).
 *
 * OpenBLAS goes by the model number of a CPU. One that is newer than the library is given the kernels of the oldest:
 * SSE3 on a CPU with AVX-512, a quarter of the speed. With the archive, the linker (--wrap, see the Makefile) sends the
 * library's call of gotoblas_dynamic_init here, so the choice is made inside the library's own start, whatever the
 * order of constructors. It goes by what the CPU and the system can do: a core is chosen only when all that it was
 * compiled for is there, and only when the library's own has less. OPENBLAS_CORETYPE, when set, is the last word.
 * With a shared library the choice is out of reach and the warning is all there is. */
#include "backend/cpu/cpu.h"

#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define VARIABLE "OPENBLAS_CORETYPE"

typedef struct level {
    const char *core; /* the one to choose: it needs no more than this level */
    const char *has;  /* what makes the level */
    const char *also; /* other cores at this level, between blanks */
} level;

#if defined(__x86_64__)
static const level levels[] = {
    { "Prescott", "SSE3", " Core2 Penryn Dunnington Atom Nano Opteron Opteron_SSE3 Barcelona Bobcat " },
    { "Nehalem", "SSE4.2", "" },
    { "Sandybridge", "AVX", " Bulldozer Piledriver Steamroller " },
    { "Haswell", "AVX2", " Zen Excavator " },
    { "SkylakeX", "AVX-512", "" },
};

/* __builtin_cpu_supports also asks whether the system saves the wide registers. */
static uint32_t cpu_level(void)
{
#define HAS(f) __builtin_cpu_supports(f)
    __builtin_cpu_init(); /* constructors may come before the compiler's own */
    if (!HAS("sse4.2") || !HAS("popcnt")) return 0;
    if (!HAS("avx")) return 1;
    if (!HAS("avx2") || !HAS("fma") || !HAS("bmi") || !HAS("bmi2")) return 2;
    if (!HAS("avx512f") || !HAS("avx512cd") || !HAS("avx512bw") || !HAS("avx512dq") || !HAS("avx512vl")) return 3;
    return 4;
#undef HAS
}
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

/* Cores that the library chose because it knows the CPU are left alone; armv8 is also what it gives to all others. */
static const level levels[] = {
    { "ARMV8", "Armv8.0", "" },
    { "NEOVERSEN1", "Armv8.2", "" },
};

static uint32_t cpu_level(void)
{
    unsigned long need =
        HWCAP_ASIMD | HWCAP_FPHP | HWCAP_ASIMDHP | HWCAP_ATOMICS | HWCAP_ASIMDRDM | HWCAP_CRC32 | HWCAP_ASIMDDP;
    return (getauxval(AT_HWCAP) & need) == need;
}
#else
static const level levels[] = { { "", "", "" } };

static uint32_t cpu_level(void) { return 0; }
#endif

enum { LEVELS = sizeof levels / sizeof levels[0] };

static bool is_at(const level *l, const char *core)
{
    char word[32];
    snprintf(word, sizeof word, " %s ", core);
    return strcasecmp(l->core, core) == 0 || strcasestr(l->also, word);
}

/* The level that this CPU has and the library's core does not use; null: none. A core that is not in the table is one
 * of a newer library, which knows better. */
static const level *level_unused(void)
{
    const char *core = openblas_get_corename();
    uint32_t best = cpu_level();
    for (uint32_t i = 0; i < best; i++)
        if (is_at(&levels[i], core)) return &levels[best];
    return NULL;
}

void rt_cpu_blas_warning(char *buf, size_t size)
{
    const level *better = level_unused();
    buf[0] = 0;
    if (better)
        snprintf(buf, size, "OpenBLAS computes with core %s, without the %s that this CPU has: set " VARIABLE "=%s",
                 openblas_get_corename(), better->has, better->core);
}

/* Haswell's kernels take rows by twelve, four, two and one in ways that round differently; SkylakeX's do not. No list
 * of cores says which: equal rows are multiplied, in numbers that leave every remainder by twelve and more columns than
 * a tile, and compared. */
static bool rows_alike;
static pthread_once_t rows_once = PTHREAD_ONCE_INIT;

static void compare_rows(void)
{
    enum { M_MOST = 36, N = 40, K = 24 };
    float a[M_MOST * K], b[N * K], c[M_MOST * N];
    uint32_t unlike = 0, state = 1;
    for (uint32_t i = 0; i < (N + 1) * K; i++) { /* b, then the row of a */
        const float v = (float)(state = state * 1664525u + 1013904223u) * 0x1p-32f - 0.5f;
        if (i < N * K)
            b[i] = v;
        else
            for (uint32_t m = 0; m < M_MOST; m++) a[m * K + i - N * K] = v;
    }
    for (uint32_t M = 2; M <= M_MOST; M++) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)M, N, K, 1, a, K, b, K, 0, c, N);
        for (uint32_t m = 1; m < M; m++) unlike += memcmp(c, c + (size_t)m * N, N * sizeof *c) != 0;
    }
    rows_alike = !unlike;
}

bool rt_cpu_blas_rows_alike(void)
{
    pthread_once(&rows_once, compare_rows);
    return rows_alike;
}

#if RT_BLAS_ARCHIVE
/* Weak: a library that was built for one core has no choice to make, and does not call the wrapper. */
__attribute__((weak)) void __real_gotoblas_dynamic_init(void);
__attribute__((weak)) void gotoblas_dynamic_quit(void);
void __wrap_gotoblas_dynamic_init(void);

/* The library can be told by a variable alone. It is set for the length of one call, and only where it is needed. */
void __wrap_gotoblas_dynamic_init(void)
{
    __real_gotoblas_dynamic_init();
    const level *better = getenv(VARIABLE) ? NULL : level_unused();
    if (!better || setenv(VARIABLE, better->core, 1) != 0) return;
    gotoblas_dynamic_quit();
    __real_gotoblas_dynamic_init();
    unsetenv(VARIABLE);
    if (strcasecmp(openblas_get_corename(), better->core) == 0) return;
    gotoblas_dynamic_quit(); /* it was built without that core: its own choice */
    __real_gotoblas_dynamic_init();
}
#endif
