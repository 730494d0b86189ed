/* gguf_types.c - the types that tensors have in GGUF: their numbers there and ours.
 *
 * Owns: the table. Types that are not read are in it by name, so that a refusal can say what was found. */
#include "format/gguf/gguf.h"

/* number, name, our dtype */
#define KNOWN_LIST(X)                                                                                                  \
    X(0, "F32", F32)                                                                                                   \
    X(1, "F16", F16)                                                                                                   \
    X(2, "Q4_0", Q4_0)                                                                                                 \
    X(3, "Q4_1", Q4_1)                                                                                                 \
    X(6, "Q5_0", Q5_0)                                                                                                 \
    X(7, "Q5_1", Q5_1)                                                                                                 \
    X(8, "Q8_0", Q8_0)                                                                                                 \
    X(10, "Q2_K", Q2_K)                                                                                                \
    X(11, "Q3_K", Q3_K)                                                                                                \
    X(12, "Q4_K", Q4_K)                                                                                                \
    X(13, "Q5_K", Q5_K)                                                                                                \
    X(14, "Q6_K", Q6_K)                                                                                                \
    X(20, "IQ4_NL", IQ4_NL)                                                                                            \
    X(23, "IQ4_XS", IQ4_XS)                                                                                            \
    X(24, "I8", I8)                                                                                                    \
    X(25, "I16", I16)                                                                                                  \
    X(26, "I32", I32)                                                                                                  \
    X(27, "I64", I64)                                                                                                  \
    X(28, "F64", F64)                                                                                                  \
    X(30, "BF16", BF16)

static const struct {
    uint32_t number;
    const char *name;
} others[] = {
    { 4, "Q4_2" },    { 5, "Q4_3" },      { 9, "Q8_1" },      { 15, "Q8_K" },     { 16, "IQ2_XXS" },
    { 17, "IQ2_XS" }, { 18, "IQ3_XXS" },  { 19, "IQ1_S" },    { 21, "IQ3_S" },    { 22, "IQ2_S" },
    { 29, "IQ1_M" },  { 31, "Q4_0_4_4" }, { 32, "Q4_0_4_8" }, { 33, "Q4_0_8_8" }, { 34, "TQ1_0" },
    { 35, "TQ2_0" },  { 39, "MXFP4" },    { 40, "NVFP4" },    { 41, "Q1_0" },     { 42, "Q2_0" },
};

int rt_gguf_number_of(rt_dtype d)
{
    switch (d) {
#define X(number, name, dtype)                                                                                         \
    case RT_DTYPE_##dtype: return number;
        KNOWN_LIST(X)
#undef X
    default: return -1;
    }
}

bool rt_gguf_dtype_of(uint32_t number, rt_dtype *out, const char **name)
{
    *name = NULL;
    switch (number) {
#define X(n, text, dtype)                                                                                              \
    case n: *out = RT_DTYPE_##dtype; return true;
        KNOWN_LIST(X)
#undef X
    default: break;
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i].number == number) *name = others[i].name;
    return false;
}
