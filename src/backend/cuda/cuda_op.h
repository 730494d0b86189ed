/* cuda_op.h - what the host part of the op families shares: refusals, alignment, the cut of elementwise work, names.
 *
 * Owns: nothing that runs; these are the decisions made once per op when a program is sealed. */
#ifndef RT_BACKEND_CUDA_CUDA_OP_H
#define RT_BACKEND_CUDA_CUDA_OP_H

#include "backend/cuda/cuda_launch.h"
#include "backend/cuda/kernels/cuda_args.h"

#include <stdio.h>
#include <string.h>

#define X(kind, name, args, text) extern const rt_cuda_op rt_cuda_##name;
RT_OP_LIST(X)
#undef X

/* Fills need with the text for the plan printer; refuses f64, which is the specification's storage and has no kernels
 * here. */
static inline bool cuda_takes(const rt_plan *p, const rt_op *op, rt_need *need, const char *kernel)
{
    *need = (rt_need){ .kernel = kernel };
    RT_FOR_SLOTS (i, op->kind)
        if (op->slot[i].buf && rt_op_specs[op->kind].slot[i].rule != RT_RULE_ANY &&
            rt_plan_dtype(p, op->slot[i]) == RT_DTYPE_F64) {
            snprintf(need->why_not, sizeof need->why_not, "operand '%s' is f64, which backend ref alone computes in",
                     rt_op_specs[op->kind].slot[i].name);
            return false;
        }
    return true;
}

/* What `need` decides and `emit` does: a struct of the family's, carried by the sealed op. */
#define CUDA_CHOOSE(need, x)                                                                                           \
    do {                                                                                                               \
        _Static_assert(sizeof(x) <= sizeof(rt_choice), "a choice is carried by value");                                \
        memcpy((need)->choice.words, &(x), sizeof(x));                                                                 \
    } while (0)
#define CUDA_CHOSEN(op, x) memcpy(&(x), (op)->choice.words, sizeof(x))

static inline rt_cuda_mat cuda_mat(const rt_operand *o) { return (rt_cuda_mat){ rt_cuda_addr(o), o->stride }; }

static inline uint64_t cuda_div_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

static inline uint32_t cuda_size(rt_dtype d) { return rt_dtype_table[d].block_bytes; }

/* Elements of a 16-byte access. */
static inline uint32_t cuda_width(rt_dtype d) { return 16 / cuda_size(d); }

/* Is every full pack of W elements of the operand aligned for accesses of up to 16 bytes? An absent one is. */
static inline bool cuda_aligned(const rt_operand *o, uint32_t W)
{
    uint32_t bytes = W * cuda_size(o->dtype), unit = bytes < 16 ? bytes : 16;
    if (!o->mem) return true;
    return rt_cuda_addr(o) % unit == 0 && (o->rows == 1 || o->stride * cuda_size(o->dtype) % unit == 0);
}

/* Cuts the slots whose bit is set in `slots`, all of one shape, into packs of W elements. */
static inline rt_cuda_tile cuda_tile(const rt_bound_op *o, uint32_t slots, uint32_t W)
{
    rt_cuda_tile t = { .whole = 1 };
    bool dense = true;
    for (uint32_t i = 0; i < o->nslots; i++) {
        const rt_operand *s = &o->slot[i];
        if (!(slots >> i & 1) || !s->mem) continue;
        t.rows = s->rows;
        t.cols = s->cols;
        dense = dense && (s->rows == 1 || s->stride == s->cols);
    }
    if (dense) {
        t.cols *= t.rows;
        t.rows = 1;
    }
    for (uint32_t i = 0; i < o->nslots; i++) {
        rt_operand s = o->slot[i];
        if (!(slots >> i & 1) || !s.mem) continue;
        if (dense) s.rows = 1;
        if (!cuda_aligned(&s, W)) t.whole = 0;
    }
    t.packs = cuda_div_up(t.cols, W);
    return t;
}

/* Whole warps for each row of so many packs, `holds` packs a thread, at most `most` threads; and how many such teams a
 * block has. */
typedef struct rt_cuda_team {
    uint32_t threads, teams;
    bool holds; /* all packs of a row */
} rt_cuda_team;
static inline rt_cuda_team cuda_team(uint64_t packs, uint32_t holds, uint32_t most)
{
    uint64_t whole = cuda_div_up(cuda_div_up(packs, holds), 32) * 32;
    rt_cuda_team t = { .threads = whole < most ? (uint32_t)whole : most, .holds = whole <= most };
    t.teams = t.threads < RT_CUDA_BLOCK ? RT_CUDA_BLOCK / t.threads : 1;
    return t;
}

/* Blocks of RT_CUDA_BLOCK threads with U packs each; at most `most`. */
static inline uint32_t cuda_tile_blocks(const rt_cuda_tile *t, uint32_t U, uint32_t most)
{
    uint64_t n = cuda_div_up(t->rows * t->packs, (uint64_t)RT_CUDA_BLOCK * U);
    return n < most ? (uint32_t)n : most;
}
enum { RT_CUDA_GRID_MAX = INT32_MAX };

/* One launch with a grid of one dimension. */
static inline void cuda_push_1d(rt_cuda_builder *b, const char *module, const char *kernel, uint32_t blocks,
                                uint32_t threads, uint32_t shared, const void *params, uint32_t bytes)
{
    const uint32_t grid[3] = { blocks, 1, 1 };
    rt_cuda_push(b, module, kernel, grid, threads, shared, params, bytes);
}

/* The kernel of an op for one type, or for two: "add" and bf16 give "add_bf16". */
_Static_assert(RT_DTYPE_F32 == 0 && RT_DTYPE_BF16 == 1 && RT_DTYPE_F16 == 2, "kernel names are listed in this order");
#define CUDA_KERNEL(op, d) ((const char *const[]){ op "_f32", op "_bf16", op "_f16" }[d])
#define CUDA_KERNEL2(op, d, e)                                                                                         \
    ((const char *const[]){ op "_f32_f32", op "_f32_bf16", op "_f32_f16", op "_bf16_f32", op "_bf16_bf16",             \
                            op "_bf16_f16", op "_f16_f32", op "_f16_bf16", op "_f16_f16" }[3 * (d) + (e)])

/* Do operands share a byte? */
static inline bool cuda_meet(const rt_operand *a, const rt_operand *b)
{
    if (!a->mem || a->mem != b->mem) return false;
    uint64_t end_a = a->off + rt_dtype_bytes(a->dtype, (a->rows - 1) * a->stride + a->cols);
    uint64_t end_b = b->off + rt_dtype_bytes(b->dtype, (b->rows - 1) * b->stride + b->cols);
    return a->off < end_b && b->off < end_a;
}

/* May two ops of one kind run in any order, or at once? So if neither writes what the other touches. Slots whose bit is
 * set in `shared` are not compared with one another: the family knows what it does with them. */
static inline bool cuda_apart(const rt_bound_op *a, const rt_bound_op *b, uint32_t shared)
{
    const rt_slot_spec *spec = rt_op_specs[a->kind].slot;
    for (uint32_t i = 0; i < a->nslots; i++)
        for (uint32_t k = 0; k < b->nslots; k++) {
            bool written = spec[i].access != RT_READ || spec[k].access != RT_READ;
            if (written && !(i == k && shared >> i & 1) && cuda_meet(&a->slot[i], &b->slot[k])) return false;
        }
    return true;
}

static inline bool cuda_adds(const rt_bound_op *o, uint32_t slot) { return o->acc >> slot & 1; }

#endif
