/* temp_folder.h - where tests keep their files: TMPDIR, which tools/run_tests.py sets to a place in memory. Tests of
 * how files reach a disk are in /tmp all the same. */
#ifndef TEST_TEMP_FOLDER_H
#define TEST_TEMP_FOLDER_H

#include <stdlib.h>
#include <string.h>

/* Short enough for a path of 64 bytes. */
static inline const char *temp_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder && strlen(folder) <= 32 ? folder : "/tmp";
}

#endif
