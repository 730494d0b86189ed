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

/* The known splits but for one, as a list with commas. */
void rt_split_others(const rt_paths *f, size_t skip, const char *taken, char buf[RT_SPLITS_TEXT])
{
    size_t n = 0;
    buf[0] = '\0';
    for (int k = 0; k < 2; k++)
        for (const char *const *s = k ? eval_splits : train_splits; *s; s++)
            if (strcmp(*s, taken) != 0 && has_split(f, skip, *s) && n < RT_SPLITS_TEXT)
                n += (size_t)snprintf(buf + n, RT_SPLITS_TEXT - n, "%s%s", n ? ", " : "", *s);
}

/* The split that was asked for, or the one that is meant where a directory has a split to train on; null: no split. */
int rt_split_choose(const rt_paths *f, const char *dir, bool for_eval, const char **split, rt_err *e)
{
    char others[RT_SPLITS_TEXT];
    size_t skip = strlen(dir);
    if (*split && !has_split(f, skip, *split)) {
        rt_split_others(f, skip, *split, others);
        return rt_fail(e, RT_NOT_FOUND, "%s: no file of split %s is in it%s%s", dir, *split,
                       others[0] ? "; there are " : "", others);
    }
    if (*split || !has_split(f, skip, train_splits[0])) return RT_OK;
    *split = train_splits[0];
    for (const char *const *s = eval_splits; for_eval && *s; s++)
        if (has_split(f, skip, *s)) {
            *split = *s;
            break;
        }
    return RT_OK;
}
