/* plan.h - the plan: a flat list of ops over views of buffers, recorded once and never changed after.
 *
 * Owns: buffers and their lifetime classes, views, the recorder, lifetimes. A `rt_space` declares the buffers that
 * outlive a program; the plans of one run share a space and so their allocations. Activations belong to one plan.
 * Recording is sticky: the first error is kept in the plan, later calls do nothing, seal reports it; so model code has
 * no error checks in it. A plan names no backend and holds no data. */
#ifndef RT_OP_PLAN_H
#define RT_OP_PLAN_H

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "op/op.h"

#include <stdbool.h>

/* name, text, outlives a program, defined when a program starts */
#define RT_CLASS_LIST(X)                                                                                               \
    X(PARAM, "parameter", 1, 1)                                                                                        \
    X(GRAD, "gradient", 1, 0)                                                                                          \
    X(STATE, "state", 1, 1) /* optimizer moments, master weights, caches, the fault record */                          \
    X(STEP, "step value", 1, 1)                                                                                        \
    X(INPUT, "input", 1, 1)                                                                                            \
    X(OUTPUT, "output", 1, 0)       /* metrics, what the host reads back */                                            \
    X(HOST, "host parameter", 1, 1) /* in the host's memory: a copy brings it to where it is read */                   \
    X(DISK, "disk parameter", 1, 1) /* in a file: so does a copy, whenever a program wants it */                       \
    X(ACT, "activation", 0, 0)      /* placed in the arena by lifetime */

typedef enum rt_class {
#define X(name, text, keeps, defined) RT_CLASS_##name,
    RT_CLASS_LIST(X)
#undef X
        RT_CLASS_COUNT
} rt_class;
const char *rt_class_name(rt_class c);
/* Of buffers that ops do not work on where they lie. */
static inline bool rt_class_is_away(rt_class c) { return c == RT_CLASS_HOST || c == RT_CLASS_DISK; }

/* Rows and columns of a buffer, inside it or a part of it. Offsets and strides count elements of the buffer's dtype. */
typedef struct rt_view {
    uint32_t buf; /* 0: none; RT_ACT_BIT set: activation (index in the low bits), else 1 + index in the space */
    uint32_t rows, cols;
    uint64_t off;    /* of element (0,0) from the start of the buffer */
    uint64_t stride; /* from one row to the next, >= cols */
} rt_view;
#define RT_ACT_BIT 0x80000000u
#define RT_NONE ((rt_view){ 0 })

typedef struct rt_buffer {
    const char *name;
    rt_class cls;
    rt_dtype dtype;
    uint32_t rows, cols;
    uint64_t bytes;
} rt_buffer;

/* ---- the space: buffers that outlive a program ---- */
typedef struct rt_space {
    rt_buffer *bufs;
    uint32_t nbufs, cap;
    rt_arena names;
    rt_err err; /* sticky */
} rt_space;

int rt_space_new(rt_space **out, rt_err *e);
void rt_space_free(rt_space *s);
/* The first error of what was declared in it, or RT_OK. */
int rt_space_status(const rt_space *s, rt_err *e);
/* Declares a buffer; any class but ACT. Returns a view of all of it (RT_NONE after an error). */
rt_view rt_space_buf(rt_space *s, rt_class cls, rt_dtype dtype, uint32_t rows, uint32_t cols, const char *name);

/* A buffer of one row grows by rows x cols elements, which are the view. RT_NONE as whole: a new buffer. Before a plan
 * has it. */
rt_view rt_space_more(rt_space *s, rt_view *whole, rt_class cls, rt_dtype dtype, uint32_t rows, uint32_t cols,
                      const char *name);

/* ---- precision policy: storage dtypes that the recorder uses where the caller does not say ---- */
typedef struct rt_policy {
    rt_dtype weight, act;
    rt_dtype grad;      /* of parameters whose gradient is written exactly once in a step */
    rt_dtype grad_many; /* of those written more often: head, embedding, anything under accumulation */
    rt_dtype logits;
    rt_dtype scalar;   /* reductions, lse, sums: f32, or f64 for the specification */
    bool attn_rounded; /* attention may round its weights to act where they are multiplied */
    bool int8;         /* forward rounds rows to Q8_0 where they meet packed weights that matmul_int8 takes */
} rt_policy;
extern const rt_policy rt_policy_f32, rt_policy_bf16, rt_policy_f16, rt_policy_f64;

/* ---- the plan ---- */
/* Each is done in order; queues run side by side where a device has them. What an op of one waits for in another is
 * derived from the operands (exec/order.c), so that the order in which ops are listed is always a right one. */
typedef enum rt_queue { RT_QUEUE_COMPUTE, RT_QUEUE_COPY, RT_QUEUE_COMM, RT_QUEUE_COUNT } rt_queue;

typedef struct rt_op {
    rt_op_kind kind;
    rt_queue queue;
    uint32_t acc;               /* bit i: ACCUM slot i adds to what is there; else it assigns */
    rt_view slot[RT_MAX_SLOTS]; /* buf 0: absent */
    rt_view work;               /* scratch of this op alone, u8; set by seal */
    bool work_stays;            /* until the program ends, not only while the op runs */
    rt_args args;
    const char *label; /* where in the model: "layer 3 mlp"; never null */
} rt_op;

typedef struct rt_region rt_region; /* what has been written of a buffer (region.h) */

typedef struct rt_plan {
    const char *name;
    rt_space *space;
    rt_policy policy;
    rt_op *ops;
    uint32_t nops, ops_cap;
    rt_buffer *acts;
    uint32_t nacts, acts_cap;
    rt_region *written_space, *written_acts; /* per buffer */
    uint32_t written_space_cap, written_acts_cap;
    uint32_t nwritten_space;
    rt_queue queue;    /* of the ops that follow */
    const char *label; /* of the ops that follow */
    rt_arena names;
    rt_err err; /* sticky */
} rt_plan;

/* The space must outlive the plan. */
int rt_plan_new(rt_plan **out, rt_space *s, const char *name, const rt_policy *policy, rt_err *e);
void rt_plan_free(rt_plan *p);
/* RT_OK, or the first error of recording (or of the space), copied into e. */
int rt_plan_status(const rt_plan *p, rt_err *e);
/* Records an error if there is none yet. */
void rt_plan_fail(rt_plan *p, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A new activation. Its lifetime runs from the first op that touches it to the last. */
rt_view rt_act(rt_plan *p, rt_dtype dtype, uint32_t rows, uint32_t cols, const char *name);
/* The buffer of this view holds values when the program starts (gradients of an earlier micro-batch). */
void rt_plan_assume_defined(rt_plan *p, rt_view v);
void rt_plan_label(rt_plan *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rt_plan_queue(rt_plan *p, rt_queue q);

/* Parts of a view; out of range is a recording error. */
rt_view rt_view_cols(rt_plan *p, rt_view v, uint32_t first, uint32_t count);
rt_view rt_view_rows(rt_plan *p, rt_view v, uint32_t first, uint32_t count);
/* The same elements in another shape; the view must be without gaps. */
rt_view rt_view_shape(rt_plan *p, rt_view v, uint32_t rows, uint32_t cols);

const rt_buffer *rt_plan_buffer(const rt_plan *p, rt_view v); /* null for RT_NONE */
rt_dtype rt_plan_dtype(const rt_plan *p, rt_view v);          /* of a view that is not RT_NONE */
uint64_t rt_view_bytes(const rt_plan *p, rt_view v);          /* that its elements occupy, gaps not counted */

/* The access of a slot, given which operands are present (a copy with row indices writes sparsely). */
rt_access rt_op_access(rt_op_kind kind, uint32_t slot, const rt_view *views);

/* Appends an op after checking dtypes, aliasing, bounds and that what it reads was written; resolves `=` and `+=`.
 * Shapes were checked by the emitter (emit.h), which is the only caller besides seal. */
void rt_plan_record(rt_plan *p, rt_op_kind kind, const rt_args *args, const rt_view *slots);

/* ---- for seal, which rewrites a finished plan (lowering) and checks nothing again ---- */
/* A plan over the same space with the same activations and no ops. */
int rt_plan_clone_buffers(rt_plan **out, const rt_plan *p, rt_err *e);
/* Appends a copy of op, label included. Errors stick. */
void rt_plan_append(rt_plan *p, const rt_op *op);

/* ---- lifetimes and costs ---- */
typedef struct rt_life {
    uint32_t first, last; /* ops; first > last: never used */
} rt_life;
/* life (nacts): of every activation. Returns the most bytes of activations alive at once, and at which op. */
uint64_t rt_plan_lifetimes(const rt_plan *p, rt_life *life, uint32_t *peak_op);
/* Arithmetic of an op; bytes that it must move (read once, written once; += reads too; gathers count what they touch).
 */
uint64_t rt_op_flops(const rt_plan *p, const rt_op *op);
uint64_t rt_op_bytes(const rt_plan *p, const rt_op *op);

/* ---- printing and identity ---- */
typedef enum rt_print { RT_PRINT_TEXT, RT_PRINT_JSON } rt_print;
/* What seal adds to a plan when it is printed; any pointer may be null. */
typedef struct rt_plan_notes {
    const char *backend, *device;
    const char *const *kernel; /* (nops) */
    const uint64_t *place;     /* (nacts) offset in the arena, UINT64_MAX: never used */
    uint64_t arena_bytes;
} rt_plan_notes;
int rt_plan_print(const rt_plan *p, const rt_plan_notes *notes, rt_print format, rt_str *out, rt_err *e);
/* Of ops, views, dtypes, arguments, flags and the shapes of buffers; not of names and labels. The same on every
 * machine. */
int rt_plan_hash(const rt_plan *p, rt_hash128 *out, rt_err *e);

#endif
