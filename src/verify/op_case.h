/* op_case.h - cases of a single op, as data: signature, shape, flags, and how its operands are laid out and filled.
 *
 * Owns: the vocabulary of the files cases_*.c. An rt_op_set says everything about the cases of one op; generate.c
 * crosses its signatures with its shapes and flags, values.c makes the operands, harness.c runs and compares. */
#ifndef RT_VERIFY_OP_CASE_H
#define RT_VERIFY_OP_CASE_H

#include "op/emit.h"
#include "verify/case.h"
#include "verify/signature.h"

enum { RT_CASE_DIMS = 6, RT_CASE_FLAGS = 20, RT_FLAG_VALUES = 8, RT_ROUNDS_TEXT = 200 };

/* What a shape is there for. Every signature has a case of each kind that its op lists. */
typedef enum rt_shape_kind {
    RT_SHAPE_ODD = 1,   /* small, odd or prime */
    RT_SHAPE_ONE = 2,   /* every dimension 1 (or the least that the op takes) */
    RT_SHAPE_BIG = 4,   /* at least three tiles and three work chunks of the cpu kernels in every tiled dimension */
    RT_SHAPE_DEEP = 8,  /* three panels of a long sum */
    RT_SHAPE_FEW = 16,  /* the path for few rows, in three chunks */
    RT_SHAPE_WIDTH = 32 /* one off a vector width */
} rt_shape_kind;

typedef struct rt_op_shape {
    uint32_t kind; /* rt_shape_kind */
    uint32_t dim[RT_CASE_DIMS];
} rt_op_shape;

/* A flag and the texts of its values; an empty text does not appear in names. */
typedef struct rt_op_flag {
    const char *name;
    const char *value[RT_FLAG_VALUES]; /* ends with a null */
    bool rare;                         /* three of four cases have the first value: the others leave less to compare */
} rt_op_flag;

#define RT_FLAG(n, ...)                                                                                                \
    {                                                                                                                  \
        .name = (n), .value = { __VA_ARGS__ }                                                                          \
    }
#define RT_RARE(n, ...)                                                                                                \
    {                                                                                                                  \
        .name = (n), .value = { __VA_ARGS__ }, .rare = true                                                            \
    }

/* The same work as one op, or as several over parts of the rows: devices may take neighbours together. How many for an
 * operand v, and part i of it; an absent one has absent parts. */
#define RT_OPS_FLAG RT_FLAG("ops", "", "many")
static inline uint32_t rt_case_ops(rt_view v, bool many, uint32_t most)
{
    return !many ? 1 : v.rows < most ? v.rows : most;
}
static inline rt_view rt_case_part(rt_plan *p, rt_view v, uint32_t i, uint32_t ops)
{
    uint32_t first = (uint32_t)((uint64_t)v.rows * i / ops), end = (uint32_t)((uint64_t)v.rows * (i + 1) / ops);
    return v.buf ? rt_view_rows(p, v, first, end - first) : v;
}

/* Which operands are windows inside wider buffers: at odd offsets, or at offsets and strides of whole RT_ALIGNED_ELEMS
 * (twice that where an element is a byte), which is how the parts of a fused projection lie and what kernels that move
 * 16 bytes at a time ask for. */
typedef enum rt_strided {
    RT_DENSE,
    RT_STRIDED,
    RT_STRIDED_OUT,
    RT_STRIDED_IN,
    RT_STRIDED_ALIGNED,
    RT_STRIDED_COUNT
} rt_strided;
enum { RT_ALIGNED_ELEMS = 8 };

typedef struct rt_op_set rt_op_set;

typedef struct rt_op_case {
    const rt_op_set *set;
    const char *name;
    rt_signature sig;
    uint32_t sig_index, shape_kind;
    uint32_t dim[RT_CASE_DIMS];
    uint8_t flag[RT_CASE_FLAGS];
    uint8_t strided; /* rt_strided */
    bool coarse;     /* floats are multiples of 1/4, so that sums of very many are exact */
} rt_op_case;

/* Where a fill writes, dense: x for float slots (rounded to the slot's dtype afterwards), i for i32 and u32, b for u8.
 */
typedef struct rt_fill {
    double *x;
    int32_t *i;
    uint8_t *b;
    uint32_t rows, cols;
    double p, q; /* parameters from the layout */
    uint64_t seed, stream;
} rt_fill;
typedef void (*rt_fill_fn)(const rt_op_case *c, const rt_fill *f);

typedef struct rt_slot_layout {
    uint32_t rows, cols; /* rows 0: absent */
    rt_fill_fn fill;     /* null: not defined at entry */
    double p, q;
    bool compact;      /* no window where windows are aligned: a column that is asked for without gaps */
    uint8_t in_place;  /* 1 + the input slot whose view this output is; 0: its own */
    uint8_t want_from; /* 1 + the slot that holds the wanted values in the double run; 0: the same one */
} rt_slot_layout;

typedef struct rt_layout {
    rt_slot_layout slot[RT_MAX_SLOTS];
} rt_layout;

struct rt_values; /* values.h */

/* The case of more elements than 32 bits count, which repeats a pattern of this shape (large_cases.c). */
typedef struct rt_op_large {
    const char *signature; /* as rt_signature_text has it; null: there is no such case */
    uint32_t dim[RT_CASE_DIMS];
    uint8_t flag[RT_CASE_FLAGS];
    bool coarse; /* as in rt_op_case */
} rt_op_large;

struct rt_op_set {
    rt_op_kind kind;
    uint32_t ndims;
    const rt_op_shape *shapes; /* the first one is ODD and small */
    uint32_t nshapes;
    const rt_op_shape *more; /* drawn behind everything else, so that a new one leaves the others their flags */
    uint32_t nmore;
    const rt_op_flag *flags;
    uint32_t nflags;
    /* The values of a flag that the signature allows, as bits; null: all. */
    uint32_t (*allowed)(const rt_op_case *c, uint32_t flag);
    /* Makes dimensions and flags fit together (blocks of quantised types, heads); null: they always do. */
    void (*fix)(rt_op_case *c);
    void (*layout)(const rt_op_case *c, rt_layout *l);
    void (*emit)(rt_plan *p, const rt_op_case *c, const rt_view *v);
    /* Inputs that depend on others; null: none. */
    int (*prepare)(struct rt_values *v, rt_verify_env *env, rt_err *e);
    /* The magnitudes behind each element of an output, for tolerances of scale TERMS; scale is (rows,cols). */
    void (*terms)(struct rt_values *v, uint32_t slot, const double *want, double *scale);
    /* What makes `ref` in float less exact than f32 kernels need be, squared: how many numbers are added up one by one,
     * an angle or a logit held in float; null: 1. */
    double (*serial_terms)(const rt_op_case *c);
    /* Is this output stored in few bits, rounded by chance? Then `rounds` says whether what the buffers hold is what a
     * value within slack (rows,cols) of want (rows,cols) is rounded to, and why not; null: there is none. */
    bool (*by_chance)(const rt_op_case *c, uint32_t slot);
    bool (*rounds)(struct rt_values *v, uint32_t slot, uint8_t *const *got, const double *want, const double *slack,
                   char text[RT_ROUNDS_TEXT]);
    /* An id that is not the wanted one: can it be told from it within `slack`, an error of a probability? null: yes. */
    bool (*accepts)(struct rt_values *v, uint32_t row, int32_t got, double slack);
    rt_op_large large; /* of every op whose time is that of its bytes */
};

/* Adds the cases of a set (generate.c). */
void rt_case_list_add_set(rt_case_list *l, const rt_op_set *set);
/* Flag f of a case and the values that its signature allows, as bits; f == nflags is the striding. */
uint32_t rt_op_case_flag(const rt_op_case *c, uint32_t flag);
uint32_t rt_op_case_flag_values(const rt_op_case *c, uint32_t flag);
/* The set of every op (ops.c): `const rt_op_set rt_op_set_<op>` in one of the files cases_*.c. */
extern const rt_op_set *const rt_op_sets[RT_OP_COUNT];
#define X(kind, name, args, text) extern const rt_op_set rt_op_set_##name;
RT_OP_LIST(X)
#undef X
/* The harness. c->data is an rt_op_case. */
int rt_op_case_run(const rt_case *c, rt_verify_env *env, rt_case_result *r, rt_err *e);
/* The same on more than 2^31 elements (large.c): its first dimension is rows, the pattern that the case repeats.
 * RT_CASE_UNSUPPORTED, with what it would need, where memory is short. */
int rt_large_case_run(const rt_case *c, rt_verify_env *env, rt_case_result *r, rt_err *e);

/* Does every legal signature of every op have the cases that it must have (coverage.c)? For the unit tests: a new op,
 * dtype rule, operand or flag without cases turns them red. RT_OK, or RT_INTERNAL naming the first op and signature
 * that lacks something, and what. Of each signature: every kind of shape that its op lists, at least an odd one and one
 * of ones, and a big one unless the op has one shape only; every allowed value of every flag; `=` and `+=` of every
 * accumulating output; every in-place form. Of each op: every optional operand present and absent; every output strided
 * and not; every vector width, unless it has one shape only. */
int rt_coverage_check(const rt_case_list *l, rt_err *e);

/* ---- for layouts ---- */
static inline bool rt_case_has(const rt_op_case *c, uint32_t slot) { return !(c->sig.absent >> slot & 1); }
/* Does the op leave its y as codes, with a scale for each row? What it gives is then compared with what it gives as A
 * and quant_rows makes of that, on the same device. */
static inline bool rt_case_codes(const rt_op_case *c)
{
    return rt_op_codes(c->set->kind) && c->sig.dtype[RT_CODED_Y] == RT_DTYPE_E4M3;
}
/* Big rows of whole packs lie so that kernels may hold them and code them out of registers. */
static inline void rt_case_hold_codes(rt_op_case *c, uint32_t cols)
{
    if (rt_case_codes(c) && c->shape_kind & RT_SHAPE_BIG && cols % 8 == 0 && c->strided != RT_STRIDED_ALIGNED)
        c->strided = RT_DENSE;
}
/* x rounded up to the block of a slot's dtype. */
static inline uint32_t rt_case_block(const rt_op_case *c, uint32_t slot, uint32_t x)
{
    uint32_t b = rt_dtype_table[c->sig.dtype[slot]].block_elems;
    return (x + b - 1) / b * b;
}
#define RT_SLOT(r, c, ...) ((rt_slot_layout){ .rows = (r), .cols = (c), .fill = __VA_ARGS__ })
#define RT_COUNT(a) ((uint32_t)(sizeof(a) / sizeof *(a)))
/* An array of a set and how many it has. */
#define RT_TABLE(field, a) .field = (a), .n##field = RT_COUNT(a)

/* ---- fills (fills.c); p and q as said ---- */
void rt_fill_normal(const rt_op_case *c, const rt_fill *f);   /* mean p, deviation q (0: 1) */
void rt_fill_positive(const rt_op_case *c, const rt_fill *f); /* |normal| q + p */
void rt_fill_const(const rt_op_case *c, const rt_fill *f);    /* p */
void rt_fill_special(const rt_op_case *c,
                     const rt_fill *f); /* normal, with infinities, NaN, zeros, tiny and huge values */
void rt_fill_ties(const rt_op_case *c, const rt_fill *f);      /* normal times q, rounded to multiples of p */
void rt_fill_below(const rt_op_case *c, const rt_fill *f);     /* integers in [0,p); q > 0: about one in q outside it */
void rt_fill_positions(const rt_op_case *c, const rt_fill *f); /* integers rising from p, q apart */
void rt_fill_bits(const rt_op_case *c,
                  const rt_fill *f); /* u32 words with about p of the first q bits set, never none */
void rt_fill_step(const rt_op_case *c, const rt_fill *f);  /* step p, tokens q */
void rt_fill_fault(const rt_op_case *c, const rt_fill *f); /* p: set or not */

/* The random numbers of fills: of element i, from the fill's seed and stream. */
double rt_fill_number(const rt_fill *f, uint64_t i);
uint32_t rt_fill_word(const rt_fill *f, uint64_t i);

#endif
