"""Length of files, functions and lines; every file opens by saying what it owns; no notes to self are left."""
import re

from checks import check_all, finish, read, sources

# What is a limit for the rooms is a little wider for tests and benchmarks.
FILE_LINES, TEST_FILE_LINES = 800, 1000
FUNCTION_LINES, TEST_FUNCTION_LINES = 60, 100
KERNEL_LINES = 150  # a kernel keeps its stages and registers in one function
COLUMNS = 120
# Tables and straight-line emission may be longer, by name; so may files that a script has written.
LONG_FILES = {}
LONG_FUNCTIONS = {}
GENERATED = re.compile(r"_golden\.h$")
# Spelled in pieces, so that this file may hold them.
NOTES = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|place" r"holder)\b")

code = sources("src/**/*.c", "src/**/*.h", "src/**/*.inl", "src/**/*.cu", "src/**/*.cuh", "include/**/*.h", "examples/**/*.c",
               "tests/**/*.c", "tests/**/*.h", "tests/**/*.cu", "bench/**/*.c", "bench/**/*.h")


def faults_of_code(path):
    text = read(path)
    lines = text.split("\n")
    name = path.rsplit("/", 1)[1]
    in_room = path.startswith("src/")
    file_limit = FILE_LINES if in_room else TEST_FILE_LINES
    function_limit = FUNCTION_LINES if in_room else TEST_FUNCTION_LINES
    if path.endswith((".cu", ".cuh")):
        function_limit = KERNEL_LINES
    if len(lines) > file_limit and path not in LONG_FILES:
        yield f"{path}: {len(lines)} lines, the limit is {file_limit}"
    if not text.startswith(f"/* {name} - "):
        yield f"{path}:1: should open with `/* {name} - what it owns`"
    start = signature = None
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield f"{path}:{number}: {len(line)} columns, the limit is {COLUMNS}"
        if "\t" in line or line != line.rstrip():
            yield f"{path}:{number}: tab, or space at the end"
        # The layout rule puts the braces of a function, and of nothing else, alone in the first column.
        if line == "{":
            start, signature = number, lines[number - 2]
        elif line == "}" and start:
            length = number - start + 1
            key = path + ":" + re.sub(r".*?(\w+)\(.*", r"\1", signature)
            if length > function_limit and key not in LONG_FUNCTIONS:
                yield f"{path}:{start}: a function of {length} lines, the limit is {function_limit}"
            start = None


def notes(path):
    for number, line in enumerate(read(path).split("\n"), 1):
        found = NOTES.search(line)
        if found:
            yield f"{path}:{number}: {found[0]}: say it in an issue, or do it"


for path in (p for p in code if not GENERATED.search(p)):
    check_all(faults_of_code(path))
everything = code + sources("Makefile", "src/**/*.mk", "tests/**/*", "tools/*", "bench/*.mk", "docs/**/*.md", "*.md")
for path in sorted({p for p in everything if re.search(r"(Makefile|\.(c|h|inl|cu|cuh|mk|py|sh|md))$", p)}):
    check_all(notes(path))
finish()
