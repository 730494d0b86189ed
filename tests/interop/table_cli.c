/* table_cli.c - the rows of a table, for test_parquet.py and bench/bench_table.py.
 *
 *   table_cli rows KIND FILE [COLUMN...]   a row per line, as JSON; then, on stderr, the columns that were left out
 *   table_cli time KIND FILE [COLUMN...]   "ROWS BYTES SECONDS": of the JSON text, in CPU time of this thread
 *
 * KIND: parquet, csv, tsv. Ends with the exit code of the status. */
#include "base/err.h"
#include "text/table/table.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = { "parquet", "csv", "tsv" };
    int kind = 0;
    if (argc < 4) return 2;
    while (kind < 3 && strcmp(kinds[kind], argv[2]) != 0) kind++;
    bool print = strcmp(argv[1], "rows") == 0;
    const char *const *columns = argc > 4 ? (const char *const *)argv + 4 : NULL;
    rt_err e = { 0 };
    rt_table *t = NULL;
    rt_str row = { 0 };
    unsigned long long rows = 0, bytes = 0;
    double start = cpu_seconds();
    int rc = rt_table_open(&t, argv[3], (rt_table_kind)kind, columns, (uint32_t)argc - 4, &e);
    while (rc >= 0 && (rc = rt_table_next(t, &row, &e)) == 1) {
        if (print) {
            fwrite(row.data, 1, row.len, stdout);
            putchar('\n');
        }
        rows++;
        bytes += row.len;
        row.len = 0;
    }
    if (rc < 0) fprintf(stderr, "%s\n", e.text);
    if (rc == 0 && print && rt_table_left_out(t)) fprintf(stderr, "left out: %s\n", rt_table_left_out(t));
    if (!print) printf("%llu %llu %.3f\n", rows, bytes, cpu_seconds() - start);
    rt_str_free(&row);
    rt_table_close(t);
    return rt_status_exit(rc);
}
