/* inputs_internal.h - shared by inputs.c (models) and inputs_data.c (data). */
#ifndef RT_JOB_INPUTS_INTERNAL_H
#define RT_JOB_INPUTS_INTERNAL_H

#include "job/inputs.h"

void rt_inputs_note(rt_inputs *in, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What the encoder needs of text and template. */
rt_data_text rt_inputs_text(const rt_inputs *in, int64_t now);

#endif
