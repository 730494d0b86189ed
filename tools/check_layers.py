#!/usr/bin/env python3
"""check_layers.py [DIR] - fails when a file includes what its room may not see. DIR is the source folder, by default src.

Project includes are written from src/ (`#include "op/plan.h"`), so a room is visible in the line itself.
"""
import os
import re
import sys

CORE = ["base", "num", "op", "backend"]
MODEL = ["base", "num", "format/config", "format/tensor"]
TEXT = ["text/jinja", "text/tokenizer", "text/table", "text/data"]
JOB = ["job/prepare", "job/run"]
ENGINE = CORE + ["exec", "format", "model"]
MAY = {  # room -> other rooms that it may include
    "base": [],
    "num": ["base"],
    "format/config": ["base", "num"],
    "format/tensor": ["base", "num", "format/config"],
    "format/hf": MODEL,
    "format/gguf": MODEL,
    "format/apr": MODEL,
    "format": MODEL + ["format/hf", "format/gguf", "format/apr"],
    "text/jinja": ["base", "num", "format"],
    "text/tokenizer": ["base", "num", "format"],
    "text/table": ["base", "num"],
    "text/data": ["base", "num", "format", "text/jinja", "text/tokenizer", "text/table"],
    "settings": ["base"],
    "op": ["base", "num"],
    "backend": ["base", "num", "op"],
    "backend/*": CORE,  # every folder there is a backend
    "comm": CORE,
    "exec": CORE,
    "model": ["base", "num", "format", "op"],
    "infer": ENGINE + TEXT,
    "teacher/cache": ["base", "num"],
    "teacher/remote": ["base", "num", "teacher/cache"],
    "teacher": ENGINE + TEXT + ["infer"],
    "train": ENGINE + TEXT + ["infer", "teacher"],
    "evidence": ["base", "num", "format", "settings"],
    "report": ["base", "num", "format", "settings"],
    "verify": CORE + ["exec", "model"],
    "job/prepare": ENGINE + TEXT + ["settings", "infer", "teacher", "train"],
    "job/run": ENGINE + TEXT + ["settings", "infer", "teacher", "train", "evidence", "report", "job/prepare"],
    "job": ENGINE + TEXT + ["comm", "settings", "infer", "teacher", "train", "evidence", "report", "verify", *JOB],
    "api": ["base", "settings", "job", "job/run"],
    "serve": ["base", "settings", "job"],
    "cli": ["base", "settings", "job", "job/run", "serve", "verify"],
}
for room, seen in MAY.items():  # whoever sees models sees their shapes and tensors, and no container
    if "format" in seen:
        MAY[room] = seen + MODEL[2:]
for room, seen in MAY.items():  # and whoever sees teachers, or is one, sees what they have said
    if "teacher" in seen or room == "teacher":
        MAY[room] = MAY[room] + ["teacher/cache", "teacher/remote"]
# The only file that names a concrete backend.
NAMES_BACKENDS = {"backend/registry.c"}
# Headers of linked libraries and the rooms that may see them; test libraries never appear in src/.
LIBRARIES = {"cblas.h": ["backend/cpu"], "vulkan/vulkan_core.h": ["backend/vulkan"], "xxhash.h": ["base"], "yaml.h": ["settings"], "cmocka.h": [],
             "brotli/decode.h": ["text/table"], "libdeflate.h": ["text/table"], "lz4.h": ["text/table"],
             **{f"event2/{name}.h": ["serve"] for name in ("buffer", "bufferevent", "event", "http", "listener")}}
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')


def room_of(path):
    """The room of a path below src/: the longest folder that is one."""
    folder = os.path.dirname(path)
    if folder.startswith("backend/"):
        return "/".join(folder.split("/")[:2])
    while folder and folder not in MAY:
        folder = os.path.dirname(folder)
    return folder


def fault(root, path, line):
    """What is wrong with the line of the file, or None."""
    match = INCLUDE.match(line)
    if not match:
        return None
    room, quoted, library = room_of(path), match[1], match[2]
    if library:
        if any(name in LIBRARIES and room not in LIBRARIES[name] for name in (library, os.path.basename(library))):
            return f"{room} may not include <{library}>"
        return None
    if not os.path.exists(os.path.join(root, quoted)):
        return f'"{quoted}" is not a path from {root}/'
    target = room_of(quoted)
    if target == room:
        return None
    if quoted.endswith("_internal.h"):
        return f"{quoted} belongs to the files of {target} alone"
    may = MAY["backend/*" if room.startswith("backend/") else room]
    if target in may or (target.startswith("backend/") and any(path.startswith(p) for p in NAMES_BACKENDS)):
        return None
    return f"{room} may not include {quoted}"


def check(root):
    """(number of files seen, list of faults)"""
    seen, faults = 0, []
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            if not name.endswith((".c", ".h", ".cu", ".cuh", ".inl")):
                continue
            full = os.path.join(folder, name)
            path = os.path.relpath(full, root)
            seen += 1
            if not room_of(path):
                faults.append(f"{full}: is in no room")
                continue
            with open(full, encoding="utf-8") as f:
                for number, line in enumerate(f, 1):
                    what = fault(root, path, line)
                    if what:
                        faults.append(f"{full}:{number}: {what}")
    return seen, faults


def main():
    seen, faults = check(sys.argv[1] if len(sys.argv) > 1 else "src")
    for line in faults:
        print(line)
    print(f"{seen} files, {len(faults)} forbidden includes")
    return 1 if faults or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
