/* data_stream.h - the bytes of a file, however compressed, for whoever reads records in them. */
#ifndef RT_TABLE_DATA_STREAM_H
#define RT_TABLE_DATA_STREAM_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct rt_data_stream rt_data_stream;
/* Compression is found by content: gzip, zstd, or none. */
int rt_data_stream_open(rt_data_stream **out, const char *path, rt_err *e);
/* The next bytes, valid until the next call; *len 0 at the end. */
int rt_data_stream_next(rt_data_stream *s, const char **data, size_t *len, rt_err *e);
uint64_t rt_data_stream_at(const rt_data_stream *s); /* bytes of the file read so far; null: 0 */
void rt_data_stream_close(rt_data_stream *s);        /* accepts null */

#endif
