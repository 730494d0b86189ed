/* parquet_schema.c - the columns that are asked for, as the tree of structs, lists and values that a row is.
 *
 * Owns: which groups are lists, in all spellings (three levels, two, a repeated field of its own), the levels of each
 * node, and what is refused by name. Rules of lists: "LogicalTypes" of apache/parquet-format. */
#include "base/json.h"
#include "text/table/table_internal.h"

#include <stdio.h>
#include <string.h>

typedef struct builder {
    const rt_pq_footer *f;
    rt_arena *a;
    rt_pq_tree *t;
    rt_err *e;
    uint32_t at;     /* the next element */
    uint32_t column; /* the next leaf of the file */
    rt_span path[RT_PQ_DEPTH + 1];
    uint32_t depth;
} builder;

typedef struct levels {
    uint8_t def, rep;
} levels;

static int broken(const builder *b, const char *what)
{
    return rt_fail(b->e, RT_FORMAT, "%s: the schema of this Parquet file is broken: %s", b->f->path, what);
}

/* ---- names ---- */

/* The name of a field, as far as it fits, with nothing in it that a terminal would act on. */
static void put_name(rt_str *s, rt_span name)
{
    for (size_t i = 0; i < name.len && s->len < 200; i++) {
        char c = name.data[i];
        rt_str_append_n(s, (unsigned char)c < ' ' || c == 127 ? "?" : &c, 1);
    }
}

/* Of the node that is being built: its fields with dots between, no longer than a line. */
static char *name_here(const builder *b)
{
    rt_str s = { 0 };
    for (uint32_t i = 0; i < b->depth; i++) {
        if (i) rt_str_append_n(&s, ".", 1);
        put_name(&s, b->path[i]);
    }
    char *name = s.failed ? NULL : rt_arena_strdup(b->a, s.data ? s.data : "");
    rt_str_free(&s);
    return name;
}

/* `"name":` */
static int make_key(const builder *b, rt_span name, bool first, rt_span *out)
{
    rt_str s = { 0 };
    int rc = RT_OK;
    if (!first) rt_str_append_n(&s, ",", 1);
    if (!rt_json_put_text(&s, name.data, name.len)) rc = broken(b, "the name of a column is not UTF-8");
    rt_str_append_n(&s, ":", 1);
    if (rc == RT_OK) {
        out->len = s.len;
        out->data = s.failed ? NULL : rt_arena_strdup(b->a, s.data);
        if (!out->data) rc = rt_no_memory(b->e, b->f->path);
    }
    rt_str_free(&s);
    return rc;
}

/* ---- nodes ---- */

static const char *refusal(const rt_pq_element *el)
{
    return el->type == RT_PQ_INT96      ? "of type INT96 (an old time stamp)"
           : el->type == RT_PQ_FIXED    ? "of a fixed-length binary type"
           : el->meaning == RT_PQ_OTHER ? "a date, time, decimal or another annotated type"
                                        : NULL;
}

static int build_leaf(builder *b, const rt_pq_element *el, levels l, rt_pq_node *n)
{
    const char *why = refusal(el);
    char *name = name_here(b);
    if (!name) return rt_no_memory(b->e, b->f->path);
    uint32_t column = b->column++;
    if (why)
        return rt_fail(b->e, RT_UNSUPPORTED,
                       "%s: column %s is %s, which is not read; read are texts, numbers, booleans", b->f->path, name,
                       why);
    rt_pq_leaf *leaf = &b->t->leaves[b->t->leaf_count++];
    *leaf = (rt_pq_leaf){ .name = name,
                          .type = (rt_pq_type)el->type,
                          .is_unsigned = el->meaning == RT_PQ_UNSIGNED,
                          .max_def = l.def,
                          .max_rep = l.rep,
                          .column = column };
    n->shape = RT_PQ_LEAF;
    return RT_OK;
}

static int build_field(builder *b, levels l, rt_pq_node *n);

/* A group whose repeated field, the element after it, makes it a list: is an element that field, or what is in it? */
static bool is_element(const builder *b, const rt_pq_element *list, const rt_pq_element *repeated)
{
    static const char suffix[] = "_tuple";
    size_t n = list->name.len, m = sizeof suffix - 1;
    rt_span s = repeated->name;
    if (list->meaning == RT_PQ_MAP || repeated->type >= 0 || repeated->children != 1) return true;
    if (b->at + 1 < b->f->element_count && repeated[1].repetition == RT_PQ_REPEATED) return true;
    if (s.len == 5 && memcmp(s.data, "array", 5) == 0) return true;
    return s.len == n + m && memcmp(s.data, list->name.data, n) == 0 && memcmp(s.data + n, suffix, m) == 0;
}

static int build_content(builder *b, const rt_pq_element *el, levels l, rt_pq_node *n);

/* The one node in a list; l is that of the list. The element under b->at is `repeated`. */
static int build_item(builder *b, const rt_pq_element *list, levels l, rt_pq_node *n)
{
    const rt_pq_element *repeated = &b->f->elements[b->at];
    levels inner = { .def = (uint8_t)(l.def + 1), .rep = (uint8_t)(l.rep + 1) };
    int rc;
    n->shape = RT_PQ_LIST_OF;
    n->item_def = inner.def;
    n->rep = inner.rep;
    n->child_count = 1;
    n->children = rt_arena_alloc(b->a, sizeof *n->children);
    if (!n->children) return rt_no_memory(b->e, b->f->path);
    bool itself = is_element(b, list, repeated);
    b->at++;
    if (b->depth == RT_PQ_DEPTH) return broken(b, "it is nested too deeply");
    b->path[b->depth++] = repeated->name;
    rc = itself ? build_content(b, repeated, inner, n->children) : build_field(b, inner, n->children);
    b->depth--;
    return rc;
}

static int build_struct(builder *b, const rt_pq_element *el, levels l, rt_pq_node *n)
{
    int rc = RT_OK;
    n->shape = RT_PQ_STRUCT;
    n->child_count = el->children;
    if (el->children > b->f->element_count - b->at) return broken(b, "fields are missing");
    n->children = rt_arena_alloc(b->a, el->children * sizeof *n->children);
    if (!n->children) return rt_no_memory(b->e, b->f->path);
    for (uint32_t i = 0; i < el->children; i++) {
        if (b->at == b->f->element_count) return broken(b, "fields are missing");
        RT_TRY(make_key(b, b->f->elements[b->at].name, i == 0, &n->children[i].key));
        RT_TRY(build_field(b, l, &n->children[i]));
    }
out:
    return rc;
}

/* What an element is, its own repetition apart; b->at is after it. */
static int build_content(builder *b, const rt_pq_element *el, levels l, rt_pq_node *n)
{
    n->def = l.def;
    n->leaf = b->t->leaf_count;
    bool list = (el->meaning == RT_PQ_LIST || el->meaning == RT_PQ_MAP) && el->children == 1 &&
                b->at < b->f->element_count && b->f->elements[b->at].repetition == RT_PQ_REPEATED;
    int rc = el->type >= 0 ? build_leaf(b, el, l, n) : list ? build_item(b, el, l, n) : build_struct(b, el, l, n);
    n->leaf_count = b->t->leaf_count - n->leaf;
    return rc;
}

/* The element at b->at and all below it. l: of what it lies in. */
static int build_field(builder *b, levels l, rt_pq_node *n)
{
    if (b->at >= b->f->element_count) return broken(b, "fields are missing");
    const rt_pq_element *el = &b->f->elements[b->at++];
    if (b->depth == RT_PQ_DEPTH) return broken(b, "it is nested too deeply");
    b->path[b->depth++] = el->name;
    int rc;
    if (el->repetition == RT_PQ_REPEATED) { /* a list without a group around it */
        levels inner = { .def = (uint8_t)(l.def + 1), .rep = (uint8_t)(l.rep + 1) };
        *n = (rt_pq_node){ .shape = RT_PQ_LIST_OF,
                           .def = l.def,
                           .item_def = inner.def,
                           .rep = inner.rep,
                           .leaf = b->t->leaf_count,
                           .child_count = 1,
                           .key = n->key };
        n->children = rt_arena_alloc(b->a, sizeof *n->children);
        rc = n->children ? build_content(b, el, inner, n->children) : rt_no_memory(b->e, b->f->path);
        n->leaf_count = b->t->leaf_count - n->leaf;
    } else {
        levels here = { .def = (uint8_t)(l.def + (el->repetition == RT_PQ_OPTIONAL)), .rep = l.rep };
        rc = build_content(b, el, here, n);
    }
    b->depth--;
    return rc;
}

/* ---- columns ---- */

/* Moves past an element and all below it. */
static int pass_column(builder *b)
{
    for (uint64_t open = 1; open > 0; open--) {
        if (b->at >= b->f->element_count) return broken(b, "fields are missing");
        const rt_pq_element *el = &b->f->elements[b->at++];
        if (el->type >= 0) b->column++;
        open += el->children;
    }
    return RT_OK;
}

static int add_column(builder *b, rt_str *left_out, bool asked)
{
    rt_pq_node *root = &b->t->root;
    uint32_t at = b->at, column = b->column, leaves = b->t->leaf_count;
    rt_pq_node *n = &root->children[root->child_count];
    int rc = make_key(b, b->f->elements[at].name, root->child_count == 0, &n->key);
    if (rc == RT_OK) rc = build_field(b, (levels){ 0 }, n);
    if (rc == RT_OK) root->child_count++;
    if (rc != RT_UNSUPPORTED || asked) return rc;
    b->at = at;
    b->column = column;
    b->t->leaf_count = leaves;
    b->depth = 0;
    if (left_out->len) rt_str_append_n(left_out, ", ", 2);
    put_name(left_out, b->f->elements[at].name);
    return pass_column(b);
}

static int no_column(const builder *b, rt_str *all)
{
    return rt_fail(b->e, RT_INVALID,
                   "%s: no column that is wanted, and can be read, is in it; its columns are %.200s; --columns says "
                   "which are what",
                   b->f->path, all->data ? all->data : "none");
}

int rt_pq_tree_build(rt_pq_tree *t, rt_arena *a, const rt_pq_footer *f, const char *const *columns, uint32_t count,
                     rt_err *e)
{
    builder b = { .f = f, .a = a, .t = t, .e = e, .at = 1 };
    rt_str left_out = { 0 }, all = { 0 }, unread = { 0 };
    int rc = RT_OK;
    uint32_t top = f->elements[0].children;
    *t = (rt_pq_tree){ .root = { .shape = RT_PQ_STRUCT } };
    if (top > f->element_count - 1) RT_TRY(broken(&b, "columns are missing"));
    t->root.children = rt_arena_alloc(a, top * sizeof *t->root.children);
    t->leaves = rt_arena_alloc(a, f->element_count * sizeof *t->leaves);
    if (!t->root.children || !t->leaves) RT_TRY(rt_no_memory(e, f->path));
    for (uint32_t i = 0; i < top; i++) {
        if (b.at >= f->element_count) RT_TRY(broken(&b, "columns are missing"));
        rt_span name = f->elements[b.at].name;
        if (all.len) rt_str_append_n(&all, ", ", 2);
        put_name(&all, name);
        if (rt_table_asked(name, columns, count)) {
            RT_TRY(add_column(&b, &left_out, columns != NULL));
        } else {
            put_name(&unread, name);
            rt_str_append_n(&unread, "\n", 1);
            RT_TRY(pass_column(&b));
        }
    }
    if (b.at != f->element_count) RT_TRY(broken(&b, "it has more fields than it says"));
    if (t->root.child_count == 0) RT_TRY(no_column(&b, &all));
    t->root.leaf_count = t->leaf_count;
    if (left_out.len) {
        t->left_out = left_out.failed ? NULL : rt_arena_strdup(a, left_out.data);
        if (!t->left_out) RT_TRY(rt_no_memory(e, f->path));
    }
    if (unread.len) {
        t->unread = unread.failed ? NULL : rt_arena_strdup(a, unread.data);
        if (!t->unread) RT_TRY(rt_no_memory(e, f->path));
    }
out:
    rt_str_free(&left_out);
    rt_str_free(&unread);
    rt_str_free(&all);
    return rc;
}
