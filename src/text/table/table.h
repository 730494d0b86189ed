/* table.h - rows of text columns in Parquet, CSV and TSV files, each as one JSON object.
 *
 * Owns: the three formats, read front to back with bounded memory: of Parquet a page of each column at a time, of CSV
 * one row. A row is the JSON text of an object from column to value, which is what a line of JSONL is, so whoever reads
 * records needs no second way. Files are untrusted: every size is held against the file or a limit before it is used.
 *
 * Parquet: columns of texts, integers, floating point and booleans, in structs and lists of any nesting; a map is a
 * list of {"key": ..., "value": ...}. Null is null; a number that JSON lacks (infinity, NaN) is null too. Encodings and
 * codecs are those that table_internal.h lists. CSV and TSV: RFC 4180 with a header; values are texts.
 *
 * Bytes of a text that are no UTF-8 stay as they are: the row is then no JSON, and its reader refuses it, as it would a
 * line. */
#ifndef RT_TABLE_TABLE_H
#define RT_TABLE_TABLE_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum rt_table_kind { RT_TABLE_PARQUET, RT_TABLE_CSV, RT_TABLE_TSV } rt_table_kind;

enum { RT_TABLE_ROW_LIMIT = 256 << 20 }; /* bytes of one row */

typedef struct rt_table rt_table;

/* columns: the names to read, (count); those that the file lacks are left out, and it is RT_INVALID when it has none of
 * them. Null: all that can be read. A named column of a type, encoding or codec that is not read is RT_UNSUPPORTED. */
int rt_table_open(rt_table **out, const char *path, rt_table_kind kind, const char *const *columns, uint32_t count,
                  rt_err *e);
/* Appends the next row to out. 1: a row; 0: no more; negative: a status, after which nothing more is read, unless
 * rt_table_fault says that it is the row's alone. */
int rt_table_next(rt_table *t, rt_str *out, rt_err *e);
/* Of a CSV row that has more or fewer fields than the header: what is wrong with it, without its place; null: nothing.
 * It lives as long as the table. */
const char *rt_table_fault(const rt_table *t);
/* Quoted fields of the row given last that span several lines. */
uint32_t rt_table_over_lines(const rt_table *t);
/* Where the row given last begins: its line in a CSV, its number in a Parquet file; from 1. */
uint64_t rt_table_line(const rt_table *t);
/* Bytes of the file read so far; null: 0. */
uint64_t rt_table_at(const rt_table *t);
/* Columns that were left out because they cannot be read, as a list with commas; null: none. */
const char *rt_table_left_out(const rt_table *t);
/* Columns that were not asked for, each name ended by a newline; null: none. */
const char *rt_table_unread(const rt_table *t);
bool rt_table_reads(const rt_table *t, const char *column); /* it is there, and was asked for */
void rt_table_close(rt_table *t);                           /* accepts null */

#endif
