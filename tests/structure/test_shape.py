"""The shape of the rooms: no more than 45 files in one, no circle of includes or calls among its files, each name defined
once. What each check finds is planted first, so that none of them passes by being blind."""
import collections
import os
import re
import subprocess
import sys

from checks import BUILD, ROOT, blank_comments_and_strings, check, check_all, finish, read, sources

sys.path.insert(0, os.path.join(ROOT, "tools"))
import check_layers  # noqa: E402

MOST_FILES = 45
LARGE = {"backend/cuda/kernels"}  # one op family a file
# Files that call one another in a circle by their nature: an interpreter and its values, the tables of a backend's ops,
# types that are dispatched through one table, the printers of a plan, a reader and the readers of its parts.
RECURSIVE = {"backend/cuda", "backend/vulkan", "num", "op", "settings", "text/jinja", "verify"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def circles(graph):
    """The strongly connected sets of more than one node, each sorted (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            circle = stack[at:]
            del stack[at:]
            if len(circle) > 1 or node in graph.get(node, ()):
                found.append(sorted(circle))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def header_graph(files):
    """files: {path below src: text} -> {header: headers that it includes}"""
    return {path: {name for name in INCLUDE.findall(text) if name in files} for path, text in files.items() if path.endswith((".h", ".cuh"))}


def call_graph(objects):
    """objects: {source: (defined names, undefined names)} -> {source: sources of the same room that it calls}"""
    home = {name: path for path, (defined, _) in objects.items() for name in defined}
    graph = {}
    for path, (_, wanted) in objects.items():
        called = {home[name] for name in wanted if name in home}
        graph[path] = {other for other in called if other != path and os.path.dirname(other) == os.path.dirname(path)}
    return graph


def definitions(files):
    """Macros, structs, enums and unions with the project's prefix that several files define; a backend's own struct is one
    per backend."""
    where = collections.defaultdict(set)
    for path, text in files.items():
        text = blank_comments_and_strings(text)
        for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(RT_\w+)", text, re.M):
            if not match[1].endswith("_H"):
                where[f"#define {match[1]}"].add(path)
        for match in re.finditer(r"^(?:typedef )?((?:struct|enum|union) rt_\w+) \{", text, re.M):
            where[match[1]].add(path)
    several = {name: sorted(paths) for name, paths in where.items() if len(paths) > 1}
    return {name: paths for name, paths in several.items() if not all(p.startswith("backend/") for p in paths)}


# ---- planted ----
check(circles({"a": {"b"}, "b": {"c"}, "c": set()}) == [], "a line was taken for a circle")
check(circles(header_graph({"x/a.h": '#include "x/b.h"\n', "x/b.h": '#include "x/a.h"\n'})) == [["x/a.h", "x/b.h"]],
      "a planted circle of includes was not seen")
planted = {"x/a.c": ({"fa"}, {"fb"}), "x/b.c": ({"fb"}, {"fc"}), "x/c.c": ({"fc"}, {"fa"}), "y/d.c": ({"fd"}, {"fa"})}
check(circles(call_graph(planted)) == [["x/a.c", "x/b.c", "x/c.c"]], "a planted circle of calls was not seen")
check(definitions({"x/a.h": "struct rt_x {\n", "y/b.h": "typedef struct rt_x {\n", "y/c.h": "struct rt_y {\n"}) ==
      {"struct rt_x": ["x/a.h", "y/b.h"]}, "a planted second definition was not seen")

# ---- the rooms ----
files = {path[4:]: read(path) for path in sources("src/**/*.c", "src/**/*.h", "src/**/*.cu", "src/**/*.cuh")}
count = collections.Counter(os.path.dirname(path)[4:] for path in sources("src/**/*") if os.path.isfile(path))
for room, number in sorted(count.items()):
    check(number <= MOST_FILES or room in LARGE, f"src/{room} has {number} files, the most is {MOST_FILES}")
check_all(f"headers include one another in a circle: {' '.join(circle)}" for circle in circles(header_graph(files)))
check_all(f"{name} is defined in {' and '.join(paths)}" for name, paths in sorted(definitions(files).items()))

homes = {f"{BUILD}/{path[:-2]}.o": path[4:] for path in sources("src/**/*.c") if os.path.exists(f"{BUILD}/{path[:-2]}.o")}
listing = subprocess.run([os.environ.get("NM", "nm"), "-A", *homes], capture_output=True, text=True).stdout
objects = {path: (set(), set()) for path in homes.values()}
for line in listing.splitlines():
    place, _, symbol = line.partition(":")
    kind, name = symbol.split()[-2:]
    if kind in "TDRBGSU":
        objects[homes[place]][kind == "U"].add(name)
check(sum(len(defined) for defined, _ in objects.values()) > 1000, f"the objects of {BUILD}/src define next to nothing")
check_all(f"files call one another in a circle: {' '.join(circle)}" for circle in circles(call_graph(objects))
          if check_layers.room_of(circle[0]) not in RECURSIVE)
finish()
