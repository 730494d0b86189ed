/* overlap.c - see overlap.h. */
#include "job/prepare/overlap.h"

struct rt_overlap {
    const rt_batch *held;
    uint32_t rows, T;
    uint64_t skip;  /* a gram is looked at when these bits of its hash are 0 */
    uint64_t *keys; /* (cap), open addressing; 0: empty */
    bool *seen;     /* (cap): in the training text */
    uint64_t cap;   /* a power of two */
};

/* ---- hashes ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

static uint64_t word(int32_t id) { return mix((uint64_t)(uint32_t)id + 0x9E3779B97F4A7C15ull); }
static uint64_t rotate(uint64_t x, int n) { return x << n | x >> (64 - n); }

/* The hash of the last RT_OVERLAP_N ids of a document, rolled on from id to id: each id's word, rotated by how far back
 * it stands. */
typedef struct roll {
    uint64_t hash;
    uint32_t len; /* ids since the document began */
} roll;

/* Takes the id at k; its document began at start. True when a gram ends there: *key is its hash, never 0. */
static bool roll_on(roll *r, const int32_t *ids, uint32_t k, uint32_t start, uint64_t *key)
{
    if (k == start) *r = (roll){ 0 };
    r->hash = rotate(r->hash, 1) ^ word(ids[k]);
    if (++r->len > RT_OVERLAP_N) r->hash ^= rotate(word(ids[k - RT_OVERLAP_N]), RT_OVERLAP_N);
    *key = mix(r->hash);
    if (!*key) *key = 1;
    return r->len >= RT_OVERLAP_N;
}

/* The place of a key, or the empty one where it belongs. The bits that choose which grams are looked at are equal in
 * all of them, so others choose the place. */
static uint64_t place(const rt_overlap *o, uint64_t key)
{
    uint64_t at = key >> 32 & (o->cap - 1);
    while (o->keys[at] && o->keys[at] != key) at = (at + 1) & (o->cap - 1);
    return at;
}

/* ---- the held-out side ---- */

/* Calls fn with every gram of the held-out rows that ends in a measured position. */
static void each_held(const rt_overlap *o, void (*fn)(void *ctx, uint64_t key, bool new_document), void *ctx)
{
    for (uint32_t i = 0; i < o->rows; i++) {
        const int32_t *ids = o->held->ids + (size_t)i * o->T, *start = o->held->start + (size_t)i * o->T,
                      *target = o->held->target + (size_t)i * o->T;
        roll r = { 0 };
        bool fresh = true;
        uint64_t key;
        for (uint32_t k = 0; k < o->T; k++) {
            if ((uint32_t)start[k] == k) fresh = true;
            if (!roll_on(&r, ids, k, (uint32_t)start[k], &key) || target[k - 1] < 0 || (key & o->skip)) continue;
            fn(ctx, key, fresh);
            fresh = false;
        }
    }
}

static void count_gram(void *ctx, uint64_t key, bool new_document)
{
    (void)key;
    (void)new_document;
    ++*(uint64_t *)ctx;
}

static void put_gram(void *ctx, uint64_t key, bool new_document)
{
    rt_overlap *o = ctx;
    (void)new_document;
    o->keys[place(o, key)] = key;
}

int rt_overlap_new(rt_overlap **out, const rt_batch *held, uint32_t rows, uint32_t T, uint64_t most, rt_err *e)
{
    int rc = RT_OK;
    uint64_t n = 0;
    rt_overlap *o = rt_alloc_zero(sizeof *o, 16);
    if (!o) RT_TRY(rt_no_memory(e, "the overlap of the data"));
    *o = (rt_overlap){ .held = held, .rows = rows, .T = T, .cap = 16 };
    each_held(o, count_gram, &n);
    while (n > most) { /* counted again: equal grams are chosen together, so halves are not exact */
        o->skip = o->skip << 1 | 1;
        n = 0;
        each_held(o, count_gram, &n);
        if (o->skip > UINT32_MAX >> 1) break;
    }
    while (o->cap < 2 * n) o->cap *= 2;
    o->keys = rt_alloc_zero(o->cap * sizeof *o->keys, 64);
    o->seen = rt_alloc_zero(o->cap * sizeof *o->seen, 64);
    if (!o->keys || !o->seen) RT_TRY(rt_no_memory(e, "the overlap of the data"));
    each_held(o, put_gram, o);
    *out = o;
    o = NULL;
out:
    rt_overlap_free(o);
    return rc;
}

void rt_overlap_free(rt_overlap *o)
{
    if (!o) return;
    rt_free(o->keys);
    rt_free(o->seen);
    rt_free(o);
}

/* ---- the training side ---- */

void rt_overlap_read(rt_overlap *o, const int32_t *ids, const int32_t *start, uint32_t tokens)
{
    roll r = { 0 };
    uint64_t key;
    for (uint32_t k = 0; k < tokens; k++) {
        if (!roll_on(&r, ids, k, (uint32_t)start[k], &key) || (key & o->skip)) continue;
        uint64_t at = place(o, key);
        if (o->keys[at]) o->seen[at] = true;
    }
}

typedef struct tally {
    const rt_overlap *o;
    rt_overlap_result r;
    bool touched; /* the document at hand */
} tally;

static void tally_gram(void *ctx, uint64_t key, bool new_document)
{
    tally *t = ctx;
    bool shared = t->o->seen[place(t->o, key)];
    if (new_document) {
        t->r.texts++;
        t->touched = false;
    }
    t->r.grams++;
    t->r.shared += shared;
    t->r.touched += shared && !t->touched;
    t->touched = t->touched || shared;
}

rt_overlap_result rt_overlap_count(const rt_overlap *o)
{
    tally t = { .o = o, .r = { .one_in = (uint32_t)o->skip + 1 } };
    each_held(o, tally_gram, &t);
    return t.r;
}
