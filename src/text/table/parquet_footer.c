/* parquet_footer.c - what a Parquet file says about itself: schema, row groups, page headers.
 *
 * Owns: thrift's compact protocol, read without copying, and which fields of which structs matter. A reader that met
 * something broken stays at fault and gives zeroes, so it is asked once, at the end of a struct. Every element of a
 * list takes a byte at least, so no loop is longer than the bytes that are there. */
#include "text/table/table_internal.h"

#include <string.h>

/* ---- thrift ---- */

enum { STOP, TRUE_FIELD, FALSE_FIELD, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT };

typedef struct thrift {
    const uint8_t *p, *end;
    bool broken;
} thrift;

typedef struct field {
    int id, type;
} field;

static void spoil(thrift *t)
{
    t->broken = true;
    t->p = t->end;
}

static uint8_t byte(thrift *t)
{
    if (t->p < t->end) return *t->p++;
    spoil(t);
    return 0;
}

static uint64_t varint(thrift *t)
{
    uint64_t x = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t b = byte(t);
        x |= (uint64_t)(b & 0x7F) << shift;
        if (b < 0x80) return x;
    }
    spoil(t);
    return 0;
}

static int64_t zigzag(thrift *t)
{
    uint64_t x = varint(t);
    return (int64_t)(x >> 1 ^ (~(x & 1) + 1));
}

/* False at the end of the struct, or when something is broken. Begin with zeroes. */
static bool next_field(thrift *t, field *f)
{
    uint8_t b = byte(t);
    f->type = b & 15;
    if (t->broken || f->type == STOP) return false;
    int64_t id = b >> 4 ? f->id + (b >> 4) : zigzag(t);
    if (id < 0 || id > INT16_MAX || f->type > STRUCT) spoil(t);
    f->id = (int)id;
    return !t->broken;
}

static int64_t integer(thrift *t, int type)
{
    if (type == BYTE) return (int8_t)byte(t);
    if (type >= I16 && type <= I64) return zigzag(t);
    spoil(t);
    return 0;
}

/* A size or a count: what is negative or past 32 bits is broken. */
static uint32_t size_of(thrift *t, int type)
{
    int64_t x = integer(t, type);
    if (x >= 0 && x <= INT32_MAX) return (uint32_t)x;
    spoil(t);
    return 0;
}

static bool boolean(thrift *t, int type)
{
    if (type != TRUE_FIELD && type != FALSE_FIELD) spoil(t);
    return type == TRUE_FIELD;
}

static rt_span binary(thrift *t, int type)
{
    uint64_t n = type == BINARY ? varint(t) : UINT64_MAX;
    if (n > (uint64_t)(t->end - t->p)) {
        spoil(t);
        return (rt_span){ "", 0 };
    }
    rt_span s = { (const char *)t->p, n };
    t->p += n;
    return s;
}

static bool want(thrift *t, int type, int wanted)
{
    if (type != wanted) spoil(t);
    return !t->broken;
}

/* The head of a list: how many, of what. */
static uint32_t list_of(thrift *t, int type, int *element)
{
    if (type != LIST && type != SET) spoil(t);
    uint8_t b = byte(t);
    uint64_t n = b >> 4 == 15 ? varint(t) : b >> 4;
    *element = b & 15;
    if (n > (uint64_t)(t->end - t->p) || n > INT32_MAX || *element > STRUCT) {
        spoil(t);
        return 0;
    }
    return (uint32_t)n;
}

static void pass(thrift *t, int type, bool in_field, int depth)
{
    int element;
    if (depth > RT_PQ_DEPTH) spoil(t);
    switch (t->broken ? STOP : type) {
    case TRUE_FIELD:
    case FALSE_FIELD:
        if (!in_field) byte(t);
        break;
    case BYTE: byte(t); break;
    case I16:
    case I32:
    case I64: varint(t); break;
    case DOUBLE:
        if (t->end - t->p < 8)
            spoil(t);
        else
            t->p += 8;
        break;
    case BINARY: binary(t, type); break;
    case LIST:
    case SET:
        for (uint32_t n = list_of(t, type, &element); n > 0 && !t->broken; n--) pass(t, element, false, depth + 1);
        break;
    case MAP: {
        uint64_t n = varint(t);
        uint8_t kinds = n ? byte(t) : 0;
        for (; n > 0 && !t->broken; n--) {
            pass(t, kinds >> 4, false, depth + 1);
            pass(t, kinds & 15, false, depth + 1);
        }
        break;
    }
    case STRUCT:
        for (field f = { 0 }; next_field(t, &f);) pass(t, f.type, true, depth + 1);
        break;
    default: spoil(t);
    }
}

static void pass_field(thrift *t, const field *f) { pass(t, f->type, true, 0); }

/* ---- the schema ---- */

static rt_pq_meaning meaning_of_converted(int64_t x)
{
    enum { UTF8, OLD_MAP, KEY_VALUE, OLD_LIST, ENUM, UINT_8 = 11, UINT_64 = 14, INT_8, INT_64 = 18, JSON };
    return x == OLD_LIST                                                        ? RT_PQ_LIST
           : x == OLD_MAP || x == KEY_VALUE                                     ? RT_PQ_MAP
           : x >= UINT_8 && x <= UINT_64                                        ? RT_PQ_UNSIGNED
           : x == UTF8 || x == ENUM || x == JSON || (x >= INT_8 && x <= INT_64) ? RT_PQ_AS_IT_IS
                                                                                : RT_PQ_OTHER;
}

/* The newer annotation, a union of structs: the one field that is there tells. */
static rt_pq_meaning read_logical(thrift *t, const field *outer)
{
    enum { STRING = 1, NEW_MAP, NEW_LIST, ENUM, INTEGER = 10, UNKNOWN, JSON };
    rt_pq_meaning m = RT_PQ_AS_IT_IS;
    if (!want(t, outer->type, STRUCT)) return m;
    for (field f = { 0 }; next_field(t, &f);) {
        if (f.id != INTEGER || f.type != STRUCT) {
            m = f.id == NEW_MAP                                                     ? RT_PQ_MAP
                : f.id == NEW_LIST                                                  ? RT_PQ_LIST
                : f.id == STRING || f.id == ENUM || f.id == UNKNOWN || f.id == JSON ? RT_PQ_AS_IT_IS
                                                                                    : RT_PQ_OTHER;
            pass_field(t, &f);
            continue;
        }
        for (field g = { 0 }; next_field(t, &g);) {
            if (g.id == 2)
                m = boolean(t, g.type) ? RT_PQ_AS_IT_IS : RT_PQ_UNSIGNED;
            else
                pass_field(t, &g);
        }
    }
    return m;
}

static void read_element(thrift *t, rt_pq_element *e)
{
    bool logical = false;
    *e = (rt_pq_element){ .type = -1, .name = { "", 0 } };
    for (field f = { 0 }; next_field(t, &f);) {
        switch (f.id) {
        case 1: e->type = (int)size_of(t, f.type); break;
        case 3: e->repetition = size_of(t, f.type); break;
        case 4: e->name = binary(t, f.type); break;
        case 5: e->children = size_of(t, f.type); break;
        case 6: {
            int64_t converted = integer(t, f.type);
            if (!logical) e->meaning = meaning_of_converted(converted);
            break;
        }
        case 10:
            e->meaning = read_logical(t, &f);
            logical = true;
            break;
        default: pass_field(t, &f);
        }
    }
    bool group = e->type < 0;
    if (group != (e->children > 0) || e->type >= RT_PQ_TYPES || e->repetition > RT_PQ_REPEATED) spoil(t);
}

static int read_schema(thrift *t, const field *f, rt_pq_footer *to, rt_arena *a, rt_err *e)
{
    int element;
    uint32_t n = list_of(t, f->type, &element);
    if (n == 0 || element != STRUCT || to->elements) {
        spoil(t);
        return RT_OK;
    }
    to->elements = rt_arena_alloc(a, n * sizeof *to->elements);
    if (!to->elements) return rt_no_memory(e, to->path);
    for (to->element_count = 0; to->element_count < n && !t->broken; to->element_count++)
        read_element(t, &to->elements[to->element_count]);
    return RT_OK;
}

/* ---- the footer ---- */

static int broken_footer(const rt_pq_footer *f, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s: the footer of this Parquet file is broken; fetch it again", f->path);
}

static int read_metadata(rt_pq_footer *to, thrift *t, rt_arena *a, rt_err *e)
{
    int rc, element;
    for (field f = { 0 }; next_field(t, &f);) {
        if (f.id == 2) {
            RT_TRY(read_schema(t, &f, to, a, e));
        } else if (f.id == 4) {
            to->group_count = list_of(t, f.type, &element);
            if (to->group_count && element != STRUCT) spoil(t);
            to->groups = t->p;
            for (uint32_t i = 0; i < to->group_count && !t->broken; i++) pass(t, STRUCT, false, 0);
        } else {
            pass_field(t, &f);
        }
    }
    rc = t->broken || !to->elements ? broken_footer(to, e) : RT_OK;
out:
    return rc;
}

int rt_pq_footer_open(rt_pq_footer *f, rt_arena *a, const char *path, rt_err *e)
{
    static const char magic[] = "PAR1";
    int rc;
    f->path = path;
    RT_TRY(rt_map_open(&f->map, path, e));
    const uint8_t *end = f->map.data + f->map.size;
    if (f->map.size < 12 || memcmp(f->map.data, magic, 4) != 0) {
        if (f->map.size >= 4 && memcmp(f->map.data, "PARE", 4) == 0)
            RT_TRY(rt_fail(e, RT_UNSUPPORTED, "%s: this Parquet file is encrypted, which is not read", path));
        RT_TRY(rt_fail(e, RT_FORMAT, "%s: this is no Parquet file: it does not begin with PAR1", path));
    }
    uint64_t size = rt_load_le(end - 8, 4);
    if (memcmp(end - 4, magic, 4) != 0 || size > f->map.size - 12)
        RT_TRY(rt_fail(e, RT_FORMAT, "%s: the end of this Parquet file is missing; fetch it again", path));
    f->data_end = f->map.size - 8 - size;
    thrift t = { end - 8 - size, end - 8, false };
    RT_TRY(read_metadata(f, &t, a, e));
out:
    return rc;
}

/* ---- row groups ---- */

static void read_column_metadata(thrift *t, rt_pq_chunk *c)
{
    int64_t data = -1, dictionary = -1, bytes = -1, values = -1;
    for (field f = { 0 }; next_field(t, &f);) {
        switch (f.id) {
        case 1: c->type = (int)size_of(t, f.type); break;
        case 4: c->codec = (int)size_of(t, f.type); break;
        case 5: values = integer(t, f.type); break;
        case 7: bytes = integer(t, f.type); break;
        case 9: data = integer(t, f.type); break;
        case 11: dictionary = integer(t, f.type); break;
        default: pass_field(t, &f);
        }
    }
    int64_t begin = dictionary > 0 && dictionary < data ? dictionary : data;
    if (begin < 0 || bytes < 0 || values < 0 || bytes > INT64_MAX - begin) {
        spoil(t);
        return;
    }
    c->begin = (uint64_t)begin;
    c->end = (uint64_t)(begin + bytes);
    c->values = (uint64_t)values;
}

static void read_column(thrift *t, rt_pq_chunk *c)
{
    *c = (rt_pq_chunk){ .type = -1 };
    for (field f = { 0 }; next_field(t, &f);) {
        if (f.id == 3 && f.type == STRUCT) {
            read_column_metadata(t, c);
            continue;
        }
        c->elsewhere = c->elsewhere || f.id == 1;
        c->encrypted = c->encrypted || f.id == 8 || f.id == 9;
        pass_field(t, &f);
    }
}

int rt_pq_group_read(const rt_pq_footer *f, const uint8_t **at, uint64_t *rows, rt_pq_chunk_fn *fn, void *ctx,
                     rt_err *e)
{
    thrift t = { *at, f->map.data + f->map.size - 8, false };
    int element;
    int64_t n = -1;
    for (field g = { 0 }; next_field(&t, &g);) {
        if (g.id == 1) {
            uint32_t count = list_of(&t, g.type, &element);
            if (count && element != STRUCT) spoil(&t);
            for (uint32_t i = 0; i < count && !t.broken; i++) {
                rt_pq_chunk c;
                read_column(&t, &c);
                if (!t.broken) fn(ctx, i, &c);
            }
        } else if (g.id == 3) {
            n = integer(&t, g.type);
        } else {
            pass_field(&t, &g);
        }
    }
    if (t.broken || n < 0) return broken_footer(f, e);
    *at = t.p;
    *rows = (uint64_t)n;
    return RT_OK;
}

/* ---- pages ---- */

/* The headers of data and of dictionaries begin alike. */
static void read_page_header(thrift *t, rt_pq_page *p, int kind)
{
    bool v1 = kind == RT_PQ_DATA, v2 = kind == RT_PQ_DATA_V2;
    for (field f = { 0 }; next_field(t, &f);) {
        if (f.id == 1)
            p->values = size_of(t, f.type);
        else if (f.id == (v2 ? 4 : 2))
            p->encoding = (int)size_of(t, f.type);
        else if (f.id == 3 && v1)
            p->def_encoding = (int)size_of(t, f.type);
        else if (f.id == 4 && v1)
            p->rep_encoding = (int)size_of(t, f.type);
        else if (f.id == 5 && v2)
            p->def_bytes = size_of(t, f.type);
        else if (f.id == 6 && v2)
            p->rep_bytes = size_of(t, f.type);
        else if (f.id == 7 && v2)
            p->compressed = boolean(t, f.type);
        else
            pass_field(t, &f);
    }
}

bool rt_pq_page_read(const uint8_t **at, const uint8_t *end, rt_pq_page *p)
{
    thrift t = { *at, end, false };
    int told = -1; /* the kind whose header is there */
    *p = (rt_pq_page){
        .kind = -1, .encoding = -1, .def_encoding = RT_PQ_RLE, .rep_encoding = RT_PQ_RLE, .compressed = true
    };
    for (field f = { 0 }; next_field(&t, &f);) {
        switch (f.id) {
        case 1: p->kind = (int)size_of(&t, f.type); break;
        case 2: p->size = size_of(&t, f.type); break;
        case 3: p->packed = size_of(&t, f.type); break;
        case 4:
            p->crc = (uint32_t)integer(&t, f.type);
            p->has_crc = true;
            break;
        case 5:
        case 7:
        case 8:
            told = f.id == 5 ? RT_PQ_DATA : f.id == 7 ? RT_PQ_DICTIONARY : RT_PQ_DATA_V2;
            if (want(&t, f.type, STRUCT)) read_page_header(&t, p, told);
            break;
        default: pass_field(&t, &f);
        }
    }
    *at = t.p;
    bool read = p->kind == RT_PQ_DATA || p->kind == RT_PQ_DICTIONARY || p->kind == RT_PQ_DATA_V2;
    return !t.broken && p->packed <= (size_t)(end - t.p) && p->kind >= 0 && (told == p->kind || !read);
}
