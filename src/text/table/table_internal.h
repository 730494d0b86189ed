/* table_internal.h - between the files that read tables: of Parquet thrift, the footer, pages, values, rows; CSV.
 *
 * Read: pages v1 and v2, dictionaries; PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY, RLE, DELTA_BINARY_PACKED,
 * DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY, BYTE_STREAM_SPLIT; no compression, snappy, gzip, brotli, zstd, LZ4_RAW.
 * The format is that of apache/parquet-format. Numbers here are those of its thrift file. */
#ifndef RT_TABLE_TABLE_INTERNAL_H
#define RT_TABLE_TABLE_INTERNAL_H

#include "base/file.h"

#include <string.h>

/* Whether a column is one of those that are wanted; null: all are. */
static inline bool rt_table_asked(rt_span name, const char *const *columns, uint32_t count)
{
    for (uint32_t i = 0; columns && i < count; i++)
        if (strlen(columns[i]) == name.len && memcmp(columns[i], name.data, name.len) == 0) return true;
    return columns == NULL;
}

/* Whether a key of a row, `"name":` with or without a comma before it, is of this column. */
static inline bool rt_table_is_key(rt_span key, const char *column)
{
    size_t n = strlen(column), comma = key.len && key.data[0] == ',';
    return key.len == comma + n + 3 && memcmp(key.data + comma + 1, column, n) == 0;
}

enum {
    RT_PQ_DEPTH = 32,             /* groups within groups, structs within structs */
    RT_PQ_PAGE_LIMIT = 512 << 20, /* bytes of a page, decompressed */
    RT_PQ_SLACK = 64,             /* bytes after a buffer that a decoder may scribble on */
};
#define RT_PQ_HELD_LIMIT (3ull << 30) /* bytes of all buffers of a file together */

typedef enum rt_pq_type { /* physical */
                          RT_PQ_BOOLEAN,
                          RT_PQ_INT32,
                          RT_PQ_INT64,
                          RT_PQ_INT96,
                          RT_PQ_FLOAT,
                          RT_PQ_DOUBLE,
                          RT_PQ_BYTE_ARRAY,
                          RT_PQ_FIXED,
                          RT_PQ_TYPES,
} rt_pq_type;

typedef enum rt_pq_encoding {
    RT_PQ_PLAIN = 0,
    RT_PQ_PLAIN_DICTIONARY = 2,
    RT_PQ_RLE = 3,
    RT_PQ_BIT_PACKED = 4,
    RT_PQ_DELTA_BINARY_PACKED = 5,
    RT_PQ_DELTA_LENGTH_BYTE_ARRAY = 6,
    RT_PQ_DELTA_BYTE_ARRAY = 7,
    RT_PQ_RLE_DICTIONARY = 8,
    RT_PQ_BYTE_STREAM_SPLIT = 9,
} rt_pq_encoding;

/* ---- thrift and the footer (parquet_footer.c) ---- */

typedef enum rt_pq_repetition { RT_PQ_REQUIRED, RT_PQ_OPTIONAL, RT_PQ_REPEATED } rt_pq_repetition;

typedef enum rt_pq_meaning { /* what an annotation makes of a type, as far as it matters here */
                             RT_PQ_AS_IT_IS,
                             RT_PQ_LIST,
                             RT_PQ_MAP,
                             RT_PQ_UNSIGNED,
                             RT_PQ_OTHER, /* dates, decimals and the like: the stored number is not the value */
} rt_pq_meaning;

typedef struct rt_pq_element { /* of the schema, in depth-first order */
    rt_span name;
    rt_pq_repetition repetition;
    rt_pq_meaning meaning;
    int type;          /* rt_pq_type; -1: a group */
    uint32_t children; /* of a group */
} rt_pq_element;

typedef struct rt_pq_footer {
    const char *path;
    rt_map map;
    uint64_t data_end;       /* where the footer begins */
    rt_pq_element *elements; /* (element_count), the root first */
    uint32_t element_count;
    const uint8_t *groups; /* the row groups, one after the other, still in thrift */
    uint32_t group_count;
} rt_pq_footer;
/* Everything but the map lies in a. Close the map whatever the answer. */
int rt_pq_footer_open(rt_pq_footer *f, rt_arena *a, const char *path, rt_err *e);

typedef struct rt_pq_chunk { /* a column of a row group */
    uint64_t begin, end;     /* bytes of the file */
    uint64_t values;         /* with nulls */
    int type, codec;
    bool encrypted, elsewhere; /* in another file */
} rt_pq_chunk;
typedef void rt_pq_chunk_fn(void *ctx, uint32_t column, const rt_pq_chunk *c);
/* The row group that begins at *at, which is moved after it: each of its columns is given to fn. */
int rt_pq_group_read(const rt_pq_footer *f, const uint8_t **at, uint64_t *rows, rt_pq_chunk_fn *fn, void *ctx,
                     rt_err *e);

typedef enum rt_pq_page_kind { RT_PQ_DATA, RT_PQ_INDEX, RT_PQ_DICTIONARY, RT_PQ_DATA_V2 } rt_pq_page_kind;
typedef struct rt_pq_page {
    int kind;
    uint32_t size, packed; /* bytes: decompressed, in the file */
    bool has_crc;
    uint32_t crc;
    uint32_t values; /* with nulls */
    int encoding, def_encoding, rep_encoding;
    uint32_t def_bytes, rep_bytes; /* v2 */
    bool compressed;               /* v2 */
} rt_pq_page;
/* The header at *at, which is moved to the page's bytes. False when it is broken. */
bool rt_pq_page_read(const uint8_t **at, const uint8_t *end, rt_pq_page *p);

/* ---- compression (parquet_codec.c) ---- */

typedef struct rt_pq_codecs rt_pq_codecs; /* what decompressors keep between pages */
int rt_pq_codecs_new(rt_pq_codecs **out, rt_err *e);
void rt_pq_codecs_free(rt_pq_codecs *c); /* accepts null */
/* "SNAPPY"; null: unknown. And whether it is read. */
const char *rt_pq_codec_name(int codec);
bool rt_pq_codec_known(int codec);
/* Exactly `size` bytes into out, which has RT_PQ_SLACK more. RT_FORMAT without a message when the bytes are broken. */
int rt_pq_decompress(rt_pq_codecs *c, int codec, const uint8_t *in, size_t in_size, uint8_t *out, size_t size,
                     rt_err *e);

/* ---- values (parquet_values.c) ---- */

/* Runs and bit-packed stretches of small numbers: levels, dictionary indices, booleans. */
typedef struct rt_pq_runs {
    const uint8_t *p, *end;
    uint32_t width; /* bits */
    bool packed;
    uint64_t left;  /* values of the current run */
    uint32_t value; /* of a run */
    uint64_t bit;   /* of a packed stretch: the next value's, from p; p moves when it ends */
    uint64_t bytes; /* of a packed stretch */
} rt_pq_runs;
rt_pq_runs rt_pq_runs_of(const uint8_t *p, const uint8_t *end, uint32_t width);
bool rt_pq_runs_next(rt_pq_runs *r, uint32_t *value); /* false when there are no more bytes */

typedef struct rt_pq_delta { /* DELTA_BINARY_PACKED */
    const uint8_t *p, *end;
    uint64_t left; /* values */
    uint64_t value, min_delta;
    uint32_t mini_count, mini_size; /* of a block: miniblocks, values in one */
    uint32_t mini, in_mini;         /* the next miniblock; values left in the current one */
    uint32_t width;                 /* bits of a value in the current one */
    const uint8_t *widths;          /* (mini_count) */
    const uint8_t *bits;            /* of the current miniblock */
    uint64_t bit;
    bool first;
} rt_pq_delta;

typedef struct rt_pq_dictionary {
    uint32_t count;
    const uint8_t *data;
    uint32_t *texts; /* of byte arrays: where in data each one's length stands, (count) */
    uint32_t texts_cap;
} rt_pq_dictionary;

typedef union rt_pq_value {
    rt_span text;
    uint64_t bits; /* of a number, in its lowest bytes */
} rt_pq_value;

typedef struct rt_pq_values { /* the values of a page that are not null, one by one */
    rt_pq_type type;
    int encoding;
    uint32_t width;         /* bytes of a number */
    const uint8_t *p, *end; /* what is not read yet */
    uint64_t at, count;     /* BYTE_STREAM_SPLIT: values; booleans: bits */
    rt_pq_runs runs;        /* indices, booleans */
    rt_pq_delta delta, lengths;
    const rt_pq_dictionary *dictionary;
    rt_str last; /* DELTA_BYTE_ARRAY: the value before */
} rt_pq_values;
/* Begins a page's values. RT_UNSUPPORTED for an encoding that does not go with the type. */
int rt_pq_values_begin(rt_pq_values *v, const uint8_t *p, const uint8_t *end, rt_err *e);
/* RT_FORMAT without a message when the page is broken. A text is valid until the next call. */
int rt_pq_values_next(rt_pq_values *v, rt_pq_value *out);
/* The values of a dictionary page, which must stay. RT_FORMAT without a message when it is broken. */
int rt_pq_dictionary_read(rt_pq_dictionary *d, rt_pq_type type, const uint8_t *p, const uint8_t *end, uint32_t count);

/* ---- columns: entries of levels and values (parquet_page.c) ---- */

typedef struct rt_pq_leaf {
    const char *name; /* with dots, for messages */
    rt_pq_type type;
    bool is_unsigned;
    uint8_t max_def, max_rep;
    uint32_t column; /* in a row group */
    /* of the current row group */
    int codec;
    bool seen; /* the row group has it */
    const uint8_t *p, *end;
    uint64_t left; /* values not yet in a page */
    /* of the current page */
    uint32_t page_left;
    rt_pq_runs defs, reps;
    rt_pq_values values;
    uint8_t *page, *dictionary_page; /* decompressed; grown */
    size_t page_cap, dictionary_cap;
    rt_pq_dictionary dictionary;
    bool has_dictionary;
    /* the current entry */
    bool loaded;
    uint8_t def, rep;
} rt_pq_leaf;

typedef struct rt_pq_reader { /* what the columns of a file share */
    rt_pq_footer footer;
    rt_pq_codecs *codecs;
    uint64_t held; /* bytes of buffers */
} rt_pq_reader;

int rt_pq_leaf_begin(rt_pq_reader *r, rt_pq_leaf *l, const rt_pq_chunk *c, rt_err *e);
/* 1: the current entry's levels are there; 0: the row group has no more; negative: a status. */
int rt_pq_leaf_load(rt_pq_reader *r, rt_pq_leaf *l, rt_err *e);
int rt_pq_leaf_broken(const rt_pq_reader *r, const rt_pq_leaf *l, const char *what, rt_err *e);
void rt_pq_leaf_free(rt_pq_leaf *l);

/* ---- the shape of a row (parquet_schema.c) ---- */

typedef enum rt_pq_shape { RT_PQ_LEAF, RT_PQ_STRUCT, RT_PQ_LIST_OF } rt_pq_shape;

typedef struct rt_pq_node {
    rt_pq_shape shape;
    uint8_t def;      /* the definition level from which it is not null */
    uint8_t item_def; /* a list's: from which it has an element */
    uint8_t rep;      /* a list's: the repetition level of all elements but the first */
    uint32_t leaf;    /* the first of its leaves; they are neighbours */
    uint32_t leaf_count;
    uint32_t child_count;
    struct rt_pq_node *children; /* a list has one */
    rt_span key;                 /* of a member of a struct: `"name":` with a comma before all but the first */
} rt_pq_node;

typedef struct rt_pq_tree {
    rt_pq_node root;
    rt_pq_leaf *leaves;
    uint32_t leaf_count;
    const char *left_out; /* names of columns; null: none */
    const char *unread;   /* those not asked for, each with a newline behind it; null: none */
} rt_pq_tree;
/* The columns that are asked for (null: all that can be read), in the order of the file. All in a. */
int rt_pq_tree_build(rt_pq_tree *t, rt_arena *a, const rt_pq_footer *f, const char *const *columns, uint32_t count,
                     rt_err *e);

/* ---- rows (parquet_rows.c) ---- */

typedef struct rt_pq_file rt_pq_file;
int rt_pq_open(rt_pq_file **out, const char *path, const char *const *columns, uint32_t count, rt_err *e);
int rt_pq_next(rt_pq_file *f, rt_str *out, rt_err *e); /* as rt_table_next */
uint64_t rt_pq_at(const rt_pq_file *f);
const char *rt_pq_left_out(const rt_pq_file *f);
const char *rt_pq_unread(const rt_pq_file *f);
bool rt_pq_reads(const rt_pq_file *f, const char *column); /* as rt_table_reads */
void rt_pq_close(rt_pq_file *f);                           /* accepts null */

/* ---- CSV (table_csv.c) ---- */

typedef struct rt_csv rt_csv;
int rt_csv_open(rt_csv **out, const char *path, char separator, const char *const *columns, uint32_t count, rt_err *e);
int rt_csv_next(rt_csv *c, rt_str *out, uint64_t *line, rt_err *e); /* as rt_table_next; *line: where the row begins */
uint64_t rt_csv_at(const rt_csv *c);
const char *rt_csv_unread(const rt_csv *c);
const char *rt_csv_fault(const rt_csv *c);              /* as rt_table_fault */
uint32_t rt_csv_over_lines(const rt_csv *c);            /* as rt_table_over_lines */
bool rt_csv_reads(const rt_csv *c, const char *column); /* as rt_table_reads */
void rt_csv_close(rt_csv *c);                           /* accepts null */

#endif
