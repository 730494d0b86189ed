/* plan_facts.h - what the printers of a plan say about it, computed once, so that text and JSON cannot differ.
 *
 * Internal to the printers (plan_print.c, plan_json.c); the figures come from op_cost.c, lifetime.c and plan_hash.c. */
#ifndef RT_OP_PLAN_FACTS_H
#define RT_OP_PLAN_FACTS_H

#include "op/plan.h"

typedef struct rt_class_facts {
    uint32_t used, declared;             /* buffers that an op of the plan touches; buffers of the space or the plan */
    uint64_t used_bytes, declared_bytes; /* of whole buffers */
} rt_class_facts;

typedef struct rt_plan_facts {
    uint64_t flops, bytes; /* sums over the ops */
    rt_class_facts cls[RT_CLASS_COUNT];
    rt_life *life;    /* (nacts) */
    uint64_t peak;    /* most bytes of activations alive at once, each rounded up as placement does */
    uint32_t peak_op; /* where; meaningless when peak is 0 */
    uint32_t *alive;  /* (nalive) activations alive there, largest first, then in order of declaration */
    uint32_t nalive;
    rt_hash128 hash;
} rt_plan_facts;

/* Refuses a plan whose recording failed, with the error of the recording. */
int rt_plan_facts_new(rt_plan_facts *out, const rt_plan *p, rt_err *e);
void rt_plan_facts_free(rt_plan_facts *f);

/* How an op touches a slot: r read, w written, rw in place, = assigned, += added to, s some rows overwritten. */
const char *rt_access_text(const rt_op *op, uint32_t slot);
const char *rt_queue_name(rt_queue q);

/* The scalars of an op by name. Dimensions are those that the operands' shapes tell already. */
typedef struct rt_arg_field {
    const char *name; /* null: end of the list */
    uint8_t word;     /* index in rt_args.words */
    bool is_float, is_dim;
} rt_arg_field;
const rt_arg_field *rt_arg_fields(rt_op_kind kind);
/* Does this scalar mean anything to this op? (The ops on rows share one struct.) */
bool rt_arg_used(const rt_op *op, const rt_arg_field *f);
/* The shortest decimal number that reads back as x: "1e-06", "0.1". buf needs 32 bytes; returns buf. */
char *rt_format_f32(char *buf, float x);

/* plan_json.c */
int rt_plan_print_json(const rt_plan *p, const rt_plan_facts *f, const rt_plan_notes *notes, rt_str *out, rt_err *e);

#endif
