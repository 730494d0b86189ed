/* teacher_weights.h - how the teacher's matrices lie on the device: as they are stored, dequantised once to bf16, or
 * quantised to fp8, once or at every use.
 *
 * Owns: the dtypes that follow from --teacher-weights, what auto decides, and the sentence that says why. Pure: what
 * each way takes comes from plans that others have made, and how far fp8 is from bf16 from a measurement. A device that
 * cannot multiply a packed matrix dequantises it into scratch before every GEMM; dequantised once it takes more memory,
 * and that work is spared. In fp8 (e4m3, a scale for each row) GEMMs take about two thirds of the time of bf16 where a
 * device has them, and the teacher is another one by a little. Packed matrices that are quantised to fp8 at every use
 * stay as small as they are, and their codes are the same bits. */
#ifndef RT_TEACHER_TEACHER_WEIGHTS_H
#define RT_TEACHER_TEACHER_WEIGHTS_H

#include "base/str.h"
#include "model/decoder.h"
#include "op/plan.h"

typedef enum rt_teacher_weights {
    RT_WEIGHTS_NATIVE,
    RT_WEIGHTS_BF16,
    RT_WEIGHTS_FP8,
    RT_WEIGHTS_FP8_NATIVE, /* as they are stored, multiplied as FP8 is */
    RT_WEIGHTS_AUTO
} rt_teacher_weights;
enum { RT_WEIGHTS_KINDS = RT_WEIGHTS_AUTO };       /* that are definite */
const char *rt_weights_name(rt_teacher_weights w); /* "native" */
/* The way back; false when there is no such word. */
bool rt_weights_parse(const char *name, rt_teacher_weights *out);
#define RT_WEIGHTS_WORDS "auto, native, bf16, fp8 or fp8-native"

/* Whether matrices are on the device as the file has them. */
static inline bool rt_weights_as_stored(rt_teacher_weights w)
{
    return w == RT_WEIGHTS_NATIVE || w == RT_WEIGHTS_FP8_NATIVE;
}

/* to (rt_param_count) = what the parameters become, which may be stored itself. BF16: matrices bf16, vectors as stored.
 * FP8_NATIVE: as stored.
 * FP8: as rt_weights_fp8, with the first and the last layer in bf16 (docs/training.md: they are where rounding costs
 * most), but in models of few layers. */
void rt_weights_dtypes(rt_dtype *to, const rt_dtype *stored, const rt_model_config *c, rt_teacher_weights w);
/* FP8_NATIVE: the layers that are multiplied as e4m3, those that FP8 has so; else none. */
rt_layer_range rt_weights_coded(const rt_model_config *c, rt_teacher_weights w);
/* Matrices of layers e4m3, but of the layers kept (count); those and other matrices bf16, vectors as stored. */
void rt_weights_fp8(rt_dtype *to, const rt_dtype *stored, const rt_model_config *c, const uint32_t *kept,
                    uint32_t count);
/* Whether BF16 is another plan than NATIVE on a device with this policy, which may keep plain numbers in bf16 anyway.
 */
bool rt_weights_differ(const rt_dtype *stored, const rt_model_config *c, const rt_policy *p);

/* ---- may auto take fp8 ---- */

typedef enum rt_fp8_state {
    RT_FP8_NO,      /* no question: the device gains nothing by it, or the settings say what is taken */
    RT_FP8_LATER,   /* a plan: it is measured when the run begins */
    RT_FP8_NO_ROOM, /* both teachers at once would exceed the limit, so it was not measured */
    RT_FP8_MEASURED /* the figures are there */
} rt_fp8_state;
/* On the same held-out positions. */
typedef struct rt_fp8 {
    rt_fp8_state state;
    double fp8, student; /* KL(teacher || teacher in fp8), KL(teacher || student before step 1); nats */
    uint64_t positions;
} rt_fp8;
/* Whether auto may take it: it is measured and its KL is below a tenth of the student's, or that is still open. */
bool rt_fp8_may(const rt_fp8 *f);

/* ---- what auto takes ---- */

/* A run planned both ways, all else being equal. */
typedef struct rt_weights_case {
    bool differ;                           /* the two are not the same plan */
    uint64_t native, bf16, limit;          /* bytes that it allocates; that it may */
    uint64_t native_dequant, bf16_dequant; /* bytes that a step reads and writes to dequantise and cast operands */
} rt_weights_case;

typedef enum rt_weights_why {
    RT_WEIGHTS_UNSAID,  /* there is no teacher, or no run that fits */
    RT_WEIGHTS_ASKED,   /* the settings say so */
    RT_WEIGHTS_SAME,    /* nothing in them needs dequantising */
    RT_WEIGHTS_NO_GAIN, /* the device multiplies them as they are stored */
    RT_WEIGHTS_NO_ROOM, /* bf16 would exceed the limit */
    RT_WEIGHTS_GAIN,    /* bf16 fits, and a step moves less */
    RT_WEIGHTS_AWAY,    /* they are copied to the device at every pass */
    RT_WEIGHTS_FASTER   /* FP8 or FP8_NATIVE fits, takes less time, and may be taken */
} rt_weights_why;
typedef struct rt_weights_choice {
    rt_teacher_weights weights; /* definite */
    rt_weights_why why;
    rt_weights_case facts; /* that it was decided from; not for UNSAID, ASKED, AWAY and FASTER */
    rt_fp8 fp8;
} rt_weights_choice;

/* What auto takes of the first two: bf16 where it fits and saves a step something, else native. */
rt_weights_choice rt_weights_decide(const rt_weights_case *c);
/* "the teacher's are dequantised to bf16 once: ..."; nothing for UNSAID. */
void rt_weights_say(rt_str *out, const rt_weights_choice *c);

#endif
