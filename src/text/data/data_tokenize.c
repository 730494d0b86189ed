/* data_tokenize.c - every record of a list as tokens, on all cores, in the order of the files.
 *
 * Owns: a thread that reads ahead, batches that the pool encodes, the count of bad records. Batches and chunks are cut
 * by bytes and records alone, and results are handed on in order, so nothing depends on the number of threads. */
#include "text/data/data_internal.h"

#include "base/utf8.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    BATCH_BYTES = 8 << 20,
    BATCH_RECORDS = 8192,
    CHUNK_BYTES = 64 << 10,
    KEEP_IDS = 64 << 10, /* what a slot keeps of a record longer than that would add up */
};

typedef struct slot {
    rt_raw raw;
    rt_encoded r;
    int rc;
} slot;

typedef struct batch {
    rt_str text;
    slot *slots;
    uint32_t count, cap;
    uint32_t *chunks; /* first slot of each */
    uint32_t chunk_count, chunk_cap;
    uint64_t bytes, disk; /* of the reader, behind this batch */
    bool last;
    int rc; /* of the reader, behind the records */
    rt_err e;
    bool full; /* read and not yet used */
} batch;

typedef struct job {
    const rt_tokenize_opts *o;
    rt_raw_reader reader;
    batch batches[2];
    batch *now;
    rt_encoder **encoders; /* (threads) */
    rt_err *errors;        /* (threads): the message of the first bad record of a worker's chunk is kept in its slot */
    rt_err **messages;     /* (BATCH_RECORDS) by slot, null: none */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    _Atomic bool stopped; /* asked by the caller's thread alone, between two records */
    uint32_t told;        /* sources before this one: what is not used of them was said */
    bool quit, threaded;
    pthread_t thread;
} job;

/* ---- reading ahead ---- */

static int add_slot(batch *b, const rt_raw *raw, rt_err *e)
{
    uint32_t had = b->cap;
    if (!rt_grow((void **)&b->slots, &b->cap, b->count + 1, sizeof *b->slots)) return rt_no_memory(e, "tokens");
    if (b->cap > had) memset(b->slots + had, 0, (b->cap - had) * sizeof *b->slots);
    b->slots[b->count].raw = *raw;
    b->slots[b->count].rc = RT_OK;
    b->count++;
    return RT_OK;
}

static void read_batch(rt_raw_reader *reader, batch *b)
{
    b->text.len = 0;
    b->count = 0;
    b->rc = RT_OK;
    b->last = false;
    while (b->text.len < BATCH_BYTES && b->count < BATCH_RECORDS && b->rc == RT_OK && !b->last) {
        rt_raw raw;
        int got = rt_raw_next(reader, &b->text, &raw, &b->e);
        if (got < 0)
            b->rc = got;
        else if (got == 0)
            b->last = true;
        else
            b->rc = add_slot(b, &raw, &b->e);
    }
    b->bytes = reader->bytes;
    b->disk = reader->disk + rt_data_stream_at(reader->stream) + rt_table_at(reader->table);
}

static void *reader_main(void *arg)
{
    job *j = arg;
    for (int k = 0;; k ^= 1) {
        batch *b = &j->batches[k];
        pthread_mutex_lock(&j->lock);
        while (b->full && !j->quit) pthread_cond_wait(&j->changed, &j->lock);
        bool quit = j->quit;
        pthread_mutex_unlock(&j->lock);
        if (quit) return NULL;
        read_batch(&j->reader, b);
        bool end = b->last || b->rc < 0; /* once it is handed over, it is not ours to look at */
        pthread_mutex_lock(&j->lock);
        b->full = true;
        pthread_cond_broadcast(&j->changed);
        pthread_mutex_unlock(&j->lock);
        if (end) return NULL;
    }
}

static void wait_full(job *j, batch *b)
{
    pthread_mutex_lock(&j->lock);
    while (!b->full) pthread_cond_wait(&j->changed, &j->lock);
    pthread_mutex_unlock(&j->lock);
}

static void give_back(job *j, batch *b)
{
    pthread_mutex_lock(&j->lock);
    b->full = false;
    pthread_cond_broadcast(&j->changed);
    pthread_mutex_unlock(&j->lock);
}

/* ---- encoding ---- */

static int cut_chunks(batch *b, rt_err *e)
{
    size_t bytes = 0;
    b->chunk_count = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        if (i == 0 || bytes >= CHUNK_BYTES) {
            if (!rt_grow((void **)&b->chunks, &b->chunk_cap, b->chunk_count + 1, sizeof *b->chunks))
                return rt_no_memory(e, "tokens");
            b->chunks[b->chunk_count++] = i;
            bytes = 0;
        }
        bytes += b->slots[i].raw.len + 64;
    }
    return RT_OK;
}

/* A text has no escapes by which a byte could be anything but UTF-8, so what is not would be trained as U+FFFD. */
static int encode_text(rt_encoder *x, const char *text, slot *s, rt_err *e)
{
    size_t valid = rt_utf8_valid(text, s->raw.len);
    if (valid == s->raw.len) return rt_encoder_text(x, text, s->raw.len, s->raw.parts, &s->r, e);
    s->r.fatal = s->raw.parts != RT_PART_WHOLE; /* the parts before this one are written already */
    return rt_fail(e, RT_FORMAT, "the text is not UTF-8: byte 0x%02x at offset %llu; " RT_TO_UTF8,
                   (unsigned)(unsigned char)text[valid], (unsigned long long)(s->raw.at + valid));
}

static int bad_row(const char *fault, slot *s, rt_err *e)
{
    s->r.fatal = false;
    return rt_fail(e, RT_FORMAT, "%.*s", (int)s->raw.len, fault);
}

static void encode_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    job *j = ctx;
    batch *b = j->now;
    uint32_t end = chunk + 1 < b->chunk_count ? b->chunks[chunk + 1] : b->count;
    for (uint32_t i = b->chunks[chunk]; i < end; i++) {
        slot *s = &b->slots[i];
        const char *text = b->text.data + s->raw.begin;
        rt_err *e = &j->errors[worker];
        if (worker == 0 && j->o->stop && j->o->stop(j->o->ctx)) j->stopped = true;
        if (j->stopped) return;
        e->text[0] = '\0';
        if (s->raw.fault)
            s->rc = bad_row(text, s, e);
        else if (j->reader.list->files[s->raw.file].format == RT_DATA_TEXT)
            s->rc = encode_text(j->encoders[worker], text, s, e);
        else
            s->rc = rt_encoder_json(j->encoders[worker], text, s->raw.len, &s->r, e);
        if (s->rc < 0 && (j->messages[i] = rt_alloc(sizeof *e, 16))) memcpy(j->messages[i], e, sizeof *e);
    }
}

/* ---- handing on ---- */

static rt_data_place place_of(const job *j, const slot *s)
{
    const rt_data_file *f = &j->reader.list->files[s->raw.file];
    return (rt_data_place){ .path = f->path,
                            .line = f->format == RT_DATA_TEXT ? 0 : s->raw.line,
                            .source = f->source,
                            .file = s->raw.file,
                            .parts = s->raw.parts };
}

static int bad_record(job *j, const slot *s, const rt_err *message, rt_tokenize_stats *st, rt_err *e)
{
    rt_data_place p = place_of(j, s);
    int rc = message ? rt_fail(e, s->rc, "%s", message->text) : rt_no_memory(e, "tokens");
    if (rc == RT_NOMEM) return rc;
    if (p.line)
        rt_err_context(e, "%s:%llu", p.path, (unsigned long long)p.line);
    else
        rt_err_context(e, "%s", p.path);
    if (s->r.fatal || (rc != RT_FORMAT && rc != RT_INVALID)) return rc;
    if (st->bad == 0) snprintf(st->first_bad, sizeof st->first_bad, "%.*s", (int)sizeof st->first_bad - 1, e->text);
    if (st->bad++ < j->o->skip_bad) return RT_OK;
    size_t n = strlen(e->text);
    if (j->o->skip_bad)
        snprintf(e->text + n, sizeof e->text - n, " (%llu bad records so far, more than --skip-bad %llu)",
                 (unsigned long long)st->bad, (unsigned long long)j->o->skip_bad);
    else
        snprintf(e->text + n, sizeof e->text - n, "; --skip-bad N skips up to N such records");
    return rc;
}

/* Of the first record of a source: the columns that no one uses, those of its table too. */
static int tell_unused(job *j, const slot *s, const rt_data_place *p, rt_err *e)
{
    rt_str names = { 0 };
    char text[RT_UNUSED_TEXT], note[RT_UNUSED_TEXT + 200];
    const rt_data_list *l = j->reader.list;
    int rc = RT_OK;
    if (!j->o->note || p->source < j->told || l->files[p->file].format == RT_DATA_TEXT) return RT_OK;
    j->told = p->source + 1;
    RT_TRY(rt_record_unused(j->now->text.data + s->raw.begin, s->raw.len, j->o->text->columns, &names, e));
    rt_str_append(&names, s->raw.unread ? s->raw.unread : "");
    if (names.failed) RT_TRY(rt_no_memory(e, "a record"));
    rt_unused_text(names.data, text);
    snprintf(note, sizeof note, "%.160s: %s", l->sources[p->source].name, text);
    if (text[0]) j->o->note(j->o->ctx, note);
out:
    rt_str_free(&names);
    return rc;
}

static int hand_on(job *j, const slot *s, rt_tokenize_stats *st, rt_err *e)
{
    rt_data_place p = place_of(j, s);
    int rc = tell_unused(j, s, &p, e);
    if (rc < 0) return rc;
    if (p.parts & RT_PART_FIRST) {
        st->records++;
        st->kinds[s->r.kind]++;
        if ((p.parts & RT_PART_LAST) && s->r.trained == 0) st->no_target++;
    }
    st->tokens += s->r.ids.count;
    st->trained += s->r.trained;
    rt_data_odd_add(&st->odd, &s->r.odd);
    st->odd.fields_over_lines += s->raw.over;
    return j->o->sink ? j->o->sink(j->o->ctx, &p, &s->r, e) : RT_OK;
}

static void shrink(rt_encoded *r)
{
    if (r->ids.cap > KEEP_IDS) rt_encoded_free(r);
}

static bool wants_stop(const job *j) { return j->stopped || (j->o->stop && j->o->stop(j->o->ctx)); }

static int use_batch(job *j, batch *b, rt_tokenize_stats *st, rt_err *e)
{
    const rt_tokenize_opts *o = j->o;
    int rc = cut_chunks(b, e);
    if (rc < 0) return rc;
    j->now = b;
    memset(j->messages, 0, BATCH_RECORDS * sizeof *j->messages);
    rt_pool_run(o->pool, b->chunk_count, encode_chunk, j);
    if (wants_stop(j)) rc = rt_fail(e, RT_INTERRUPTED, "interrupted while tokenizing");
    for (uint32_t i = 0; i < b->count; i++) {
        slot *s = &b->slots[i];
        if (rc >= 0) rc = s->rc < 0 ? bad_record(j, s, j->messages[i], st, e) : hand_on(j, s, st, e);
        rt_free(j->messages[i]);
        shrink(&s->r);
    }
    st->bytes = b->bytes;
    st->disk_done = b->disk;
    if (rc == RT_OK && b->rc < 0) {
        *e = b->e;
        rc = b->rc;
    }
    if (rc == RT_OK && o->progress) o->progress(o->ctx, st);
    if (rc == RT_OK && wants_stop(j)) rc = rt_fail(e, RT_INTERRUPTED, "interrupted while tokenizing");
    return rc;
}

/* ---- the whole ---- */

static int check_formats(const rt_data_list *l, uint32_t first, uint32_t end, rt_err *e)
{
    for (uint32_t i = first; i < end; i++)
        if (l->files[i].format == RT_DATA_SHARD || l->files[i].format == RT_DATA_BIN)
            return rt_fail(e, RT_INVALID, "%s holds tokens already", l->files[i].path);
    return RT_OK;
}

static int start(job *j, rt_err *e)
{
    uint32_t threads = rt_pool_threads(j->o->pool);
    int rc;
    j->encoders = rt_alloc_zero(threads * sizeof *j->encoders, 64);
    j->errors = rt_alloc_zero(threads * sizeof *j->errors, 64);
    j->messages = rt_alloc_zero(BATCH_RECORDS * sizeof *j->messages, 64);
    if (!j->encoders || !j->errors || !j->messages) RT_TRY(rt_no_memory(e, "tokens"));
    for (uint32_t i = 0; i < threads; i++) RT_TRY(rt_encoder_new(&j->encoders[i], j->o->text, j->o->loss, e));
    RT_TRY(rt_encoder_can_cut(j->encoders[0], &j->reader.cut_text, e));
    if (pthread_create(&j->thread, NULL, reader_main, j) != 0)
        RT_TRY(rt_fail(e, RT_NOMEM, "the system gives no thread to read data"));
    j->threaded = true;
out:
    return rc;
}

static void finish(job *j)
{
    if (j->threaded) {
        pthread_mutex_lock(&j->lock);
        j->quit = true;
        pthread_cond_broadcast(&j->changed);
        pthread_mutex_unlock(&j->lock);
        pthread_join(j->thread, NULL);
    }
    for (int k = 0; k < 2; k++) {
        batch *b = &j->batches[k];
        for (uint32_t i = 0; i < b->cap; i++) rt_encoded_free(&b->slots[i].r);
        rt_free(b->slots);
        rt_free(b->chunks);
        rt_str_free(&b->text);
    }
    for (uint32_t i = 0; j->encoders && i < rt_pool_threads(j->o->pool); i++) rt_encoder_free(j->encoders[i]);
    rt_free(j->encoders);
    rt_free(j->errors);
    rt_free(j->messages);
    rt_raw_reader_free(&j->reader);
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->changed);
}

int rt_data_tokenize(const rt_data_list *l, uint32_t first, uint32_t count, const rt_tokenize_opts *o,
                     rt_tokenize_stats *stats, rt_err *e)
{
    int rc;
    job j = { .o = o, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    const rt_data_source *from = &l->sources[first], *to = &l->sources[first + count - 1];
    uint32_t end = to->first_file + to->file_count;
    *stats = (rt_tokenize_stats){ 0 };
    j.reader = (rt_raw_reader){ .list = l, .file = from->first_file, .end = end, .columns = o->text->columns };
    RT_TRY(check_formats(l, from->first_file, end, e));
    RT_TRY(start(&j, e));
    for (int k = 0;; k ^= 1) {
        batch *b = &j.batches[k];
        wait_full(&j, b);
        RT_TRY(use_batch(&j, b, stats, e));
        if (b->last) break;
        give_back(&j, b);
    }
    if (stats->records == 0)
        RT_TRY(rt_fail(e, RT_INVALID, "%s%s: no record in it%s%s", from->name,
                       count > 1 ? " and the other sources" : "",
                       stats->bad ? ": all that was there was bad and skipped; the first: " : "; the data are empty",
                       stats->first_bad));
    if (o->note) rt_data_odd_tell(&stats->odd, count == 1 ? from->name : NULL, o->note, o->ctx);
out:
    finish(&j);
    return rc;
}
