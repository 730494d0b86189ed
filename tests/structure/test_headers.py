"""Each header compiles alone as C11 without a warning, and has the include guard of its place."""
import os
import re
import shlex
import subprocess

from checks import check, finish, read, sources

CC = shlex.split(os.environ.get("CC", "gcc"))
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-Isrc", "-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Wvla", "-Wundef",
         "-Werror", "-fsyntax-only", "-x", "c", "-"]
# Headers of rooms whose sources are compiled more than once see what such a compilation defines.
DEFINES = {"src/backend/ref/": [["-DRT_REAL_FLOAT"], ["-DRT_REAL_DOUBLE"]],
           "src/backend/cpu/": [["-DRT_ISA=generic", "-DRT_ISA_generic=1"]]}

headers = sources("src/**/*.h", "include/**/*.h")
check(len(headers) > 0, "no header found")
# On a machine without Vulkan's headers one file stands in for that room.
probe = subprocess.run(CC + ["-E", "-x", "c", "-"], input="#include <vulkan/vulkan_core.h>\n", capture_output=True, text=True)
if probe.returncode != 0:
    headers = [path for path in headers if not path.startswith("src/backend/vulkan/")]
for path in headers:
    name = re.sub(r"^(src|include)/", "", path)
    for defines in next((d for folder, d in DEFINES.items() if path.startswith(folder)), [[]]):
        # Twice: the guard must hold.
        text = f'#include "{name}"\n#include "{name}"\nextern int rt_not_empty;\n'
        done = subprocess.run(CC + ["-Iinclude"] + defines + FLAGS, input=text, capture_output=True, text=True)
        check(done.returncode == 0, f"{path} does not compile alone {' '.join(defines)}\n{done.stderr}")
    # src/backend/cpu/cpu_kernels.h may be RT_BACKEND_CPU_CPU_KERNELS_H or, shorter, RT_CPU_KERNELS_H.
    guard = re.search(r"^#ifndef (\w+)\n#define \1\b", read(path), re.M)
    stem = re.sub(r"\W", "_", os.path.basename(path)).upper()
    check(guard is not None and re.fullmatch(rf"RT_(\w+_)?{stem}|RETORT_H", guard[1]) is not None,
          f"{path}: the include guard should be RT_<ROOM>_{stem}")
finish()
