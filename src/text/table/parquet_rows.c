/* parquet_rows.c - rows put together from their columns, as JSON text.
 *
 * Owns: the way from row group to row group, and levels read as nesting. Each entry of a column carries a definition
 * level (how far down the path something is there) and a repetition level (which list it continues). All columns of a
 * struct must tell the same story, and are held to it. */
#include "base/json.h"
#include "text/table/table.h"
#include "text/table/table_internal.h"

#include <math.h>
#include <string.h>

struct rt_pq_file {
    rt_arena arena;
    rt_pq_reader reader;
    rt_pq_tree tree;
    const uint8_t *group_at; /* the next row group */
    uint32_t groups_left;
    uint64_t rows_left; /* of the current row group */
    uint64_t at;
    uint64_t low, high;  /* bytes of the file that the current row group takes */
    rt_pq_chunk *chunks; /* (leaf_count) of the current row group */
};

int rt_pq_open(rt_pq_file **out, const char *path, const char *const *columns, uint32_t count, rt_err *e)
{
    int rc;
    rt_pq_file *f = rt_alloc_zero(sizeof *f, 64);
    *out = NULL;
    if (!f) return rt_no_memory(e, path);
    const char *kept = rt_arena_strdup(&f->arena, path);
    if (!kept) RT_TRY(rt_no_memory(e, path));
    RT_TRY(rt_pq_codecs_new(&f->reader.codecs, e));
    RT_TRY(rt_pq_footer_open(&f->reader.footer, &f->arena, kept, e));
    RT_TRY(rt_pq_tree_build(&f->tree, &f->arena, &f->reader.footer, columns, count, e));
    f->chunks = rt_arena_alloc(&f->arena, f->tree.leaf_count * sizeof *f->chunks);
    if (!f->chunks) RT_TRY(rt_no_memory(e, path));
    f->group_at = f->reader.footer.groups;
    f->groups_left = f->reader.footer.group_count;
    *out = f;
    return RT_OK;
out:
    rt_pq_close(f);
    return rc;
}

void rt_pq_close(rt_pq_file *f)
{
    if (!f) return;
    for (uint32_t i = 0; i < f->tree.leaf_count; i++) rt_pq_leaf_free(&f->tree.leaves[i]);
    rt_pq_codecs_free(f->reader.codecs);
    rt_map_close(&f->reader.footer.map);
    rt_arena_free(&f->arena);
    rt_free(f);
}

uint64_t rt_pq_at(const rt_pq_file *f) { return f->at; }
const char *rt_pq_left_out(const rt_pq_file *f) { return f->tree.left_out; }
const char *rt_pq_unread(const rt_pq_file *f) { return f->tree.unread; }

bool rt_pq_reads(const rt_pq_file *f, const char *column)
{
    const rt_pq_node *root = &f->tree.root;
    for (uint32_t i = 0; i < root->child_count; i++)
        if (rt_table_is_key(root->children[i].key, column)) return true;
    return false;
}

/* ---- row groups ---- */

static void take_chunk(void *ctx, uint32_t column, const rt_pq_chunk *c)
{
    rt_pq_file *f = ctx;
    uint32_t low = 0, high = f->tree.leaf_count; /* leaves are in the order of columns */
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (f->tree.leaves[middle].column < column)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < f->tree.leaf_count && f->tree.leaves[low].column == column) {
        f->chunks[low] = *c;
        f->tree.leaves[low].seen = true;
    }
}

static int begin_group(rt_pq_file *f, rt_err *e)
{
    rt_pq_reader *r = &f->reader;
    int rc;
    for (uint32_t i = 0; i < f->tree.leaf_count; i++) f->tree.leaves[i].seen = false;
    RT_TRY(rt_pq_group_read(&r->footer, &f->group_at, &f->rows_left, take_chunk, f, e));
    f->groups_left--;
    f->low = r->footer.data_end;
    f->high = 0;
    for (uint32_t i = 0; i < f->tree.leaf_count; i++) {
        rt_pq_leaf *l = &f->tree.leaves[i];
        const rt_pq_chunk *c = &f->chunks[i];
        if (!l->seen)
            RT_TRY(rt_fail(e, RT_FORMAT, "%s: a row group lacks column %s; fetch the file again", r->footer.path,
                           l->name));
        RT_TRY(rt_pq_leaf_begin(r, l, c, e));
        if (c->values > 0 && c->begin < f->low) f->low = c->begin;
        if (c->values > 0 && c->end > f->high) f->high = c->end;
    }
out:
    return rc;
}

/* Every column must have come to its end with the last row. */
static int end_group(rt_pq_file *f, rt_err *e)
{
    rt_pq_reader *r = &f->reader;
    for (uint32_t i = 0; i < f->tree.leaf_count; i++) {
        int rc = rt_pq_leaf_load(r, &f->tree.leaves[i], e);
        if (rc < 0) return rc;
        if (rc > 0)
            return rt_pq_leaf_broken(r, &f->tree.leaves[i], "it has more values than the row group has rows", e);
    }
    if (f->high > f->low) {
        rt_map_done_with(&r->footer.map, f->low, f->high - f->low);
        f->at = f->high;
    }
    return RT_OK;
}

/* ---- values ---- */

static void put_number(rt_str *out, const rt_pq_leaf *l, uint64_t bits)
{
    float f;
    double d;
    uint32_t low = (uint32_t)bits;
    switch (l->type) {
    case RT_PQ_BOOLEAN: rt_str_append(out, bits ? "true" : "false"); break;
    case RT_PQ_INT32: rt_str_printf(out, "%lld", l->is_unsigned ? (long long)low : (long long)(int32_t)low); break;
    case RT_PQ_INT64: rt_str_printf(out, l->is_unsigned ? "%llu" : "%lld", (unsigned long long)bits); break;
    case RT_PQ_FLOAT:
        memcpy(&f, &low, 4);
        if (isfinite(f))
            rt_json_put_float(out, f);
        else
            rt_str_append_n(out, "null", 4);
        break;
    default:
        memcpy(&d, &bits, 8);
        if (isfinite(d))
            rt_json_put_double(out, d);
        else
            rt_str_append_n(out, "null", 4);
    }
}

typedef struct row {
    rt_pq_file *f;
    rt_str *out;
    size_t begin;
    rt_err *e;
} row;

static int too_long(const row *x)
{
    return rt_fail(x->e, RT_INVALID, "%s: a row of more than %d MiB; cut it into several", x->f->reader.footer.path,
                   RT_TABLE_ROW_LIMIT >> 20);
}

static int put_value(const row *x, rt_pq_leaf *l)
{
    rt_pq_value v;
    int rc = rt_pq_values_next(&l->values, &v);
    if (rc == RT_NOMEM) return rt_no_memory(x->e, x->f->reader.footer.path);
    if (rc < 0) return rt_pq_leaf_broken(&x->f->reader, l, "a page's values are broken", x->e);
    if (l->type == RT_PQ_BYTE_ARRAY) {
        if (v.text.len > RT_TABLE_ROW_LIMIT) return too_long(x);
        rt_str_append_n(x->out, "\"", 1);
        rt_json_put_escaped(x->out, v.text.data, v.text.len);
        rt_str_append_n(x->out, "\"", 1);
    } else {
        put_number(x->out, l, v.bits);
    }
    l->loaded = false;
    return x->out->len - x->begin > RT_TABLE_ROW_LIMIT ? too_long(x) : RT_OK;
}

/* ---- nesting ---- */

static int disagree(const row *x, const rt_pq_leaf *l)
{
    return rt_pq_leaf_broken(&x->f->reader, l, "its levels do not fit those of the columns beside it", x->e);
}

/* Loads the next entry of a leaf, which must be there. */
static int load(const row *x, rt_pq_leaf *l, uint8_t rep)
{
    int rc = rt_pq_leaf_load(&x->f->reader, l, x->e);
    if (rc < 0) return rc;
    if (rc == 0) return rt_pq_leaf_broken(&x->f->reader, l, "it ends before the last row", x->e);
    return l->rep == rep ? RT_OK : disagree(x, l);
}

/* Instead of a node that is null, or a list that is empty: each leaf below has an entry that says so. */
static int put_nothing(const row *x, const rt_pq_node *n, uint8_t rep, uint8_t def, const char *text)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < n->leaf_count; i++) {
        rt_pq_leaf *l = &x->f->tree.leaves[n->leaf + i];
        RT_TRY(load(x, l, rep));
        if (l->def != def) return disagree(x, l);
        l->loaded = false;
    }
    rt_str_append(x->out, text);
    if (x->out->len - x->begin > RT_TABLE_ROW_LIMIT) return too_long(x);
out:
    return rc;
}

/* rep: the repetition level that the next entry of each leaf must have; def: the least definition level. */
static int put_node(const row *x, const rt_pq_node *n, uint8_t rep, uint8_t def)
{
    rt_pq_leaf *l = &x->f->tree.leaves[n->leaf];
    int rc;
    RT_TRY(load(x, l, rep));
    if (l->def < def) return disagree(x, l);
    if (l->def < n->def) return put_nothing(x, n, rep, l->def, "null");
    if (n->shape == RT_PQ_LEAF) return put_value(x, l);
    if (n->shape == RT_PQ_STRUCT) {
        rt_str_append_n(x->out, "{", 1);
        for (uint32_t i = 0; i < n->child_count; i++) {
            rt_str_append_n(x->out, n->children[i].key.data, n->children[i].key.len);
            RT_TRY(put_node(x, &n->children[i], rep, n->def));
        }
        rt_str_append_n(x->out, "}", 1);
        return RT_OK;
    }
    if (l->def < n->item_def) return put_nothing(x, n, rep, l->def, "[]");
    rt_str_append_n(x->out, "[", 1);
    for (;;) {
        RT_TRY(put_node(x, n->children, rep, n->item_def));
        RT_TRY(rt_pq_leaf_load(&x->f->reader, l, x->e));
        if (rc == 0 || l->rep != n->rep) break;
        rt_str_append_n(x->out, ",", 1);
        rep = n->rep;
    }
    rt_str_append_n(x->out, "]", 1);
    rc = RT_OK;
out:
    return rc;
}

int rt_pq_next(rt_pq_file *f, rt_str *out, rt_err *e)
{
    int rc;
    row x = { .f = f, .out = out, .begin = out->len, .e = e };
    while (f->rows_left == 0) {
        if (f->high > 0) RT_TRY(end_group(f, e));
        f->high = 0;
        if (f->groups_left == 0) return 0;
        RT_TRY(begin_group(f, e));
    }
    f->rows_left--;
    RT_TRY(put_node(&x, &f->tree.root, 0, 0));
    if (out->failed) RT_TRY(rt_no_memory(e, "a record"));
    return 1;
out:
    return rc;
}
