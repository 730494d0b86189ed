/* inputs_internal.h - what opening the first teacher and opening more of them share. */
#ifndef RT_JOB_INPUTS_INTERNAL_H
#define RT_JOB_INPUTS_INTERNAL_H

#include "job/prepare/inputs.h"

/* A model with its tokenizer, where it has one. who: "student". part: as of rt_inputs_opts. */
int rt_inputs_open_model(rt_inputs *in, const char *spec, const char *who, const char *part, const rt_hub_env *env,
                         rt_model_file **file, rt_text_source **text, rt_err *e);
/* RT_INVALID where a teacher and the student are one and the same: every shape and every value, which are read only
 * when the shapes are equal. */
int rt_inputs_refuse_same(const rt_inputs *in, const rt_model_file *teacher, const rt_settings *s, rt_pool *pool,
                          rt_err *e);

#endif
