/* table.c - see table.h: one door before the formats. */
#include "text/table/table.h"

#include "base/mem.h"
#include "text/table/table_internal.h"

struct rt_table {
    rt_pq_file *parquet; /* one of the two */
    rt_csv *csv;
    uint64_t line;
    bool ended;
};

int rt_table_open(rt_table **out, const char *path, rt_table_kind kind, const char *const *columns, uint32_t count,
                  rt_err *e)
{
    rt_table *t = rt_alloc_zero(sizeof *t, 16);
    *out = NULL;
    if (!t) return rt_no_memory(e, path);
    int rc = kind == RT_TABLE_PARQUET
                 ? rt_pq_open(&t->parquet, path, columns, count, e)
                 : rt_csv_open(&t->csv, path, kind == RT_TABLE_TSV ? '\t' : ',', columns, count, e);
    if (rc < 0)
        rt_free(t);
    else
        *out = t;
    return rc;
}

int rt_table_next(rt_table *t, rt_str *out, rt_err *e)
{
    if (t->ended) return 0;
    int rc = t->parquet ? rt_pq_next(t->parquet, out, e) : rt_csv_next(t->csv, out, &t->line, e);
    if (t->parquet && rc > 0) t->line++;
    t->ended = rc <= 0 && !rt_table_fault(t);
    return rc;
}

const char *rt_table_fault(const rt_table *t) { return t->csv ? rt_csv_fault(t->csv) : NULL; }

uint32_t rt_table_over_lines(const rt_table *t) { return t->csv ? rt_csv_over_lines(t->csv) : 0; }

uint64_t rt_table_line(const rt_table *t) { return t->line; }

uint64_t rt_table_at(const rt_table *t) { return !t ? 0 : t->parquet ? rt_pq_at(t->parquet) : rt_csv_at(t->csv); }

const char *rt_table_left_out(const rt_table *t) { return t->parquet ? rt_pq_left_out(t->parquet) : NULL; }

const char *rt_table_unread(const rt_table *t) { return t->parquet ? rt_pq_unread(t->parquet) : rt_csv_unread(t->csv); }

bool rt_table_reads(const rt_table *t, const char *column)
{
    return t->parquet ? rt_pq_reads(t->parquet, column) : rt_csv_reads(t->csv, column);
}

void rt_table_close(rt_table *t)
{
    if (!t) return;
    rt_pq_close(t->parquet);
    rt_csv_close(t->csv);
    rt_free(t);
}
