/* tfevents_cli.c - an event file for tests/interop/test_tfevents.py: FOLDER NOW [KEEP], lines of metrics.jsonl on
 * standard input. With KEEP the file is that of a run resumed after this step. */
#include "base/json.h"
#include "report/tfevents.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rc;
    rt_err e = { 0 };
    char *line = NULL;
    size_t cap = 0;
    rt_tfevents *t = NULL;
    if (argc < 3) return 2;
    rt_json_init();
    double now = strtod(argv[2], NULL);
    rt_tfevents_opts o = { .now = now, .resumed = argc > 3, .keep_to = argc > 3 ? strtoull(argv[3], NULL, 10) : 0 };
    RT_TRY(rt_tfevents_open(&t, argv[1], &o, &e));
    while (getline(&line, &cap, stdin) > 0) {
        json_t *j = json_loads(line, 0, NULL);
        rc = j ? rt_tfevents_line(t, j, now += 0.5, &e) : rt_fail(&e, RT_FORMAT, "not JSON: %s", line);
        json_decref(j);
        if (rc < 0) goto out;
    }
    rc = RT_OK;
out:
    if (rc >= 0) rc = rt_tfevents_close(t, &e);
    if (rc < 0) fprintf(stderr, "%s\n", e.text);
    free(line);
    return rt_status_exit(rc);
}
