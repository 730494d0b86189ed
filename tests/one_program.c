/* one_program.c - the unit tests of which each has nothing but a main of its own, in one program: linked a hundred
 * times with all of the library they were gigabytes, and every change of the library wrote them again. The name by
 * which it is called says which one runs; RT_TESTS is X(test_adapter) X(test_answers) and so on (tests/room.mk). */
#include <stdio.h>
#include <string.h>

#define X(name) int name##_main(int argc, char **argv);
RT_TESTS
#undef X

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/'), *called = slash ? slash + 1 : argv[0];
#define X(name)                                                                                                        \
    if (strcmp(called, #name) == 0) return name##_main(argc, argv);
    RT_TESTS
#undef X
    fprintf(stderr, "%s: no unit test has this name\n", called);
    return 2;
}
