/* check_checkpoints.c - says whether every checkpoint of a run can be read: `check_checkpoints OUT`.
 *
 * For tools/kill_test.py, which kills runs and asks afterwards. A resume reads the newest checkpoint alone; this reads
 * them all, with the function that a resume uses. Status 0 when all are whole (none at all included), 1 otherwise. */
#include "train/checkpoint.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    rt_err e = { 0 };
    rt_arena a = { 0 };
    char **names = NULL;
    uint32_t count = 0;
    int bad = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: check_checkpoints OUT\n");
        return 2;
    }
    const char *folder = rt_checkpoints_of(&a, argv[1]);
    if (folder && rt_path_is_dir(folder) && rt_dir_list(&names, &count, &a, folder, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 2;
    }
    for (uint32_t i = 0; i < count; i++) {
        rt_progress_state s;
        char *path = rt_path_join(&a, folder, names[i]);
        if (!rt_path_of_checkpoint(names[i])) continue;
        if (path && rt_checkpoint_check(path, &s, &e) == RT_OK) {
            printf("%s is whole, step %u\n", names[i], s.step);
            continue;
        }
        printf("%s\n", e.text);
        bad = 1;
    }
    rt_arena_free(&a);
    return bad;
}
