/* write_fill.c - fills the files of an output: all tensors on all cores, then what stands before and after them.
 *
 * Owns: cutting the tensors into pieces, the order of rows that GGUF wants, the checksum over a whole file, progress
 * and the first failure. Leaves the files' making and naming to model_write.c, and the rows to the caller.
 *
 * Pieces do not depend on the number of threads, and neither do their bytes. The checksum of a file is combined from
 * those of its pieces in the order of their places. */
#include "format/model_write.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { PIECE_BYTES = 512 << 10 }; /* a buffer that stays in the second-level cache until it is written */

typedef struct piece {
    uint32_t file, tensor;
    uint32_t swap_heads; /* not 0: rows are stored in GGUF's llama order */
    bool vector;
    uint32_t crc;
    uint64_t row, rows, row_bytes;
    uint64_t offset; /* in the file */
} piece;

typedef struct fill {
    const rt_model_out *o;
    const rt_out_file *files;
    const rt_model_write_calls *calls;
    piece *pieces;
    uint32_t piece_count;
    uint8_t **buffers; /* one per worker */
    uint64_t total;
    _Atomic uint64_t done;
    atomic_int status; /* the first failure; the pieces left are then passed over */
    pthread_mutex_t lock;
    rt_err *e; /* under the lock */
} fill;

/* ---- pieces ---- */

static uint64_t piece_bytes(const piece *p) { return p->rows * p->row_bytes; }

/* The pieces of tensor i, at out when that is not null; their number. */
static uint64_t cut_tensor(const fill *f, uint32_t file, uint32_t i, piece *out)
{
    const rt_out_tensor *t = &f->o->tensors[i];
    uint64_t shape[2], n = 0;
    bool vector = rt_role_shape(f->o->config, t->role, shape) == 1;
    uint64_t rows = vector ? 1 : shape[0], row_bytes = rt_dtype_bytes(t->dtype, vector ? shape[0] : shape[1]);
    uint64_t each = row_bytes < PIECE_BYTES ? PIECE_BYTES / row_bytes : 1;
    const rt_out_file *of = &f->files[file];
    for (uint64_t row = 0; row < rows; row += each, n++) {
        if (!out) continue;
        out[n] = (piece){ .file = file,
                          .tensor = i,
                          .swap_heads = f->o->to == RT_CONTAINER_GGUF ? rt_role_swap_heads(f->o->config, t->role) : 0,
                          .vector = vector,
                          .row = row,
                          .rows = rows - row < each ? rows - row : each,
                          .row_bytes = row_bytes,
                          .offset = of->layout.offset[i - of->first] + row * row_bytes };
    }
    return n;
}

static int by_place(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int cut(fill *f, uint32_t file_count, rt_err *e)
{
    uint64_t count = 0, n = 0;
    for (uint32_t file = 0; file < file_count; file++)
        for (uint32_t i = 0; i < f->files[file].count; i++)
            count += cut_tensor(f, file, f->files[file].first + i, NULL);
    if (count > UINT32_MAX) return rt_fail(e, RT_INVALID, "%s: the model is too large to write", f->o->path);
    f->pieces = rt_alloc(count * sizeof *f->pieces, 64);
    if (!f->pieces) return rt_no_memory(e, f->o->path);
    f->piece_count = (uint32_t)count;
    for (uint32_t file = 0; file < file_count; file++)
        for (uint32_t i = 0; i < f->files[file].count; i++)
            n += cut_tensor(f, file, f->files[file].first + i, f->pieces + n);
    qsort(f->pieces, f->piece_count, sizeof *f->pieces, by_place);
    for (uint32_t i = 0; i < f->piece_count; i++) f->total += piece_bytes(&f->pieces[i]);
    return RT_OK;
}

static int make_buffers(fill *f, uint32_t workers, rt_err *e)
{
    uint64_t most = 1;
    for (uint32_t i = 0; i < f->piece_count; i++) {
        const piece *p = &f->pieces[i];
        uint64_t need = piece_bytes(p) * (p->swap_heads && p->vector ? 2 : 1); /* a vector is sorted into a copy */
        if (need > most) most = need;
    }
    f->buffers = rt_alloc_zero(workers * sizeof *f->buffers, 16);
    for (uint32_t i = 0; f->buffers && i < workers; i++) {
        f->buffers[i] = rt_alloc(most, 4096);
        if (!f->buffers[i]) return rt_no_memory(e, f->o->path);
    }
    return f->buffers ? RT_OK : rt_no_memory(e, f->o->path);
}

/* ---- filling ---- */

/* The elements of a vector in the order in which GGUF stores its rows. */
static void swap_vector(uint8_t *to, const uint8_t *from, uint64_t bytes, rt_dtype d, uint32_t heads)
{
    uint64_t size = rt_dtype_bytes(d, 1), n = bytes / size;
    for (uint64_t i = 0; i < n; i++) memcpy(to + i * size, from + rt_swap_to_canonical(i, n, heads) * size, size);
}

static int fill_piece(fill *f, piece *p, uint32_t worker, rt_err *e)
{
    const rt_out_file *file = &f->files[p->file];
    const rt_out_tensor *t = &f->o->tensors[p->tensor];
    const rt_model_write_calls *calls = f->calls;
    uint8_t *data = f->buffers[worker];
    uint64_t shape[2], bytes = piece_bytes(p);
    int rc = RT_OK;
    if (p->swap_heads == 0) {
        rc = calls->rows(calls->ctx, p->tensor, p->row, p->rows, data, worker, e);
    } else if (p->vector) {
        rc = calls->rows(calls->ctx, p->tensor, 0, 1, data, worker, e);
        if (rc >= 0) swap_vector(data + bytes, data, bytes, t->dtype, p->swap_heads);
        data += bytes;
    } else {
        rt_role_shape(f->o->config, t->role, shape);
        for (uint64_t r = 0; r < p->rows && rc >= 0; r++) {
            uint64_t row = rt_swap_to_canonical(p->row + r, shape[0], p->swap_heads);
            rc = calls->rows(calls->ctx, p->tensor, row, 1, data + r * p->row_bytes, worker, e);
        }
    }
    if (rc < 0) return rc;
    if (file->layout.footer_crc) p->crc = (uint32_t)crc32_z(0, data, bytes);
    return rt_writer_put(file->writer, p->offset, data, bytes, e);
}

static void stop(fill *f, int status, const rt_err *e)
{
    pthread_mutex_lock(&f->lock);
    if (atomic_load(&f->status) == RT_OK) {
        atomic_store(&f->status, status);
        /* A status without a message is still told apart from success. */
        if (e && e->status == status)
            rt_fail(f->e, status, "%s", e->text);
        else
            rt_fail(f->e, status, "writing %s stopped: %s", f->o->path, rt_status_text(status));
    }
    pthread_mutex_unlock(&f->lock);
}

static void run_piece(void *ctx, uint32_t chunk, uint32_t worker)
{
    fill *f = ctx;
    if (atomic_load_explicit(&f->status, memory_order_relaxed) != RT_OK) return;
    piece *p = &f->pieces[chunk];
    rt_err e = { 0 };
    int rc = fill_piece(f, p, worker, &e);
    if (rc < 0) {
        stop(f, rc, &e);
        return;
    }
    uint64_t bytes = piece_bytes(p), done = atomic_fetch_add(&f->done, bytes) + bytes;
    /* Whoever finds another thread telling leaves it at that; the next piece tells again. */
    if (!f->calls->progress || pthread_mutex_trylock(&f->lock) != 0) return;
    rc = atomic_load(&f->status) == RT_OK ? f->calls->progress(f->calls->ctx, done, f->total) : RT_OK;
    pthread_mutex_unlock(&f->lock);
    if (rc < 0) stop(f, rc, NULL);
}

/* ---- before and after the tensors ---- */

/* Of n zero bytes after bytes whose checksum is crc. */
static uLong crc_zeros(uLong crc, uint64_t n)
{
    static const uint8_t zeros[4096];
    for (; n > 0; n -= n < sizeof zeros ? n : sizeof zeros)
        crc = crc32_z(crc, zeros, n < sizeof zeros ? n : sizeof zeros);
    return crc;
}

static int put_footer(const fill *f, uint32_t file, const piece *p, const piece *end, rt_err *e)
{
    const rt_out_file *of = &f->files[file];
    const rt_file_layout *l = &of->layout;
    uint64_t at = l->head.len;
    uLong crc = crc32_z(0, (const Bytef *)l->head.data, l->head.len);
    for (; p < end; p++) {
        crc = crc_zeros(crc, p->offset - at);
        crc = crc32_combine(crc, p->crc, (z_off_t)piece_bytes(p));
        at = p->offset + piece_bytes(p);
    }
    if (l->extra.len > 0) {
        crc = crc_zeros(crc, l->extra_offset - at);
        crc = crc32_z(crc, (const Bytef *)l->extra.data, l->extra.len);
        at = l->extra_offset + l->extra.len;
    }
    crc = crc_zeros(crc, l->size - at);
    uint8_t footer[4];
    rt_store_le(footer, crc, sizeof footer);
    return rt_writer_put(of->writer, l->size, footer, sizeof footer, e);
}

static int put_rest(const fill *f, uint32_t file_count, rt_err *e)
{
    const piece *p = f->pieces, *end = p + f->piece_count;
    for (uint32_t file = 0; file < file_count; file++) {
        const rt_file_layout *l = &f->files[file].layout;
        const piece *from = p;
        int rc = rt_writer_put(f->files[file].writer, 0, l->head.data, l->head.len, e);
        if (rc == RT_OK && l->extra.len > 0)
            rc = rt_writer_put(f->files[file].writer, l->extra_offset, l->extra.data, l->extra.len, e);
        while (p < end && p->file == file) p++;
        if (rc == RT_OK && l->footer_crc) rc = put_footer(f, file, from, p, e);
        if (rc < 0) return rc;
    }
    return RT_OK;
}

int rt_write_fill(const rt_model_out *o, const rt_out_file *files, uint32_t file_count,
                  const rt_model_write_calls *calls, rt_pool *pool, rt_err *e)
{
    int rc;
    uint32_t workers = rt_pool_threads(pool);
    fill f = { .o = o, .files = files, .calls = calls, .e = e };
    pthread_mutex_init(&f.lock, NULL);
    RT_TRY(cut(&f, file_count, e));
    RT_TRY(make_buffers(&f, workers, e));
    rt_pool_run(pool, f.piece_count, run_piece, &f);
    RT_TRY(atomic_load(&f.status));
    RT_TRY(put_rest(&f, file_count, e));
    if (calls->progress) {
        rc = calls->progress(calls->ctx, f.total, f.total);
        if (rc < 0) rt_fail(e, rc, "writing %s stopped: %s", o->path, rt_status_text(rc));
    }
out:
    for (uint32_t i = 0; f.buffers && i < workers; i++) rt_free(f.buffers[i]);
    rt_free(f.buffers);
    rt_free(f.pieces);
    pthread_mutex_destroy(&f.lock);
    return rc;
}
