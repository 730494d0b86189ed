/* replay.h - a main() for a fuzz target that runs the files and directories given to it once, without libFuzzer.
 *
 * A target includes it at its end, under RT_FUZZ_REPLAY. The last line counts what was run. */
#ifndef RT_TESTS_FUZZ_REPLAY_H
#define RT_TESTS_FUZZ_REPLAY_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The number of files run: 1, or -1. */
static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    long size = -1;
    uint8_t *data = NULL;
    if (f && fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0) rewind(f);
    if (size >= 0) data = malloc((size_t)size + 1);
    int ok = data && fread(data, 1, (size_t)size, f) == (size_t)size;
    fprintf(stderr, "%s\n", path); /* the last one names the culprit of a crash */
    if (ok)
        LLVMFuzzerTestOneInput(data, (size_t)size);
    else
        fprintf(stderr, "%s: cannot be read\n", path);
    free(data);
    if (f) fclose(f);
    return ok ? 1 : -1;
}

static int replay_path(const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISDIR(s.st_mode)) return replay_file(path);
    DIR *dir = opendir(path);
    int n = dir ? 0 : -1;
    for (struct dirent *entry; dir && n >= 0 && (entry = readdir(dir));) {
        char file[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        n = replay_file(file) < 0 ? -1 : n + 1;
    }
    if (dir) closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int n = replay_path(argv[i]);
        if (n <= 0) {
            fprintf(stderr, "%s: nothing to replay\n", argv[i]);
            return 1;
        }
        total += n;
    }
    printf("%d passed, 0 failed\n", total);
    return total > 0 ? 0 : 1;
}

#endif
