/* op_rows.h - the ops of lowered programs, sorted into rows of equal ones, each row timed as a program of its own.
 *
 * Owns: what counts as equal, the program of a row, what it finds in memory, the clock. A row runs its ops one after
 * the other, as a step does, on as many buffers as in the step, so launches and the gaps between them count. Every
 * activation has a place of its own, so that ops that are neighbours in a row and not in a step do not meet in a cache;
 * where the buffers are few enough to stay in one, the ops are repeated on others. Rates and what they are compared
 * with are the caller's. Expansions that follow one another in a step are one item of a row, for a device may launch
 * them together; items of a row, which do not follow one another, are kept from that. */
#ifndef BENCH_OP_ROWS_H
#define BENCH_OP_ROWS_H

#include "exec/exec.h"

typedef struct op_row {
    const char *group; /* part of the step that it belongs to */
    rt_op_kind kind;
    char what[96];       /* shape and dtypes */
    uint32_t count;      /* items of the step */
    uint32_t per;        /* ops of an item, one behind the other */
    double bytes, flops; /* of all of them */
    double seconds;      /* of all of them, once measured */
    const rt_plan *from; /* where they are, lowered */
    uint32_t *ops, cap;  /* (count) the first of each */
    rt_plan *plan;       /* the row as a program */
    uint32_t turns;      /* times that all of them are in it */
} op_row;

typedef struct op_rows {
    op_row *list;
    uint32_t count, cap;
    uint32_t first; /* program of the first row among those that are sealed */
    rt_plan *noise; /* fills the arena; the program behind the last row */
} op_rows;

/* n ops from `op` on of the program `from`, which must outlive the rows. All updates of parameters are one row. */
void op_rows_add(op_rows *r, const char *group, const rt_plan *from, uint32_t op, uint32_t n);
/* n programs and then the rows, each of which touches at least so many bytes. noise: a buffer of the space, of class
 * INPUT, whose values rows find in their activations; the caller writes it. */
rt_exec *op_rows_seal(op_rows *r, rt_dev *dev, const rt_plan *const *programs, uint32_t n, double least, rt_view noise);
/* Measures row i. */
void op_rows_time(op_rows *r, rt_exec *x, uint32_t i);
void op_rows_free(op_rows *r);

/* Seconds of a program on its device: of one run; the middle of several, after one that does not count. */
double bench_run(rt_exec *x, uint32_t program);
double bench_seconds(rt_exec *x, uint32_t program);
_Noreturn void bench_die(const char *what, const rt_err *e);

#endif
