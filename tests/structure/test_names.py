"""External names carry the project's prefix; file names are unique; no type takes POSIX's `_t`; no object is left out; nobody asks
for a family of models by name."""
import collections
import os
import re
import subprocess

from checks import BUILD, blank_comments_and_strings, check, check_all, finish, read, sources

NM = os.environ.get("NM", "nm")
# The linker sends OpenBLAS's calls to these (see cpu_blas_guard.c and cpu_blas_core.c); the names are the linker's.
LINKER_NAMES = {"__wrap_blas_memory_alloc", "__wrap_blas_memory_free", "__wrap_cblas_sgemm", "__wrap_gotoblas_dynamic_init"}

archive = f"{BUILD}/libretort.a"
listing = subprocess.run([NM, "-A", "-g", "--defined-only", archive], capture_output=True, text=True)
check(listing.returncode == 0, f"{NM} {archive}: {listing.stderr}")
where = collections.defaultdict(list)
for line in listing.stdout.splitlines():
    place, _, symbol = line.rpartition(" ")
    where[symbol].append(place.split(":")[1] if ":" in place else place)
check(len(where) > 0, f"{archive} defines nothing")
check_all(f"{places[0]}: external name {symbol} lacks the prefix rt_ (or should be static)"
          for symbol, places in sorted(where.items())
          if not re.match(r"(rt|retort)_[a-z]", symbol) and symbol not in LINKER_NAMES)
check_all(f"{symbol} is defined in {' and '.join(places)}" for symbol, places in sorted(where.items()) if len(places) > 1)

code = sources("src/**/*.c", "src/**/*.h", "src/**/*.inl")
by_name = collections.defaultdict(list)
for path in code:
    by_name[os.path.basename(path)].append(path)
check_all(f"one file name, several files: {', '.join(paths)}" for _, paths in sorted(by_name.items()) if len(paths) > 1)
TYPE = re.compile(r"\btypedef\b[^;{]*\b(\w+_t)\s*;|^\}\s*(\w+_t)\s*;", re.M)
for path in code:
    check_all(f"{path}: type name {match[1] or match[2]} ends in _t, which POSIX keeps for itself"
              for match in TYPE.finditer(blank_comments_and_strings(read(path))))

# Families are told apart by their traits (src/format/config/family.h): no other file holds one's name. The same words are
# also names of vocabularies in GGUF, which is another thing.
ROWS, VOCABULARIES = "src/format/config/families.c", re.compile(r"/(tok_|vocab_|apr_vocab|gguf_text|gguf_keys_write)")
families = set(re.findall(r'\.(?:name|hf_class) = "(\w+)"', read(ROWS)))
check(len(families) >= 10, f"{ROWS}: only {len(families)} names of families were found")
for path in (p for p in code if p != ROWS):
    literals = set(re.findall(r'"((?:\\.|[^"\\\n])*)"', re.sub(r"/\*.*?\*/", "", read(path), flags=re.S)))
    found = literals & (families - ({"llama", "qwen2"} if VOCABULARIES.search(path) else set()))
    check(not found, f"{path}: names a family: {', '.join(sorted(found))}")

# A source that no room.mk lists is compiled by nobody. One that stands in for a room whose headers are missing is compiled
# where they are, and the room then is not.
ABSENT = "src/backend/vulkan/vk_absent.c"
stands_in = os.path.exists(f"{BUILD}/{ABSENT[:-2]}.o") and not os.path.exists(f"{BUILD}/src/backend/vulkan/vk_backend.o")
for path in sources("src/**/*.c"):
    stem = f"{BUILD}/{path[:-2]}"
    if path.startswith("src/backend/vulkan/") and (path == ABSENT) != stands_in:
        continue
    check(any(os.path.exists(f"{stem}{kind}.o") for kind in ("", ".float", ".generic")), f"{path} is in no room.mk")
finish()
