"""The library never prints, never ends the process, reads no environment, and allocates in one place alone.

Read from the objects, not from the text: a name behind a macro, or a call the compiler has changed, is seen too.
"""
import os
import re

from checks import BUILD, blank_comments_and_strings, check, check_all, finish, read, sources, symbols

RULES = [  # what, names, objects (below src/) that may use them
    ("prints", "stdout stderr printf vprintf puts putchar putc perror psignal err errx warn warnx syslog", ["cli/"]),
    ("ends the process", "exit _exit _Exit quick_exit abort __assert_fail raise kill", ["cli/"]),
    ("reads or changes the environment", "getenv secure_getenv setenv putenv unsetenv environ",
     ["cli/", "backend/cpu/cpu_blas_core.o", "backend/cuda/cuda_comm.o"]),
    ("allocates", "malloc calloc realloc reallocarray free aligned_alloc posix_memalign memalign valloc strdup strndup "
     "asprintf vasprintf getline getdelim open_memstream sbrk", ["base/mem.o"]),
    ("keeps state that threads share", "rand srand random srandom drand48 lrand48 strtok localtime gmtime ctime asctime "
     "setlocale", []),
    ("reads JSON that may have lost bytes for want of memory (rt_json_load)", "json_loads json_loadb json_load_file",
     ["base/json.o"]),
]

objects = sources(f"{BUILD}/src/**/*.o")
check(len(objects) > 0, f"no object below {BUILD}/src")
for path, names in symbols(objects, "-u").items():
    faults = []
    # printf is __printf_chk where the distribution fortifies; a versioned or ISO C99 scanf has its own prefix.
    used = {re.sub(r"^__(\w+)_chk$", r"\1", name) for name in names}
    place = os.path.relpath(path, f"{BUILD}/src")
    for what, names, allowed in RULES:
        found = sorted(used & set(names.split()))
        if found and not any(place.startswith(a) for a in allowed):
            faults.append(f"{path} {what}: {', '.join(found)}")
    check_all(faults)

# What an object does not show: flags and attributes that change the meaning of arithmetic for one file or function.
LOOSE = re.compile(r"fast-math|funsafe-math|march=native|Ofast|#\s*pragma\s+(GCC|clang)\s+(optimize|fp)|"
                   r"__attribute__\s*\(\(\s*(__)?optimize|FP_CONTRACT|_MM_SET_(FLUSH|DENORMALS)")
for path in sources("src/**/*.[ch]", "src/**/*.inl", "src/**/*.mk", "Makefile", "tests/*.mk", "bench/*.mk"):
    text = read(path)
    text = re.sub(r"#.*", "", text) if path.endswith(("Makefile", ".mk")) else blank_comments_and_strings(text)
    found = LOOSE.search(text)
    check(not found, f"{path}: {found[0] if found else ''}: arithmetic is strict IEEE, by the flags of the Makefile alone")
finish()
