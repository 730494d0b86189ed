/* data_splits.c - the splits of a directory of data: train, validation, test, as words in the paths of its files. */
#include "text/data/data_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* What is trained, and what is measured on, as sets name them; the first that is there is taken. */
static const char *const train_splits[] = { "train", NULL };
static const char *const eval_splits[] = { "validation", "valid", "val", "dev", "test", "eval", NULL };

/* Whether a path has a word in it: train in data/train-00000-of-00002.parquet, not in training.jsonl. */
bool rt_split_in(const char *path, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = path; (p = strstr(p, word)); p++)
        if ((p == path || !isalpha((unsigned char)p[-1])) && !isalpha((unsigned char)p[n])) return true;
    return false;
}

/* Whether a file below a directory is of a split; skip: the directory's part of the paths. */
static bool has_split(const rt_paths *f, size_t skip, const char *split)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (rt_split_in(f->paths[i] + skip, split)) return true;
    return false;
}

/* The whole name around a word in a path: train_sft of train in data/train_sft-00000-of-00003.parquet. */
static const char *whole_name(const char *path, const char *word, size_t *len)
{
    size_t n = strlen(word);
    const char *p = path;
    while ((p = strstr(p, word)) && ((p > path && isalpha((unsigned char)p[-1])) || isalpha((unsigned char)p[n]))) p++;
    if (!p) return NULL;
    const char *begin = p, *end = p + n;
    while (begin > path && (isalpha((unsigned char)begin[-1]) || begin[-1] == '_')) begin--;
    while (isalpha((unsigned char)*end) || *end == '_') end++;
    while (*begin == '_') begin++;
    while (end > begin && end[-1] == '_') end--;
    *len = (size_t)(end - begin);
    return begin;
}

/* Adds a name to a list with commas, once. */
static void add_name(char buf[RT_SPLITS_TEXT], const char *name, size_t len)
{
    size_t n = strlen(buf);
    for (const char *p = buf; *p;) {
        size_t k = strcspn(p, ",");
        if (k == len && memcmp(p, name, len) == 0) return;
        p += k + strspn(p + k, ", ");
    }
    if (n + len + 6 < RT_SPLITS_TEXT)
        snprintf(buf + n, RT_SPLITS_TEXT - n, "%s%.*s", n ? ", " : "", (int)len, name);
    else if (n < RT_SPLITS_TEXT - 4 && buf[n - 1] != '.')
        snprintf(buf + n, RT_SPLITS_TEXT - n, "...");
}

static void add_names(const rt_paths *f, size_t skip, const char *split, char buf[RT_SPLITS_TEXT])
{
    for (uint32_t i = 0; i < f->count; i++) {
        size_t len;
        const char *name = whole_name(f->paths[i] + skip, split, &len);
        if (name) add_name(buf, name, len);
    }
}

void rt_split_names(const rt_paths *f, size_t skip, const char *split, char buf[RT_SPLITS_TEXT])
{
    buf[0] = '\0';
    add_names(f, skip, split, buf);
}

void rt_split_others(const rt_paths *f, size_t skip, const char *taken, char buf[RT_SPLITS_TEXT])
{
    buf[0] = '\0';
    for (int k = 0; k < 2; k++)
        for (const char *const *s = k ? eval_splits : train_splits; *s; s++)
            if (strcmp(*s, taken) != 0) add_names(f, skip, *s, buf);
}

/* Whether a folder of a path is a split or its file begins with one, as hubs lay them out: train/0.jsonl,
 * data/train-00000-of-00002.parquet. */
static bool is_laid_out(const char *path, const char *split)
{
    size_t n = strlen(split);
    for (const char *p = path; p && *p; p = strchr(p + 1, '/')) {
        const char *name = *p == '/' ? p + 1 : p;
        if (strncmp(name, split, n) == 0 && (strchr(name, '/') ? name[n] == '/' : !isalpha((unsigned char)name[n])))
            return true;
    }
    return false;
}

/* Whether a directory is laid out in splits: one to train on beside one to measure on, or nothing but that. A word in
 * the names of some files alone says nothing. */
static bool has_layout(const rt_paths *f, size_t skip)
{
    uint32_t train = 0, eval = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        train += is_laid_out(f->paths[i] + skip, train_splits[0]);
        for (const char *const *s = eval_splits; *s; s++) eval += is_laid_out(f->paths[i] + skip, *s);
    }
    return train && (eval || train == f->count);
}

/* The split that was asked for, or the one that is meant where a directory is laid out in splits; null: no split. */
int rt_split_choose(const rt_paths *f, const char *dir, bool for_eval, const char **split, rt_err *e)
{
    char others[RT_SPLITS_TEXT];
    size_t skip = strlen(dir);
    if (*split && !has_split(f, skip, *split)) {
        rt_split_others(f, skip, *split, others);
        return rt_fail(e, RT_NOT_FOUND, "%s: no file of split %s is in it%s%s", dir, *split,
                       others[0] ? "; there are " : "", others);
    }
    if (*split || !has_layout(f, skip)) return RT_OK;
    *split = train_splits[0];
    for (const char *const *s = eval_splits; for_eval && *s; s++)
        if (has_split(f, skip, *s)) {
            *split = *s;
            break;
        }
    return RT_OK;
}
