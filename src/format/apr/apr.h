/* apr.h - APR v2 files: read, laid out; and what the files of this room give one another: the numbers of the header,
 * the types, the metadata.
 *
 * The file, all integers little-endian: a header of 64 bytes, JSON metadata, an index of tensors sorted by name, the
 * tensors, each section and each tensor padded with zeroes to 64 bytes, and CRC32 over everything before in the last
 * four bytes. */
#ifndef RT_FORMAT_APR_H
#define RT_FORMAT_APR_H

#include "base/pool.h"
#include "format/tensor/model_out.h"

bool rt_apr_is(const rt_map *map); /* APR\0, or the old APRN, which reading then refuses with a clear message */
/* part: mapped already. Tensor names become canonical. */
int rt_apr_read(rt_model_file *m, uint32_t part, rt_err *e);
int rt_apr_layout(const rt_model_out *o, rt_arena *a, rt_file_layout *l, rt_err *e);
/* That the footer is the CRC32 of all that precedes it, on all cores; RT_FORMAT when it is not. pool may be null. */
int rt_apr_check_footer(const rt_model_file *m, rt_pool *pool, rt_err *e);

/* ---- inside the room ---- */

enum {
    RT_APR_HEADER = 64,
    RT_APR_ALIGN = 64,
    RT_APR_FOOTER = 4,
    RT_APR_MAX_NAME = 256,
    RT_APR_MAX_META = 16 << 20,
    /* where the fields of the header are; the u64 at 12 is not aligned */
    RT_APR_AT_MAJOR = 4,
    RT_APR_AT_MINOR = 5,
    RT_APR_AT_FLAGS = 6,
    RT_APR_AT_COUNT = 8,
    RT_APR_AT_META = 12,
    RT_APR_AT_META_SIZE = 20,
    RT_APR_AT_INDEX = 24,
    RT_APR_AT_DATA = 32,
    RT_APR_AT_CRC = 40,
    RT_APR_AT_REST = 44,
};
enum {
    RT_APR_LZ4 = 0x001,
    RT_APR_ZSTD = 0x002,
    RT_APR_ENCRYPTED = 0x004,
    RT_APR_SHARDED = 0x010,
    RT_APR_QUANTIZED = 0x020,
    RT_APR_HAS_VOCAB = 0x200,
    RT_APR_ROW_MAJOR = 0x400,
    RT_APR_COLUMN_MAJOR = 0x800,
};

/* CRC32 of the header: of all of it but the four bytes that hold it. */
uint32_t rt_apr_header_crc(const uint8_t header[RT_APR_HEADER]);
/* The number of a type, legacy numbers included; false when APR v2 has none. */
bool rt_apr_type_of(uint8_t id, rt_dtype *dtype, rt_store *store);
bool rt_apr_id_of(rt_dtype dtype, uint8_t *id);

/* Metadata to configuration and text; the tensors are in m already. rope_adjacent: rows of q and k are stored for
 * rotation of adjacent pairs. */
int rt_apr_meta_read(rt_model_file *m, const char *text, size_t len, bool *rope_adjacent, rt_err *e);
/* The vocabulary of metadata (a json_t object) to m->text. */
struct json_t;
int rt_apr_vocab_read(rt_model_file *m, const struct json_t *meta, rt_err *e);
/* Metadata of an output; *has_vocab: whether a tokenizer is in it. */
int rt_apr_meta_write(const rt_model_out *o, rt_str *out, bool *has_vocab, rt_err *e);

#endif
