/* plan_internal.h - shared by the files of the recorder only. */
#ifndef RT_OP_PLAN_INTERNAL_H
#define RT_OP_PLAN_INTERNAL_H

#include "op/plan.h"
#include "op/region.h"

/* Checks and fills a buffer; its name is copied into the arena. */
int rt_buffer_init(rt_buffer *b, rt_arena *names, rt_class cls, rt_dtype dtype, uint32_t rows, uint32_t cols,
                   const char *name, rt_err *e);
/* Dtypes of the present slots against the rules of the op; an error goes to the plan. */
void rt_plan_check_dtypes(rt_plan *p, rt_op_kind kind, const rt_view *slots);

#endif
