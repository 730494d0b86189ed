/* teacher_weights.h - how the teacher's matrices lie on the device: as they are stored, or dequantised once to bf16.
 *
 * Owns: the dtypes that follow from --teacher-weights, what auto decides, and the sentence that says why. Pure: what
 * either way takes comes from plans that others have made. A device that cannot multiply a packed matrix dequantises it
 * into scratch before every GEMM; dequantised once it takes more memory, and that work is spared. */
#ifndef RT_TEACHER_TEACHER_WEIGHTS_H
#define RT_TEACHER_TEACHER_WEIGHTS_H

#include "base/str.h"
#include "format/config/names.h"
#include "op/plan.h"

typedef enum rt_teacher_weights { RT_WEIGHTS_NATIVE, RT_WEIGHTS_BF16, RT_WEIGHTS_AUTO } rt_teacher_weights;
const char *rt_weights_name(rt_teacher_weights w); /* "native" */
/* The way back; false when there is no such word. */
bool rt_weights_parse(const char *name, rt_teacher_weights *out);

/* to (rt_param_count) = what the parameters become: matrices bf16, vectors as stored. */
void rt_weights_bf16(rt_dtype *to, const rt_dtype *stored, const rt_model_config *c);
/* Whether that is another plan on a device with this policy, which may keep plain numbers in bf16 anyway. */
bool rt_weights_differ(const rt_dtype *stored, const rt_model_config *c, const rt_policy *p);

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
    RT_WEIGHTS_GAIN     /* bf16 fits, and a step moves less */
} rt_weights_why;
typedef struct rt_weights_choice {
    rt_teacher_weights weights; /* NATIVE or BF16 */
    rt_weights_why why;
    rt_weights_case facts; /* that it was decided from; not for UNSAID and ASKED */
} rt_weights_choice;

/* What auto takes: bf16 where it fits and saves a step something, else native. */
rt_weights_choice rt_weights_decide(const rt_weights_case *c);
/* "the teacher's are dequantised to bf16 once: ..."; nothing for UNSAID. */
void rt_weights_say(rt_str *out, const rt_weights_choice *c);

#endif
