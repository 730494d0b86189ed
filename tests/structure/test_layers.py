"""Which room may include which, and call what; and that the checker sees a breach when there is one."""
import os
import re
import sys
import tempfile

from checks import BUILD, ROOT, check, check_all, finish, sources, symbols

sys.path.insert(0, os.path.join(ROOT, "tools"))
import check_layers  # noqa: E402

seen, faults = check_layers.check("src")
check(seen > 0, "src/ holds no file")
for fault in faults:
    check(False, fault)
check(not faults, f"{len(faults)} forbidden includes")

# The seam is the same for every backend: it has no symbol, no quoted name and no library of one.
names = "|".join(entry.name for entry in os.scandir(os.path.join(ROOT, "src/backend")) if entry.is_dir())
OF_ONE = re.compile(rf'rt_(?:backend_)?(?:{names})(?![a-z])|"(?:{names})[":]|(?i:cuda|cublas|vulkan)')
for path in ("src/backend/backend.h", "src/backend/options.h", "src/backend/options.c"):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        named = OF_ONE.findall(f.read())
    check(not named, f"{path} names {named}")
check(OF_ONE.search('return "cpu:0";') and OF_ONE.search("rt_cpu_fn") and OF_ONE.search("CUDA"), "names are not seen")

# file -> one line of it -> allowed?
CASES = [
    ("num/x.c", '#include "base/err.h"', True),
    ("num/x.c", '#include "num/dtype.h"', True),
    ("base/x.c", '#include "num/dtype.h"', False),
    ("op/x.c", '#include "backend/backend.h"', False),
    ("backend/cpu/x.c", '#include "backend/ref/ref.h"', False),
    ("backend/ref/x.c", '  #  include "backend/cpu/cpu.h"', False),
    ("backend/cpu/x.c", '#include "exec/exec.h"', False),
    ("backend/new/x.c", '#include "backend/backend.h"', True),
    ("backend/new/x.c", '#include "backend/cpu/cpu.h"', False),
    ("backend/registry.c", '#include "backend/ref/ref.h"', True),
    ("exec/x.c", '#include "backend/cpu/cpu.h"', False),
    ("exec/x.c", '#include "verify/verify.h"', False),
    ("verify/x.c", '#include "exec/exec.h"', True),
    ("verify/x.c", '#include "model/decoder.h"', True),
    ("verify/x.c", '#include "train/step.h"', False),
    ("model/x.c", '#include "verify/verify.h"', False),
    ("cli/x.c", '#include "verify/verify.h"', True),
    ("cli/x.c", '#include "exec/exec.h"', False),
    ("api/x.c", '#include "verify/verify.h"', False),
    ("api/x.c", '#include "backend/cpu/cpu.h"', False),
    ("verify/x.c", '#include "cli/args.h"', False),
    ("exec/x.c", '#include "exec.h"', False),
    ("exec/x.c", '#include "../op/plan.h"', False),
    ("exec/x.c", '#include "op/plan_internal.h"', False),
    ("op/x.c", '#include "op/plan_internal.h"', True),
    ("exec/x.c", "#include <cblas.h>", False),
    ("backend/cpu/x.c", "#include <cblas.h>", True),
    ("base/x.c", "#include <cmocka.h>", False),
    ("model/x.c", '#include "format/config/names.h"', True),
    ("model/x.c", '#include "format/gguf/gguf.h"', False),
    ("format/x.c", '#include "format/gguf/gguf.h"', True),
    ("format/gguf/x.c", '#include "format/apr/apr.h"', False),
    ("format/gguf/x.c", '#include "format/model_file.h"', False),
    ("text/data/x.c", '#include "text/table/table.h"', True),
    ("text/table/x.c", '#include "format/model_file.h"', False),
    ("text/table/x.c", '#include "text/data/dataset.h"', False),
    ("text/data/x.c", "#include <lz4.h>", False),
    ("teacher/cache/x.c", '#include "num/dtype.h"', True),
    ("teacher/cache/x.c", '#include "op/plan.h"', False),
    ("teacher/cache/x.c", '#include "teacher/pair.h"', False),
    ("teacher/cache/x.c", '#include "teacher/remote/wire.h"', False),
    ("teacher/remote/x.c", '#include "teacher/cache/cache.h"', True),
    ("teacher/remote/x.c", '#include "teacher/pair.h"', False),
    ("job/x.c", '#include "teacher/remote/wire.h"', True),
    ("serve/x.c", '#include "teacher/remote/wire.h"', False),
    ("teacher/x.c", '#include "teacher/cache/cache.h"', True),
    ("train/x.c", '#include "teacher/cache/cache.h"', True),
    ("job/x.c", '#include "teacher/cache/cache.h"', True),
    ("verify/x.c", '#include "teacher/cache/cache.h"', False),
    ("cli/x.c", '#include "teacher/cache/cache.h"', False),
    ("serve/x.c", '#include "job/job.h"', True),
    ("serve/x.c", '#include "cli/args.h"', False),
    ("serve/x.c", '#include "op/plan.h"', False),
    ("serve/x.c", "#include <event2/http.h>", True),
    ("job/x.c", '#include "serve/serve.h"', False),
    ("job/x.c", "#include <event2/event.h>", False),
    ("api/x.c", '#include "serve/serve.h"', False),
    ("cli/x.c", '#include "serve/serve.h"', True),
    ("nowhere/x.c", "#include <stdio.h>", False),
]
HEADERS = ["base/err.h", "num/dtype.h", "op/plan.h", "op/plan_internal.h", "backend/backend.h", "backend/ref/ref.h",
           "backend/cpu/cpu.h", "exec/exec.h", "model/decoder.h", "train/step.h", "verify/verify.h", "cli/args.h",
           "format/config/names.h", "format/gguf/gguf.h", "format/apr/apr.h", "format/model_file.h", "text/table/table.h", "text/data/dataset.h",
           "teacher/pair.h", "teacher/cache/cache.h", "teacher/remote/wire.h", "job/job.h", "serve/serve.h"]
for path, line, allowed in CASES:
    with tempfile.TemporaryDirectory() as root:
        for name in HEADERS + [path]:
            os.makedirs(os.path.join(root, os.path.dirname(name)), exist_ok=True)
            with open(os.path.join(root, name), "w", encoding="utf-8") as f:
                f.write(line + "\n" if name == path else "\n")
        _, found = check_layers.check(root)
        check(bool(found) != allowed, f"check_layers: {path} with {line}: expected {'no ' if allowed else ''}fault, got {found}")

# The three entrances call the door and what names things, read from the objects: a header of job shows more than that.
NAMES = ["base", "num", "format", "format/config", "format/tensor", "settings", "job", "job/run"]
DOOR = {"api": NAMES, "serve": NAMES, "cli": NAMES + ["evidence", "report", "serve", "verify"]}
SENTENCES = {"rt_fit_chosen", "rt_memory_say", "rt_pair_describe", "rt_schedule_name", "rt_weights_say"}  # for the screen of a run


def room_of_object(path):
    return check_layers.room_of(os.path.relpath(path, f"{BUILD}/src"))


objects = [path for path in sources(f"{BUILD}/src/**/*.o") if os.path.exists(path[len(BUILD) + 1:-2] + ".c")]
room_of_symbol = {name: room_of_object(path) for path, names in symbols(objects, "--defined-only").items() for name in names}
for room, may in DOOR.items():
    own = [path for path in objects if room_of_object(path) == room]
    used = set().union(*symbols(own, "-u").values()) - SENTENCES if own else set()
    check(len(used) > 0, f"{room} has no objects below {BUILD}/src")
    check_all(f"{room} calls {name} of {room_of_symbol[name]}; what it needs belongs behind src/job"
              for name in sorted(used & set(room_of_symbol)) if room_of_symbol[name] not in may + [room])
finish()
