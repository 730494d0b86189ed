"""Shaders of the Vulkan backend: their argument structs are those of op/args.h, they begin as every file does, no function is
longer than a kernel may be, what they say of dtypes is num/dtype.h's, and the compiled ones are valid SPIR-V."""
import os
import re
import shutil
import subprocess

from checks import check, check_all, finish, read, sources

FOLDER = "src/backend/vulkan/shaders"
FUNCTION_LINES, FILE_LINES, COLUMNS = 150, 500, 120
shaders = sources(f"{FOLDER}/*.comp", f"{FOLDER}/*.glsl")
check(len(shaders) > 0, "no shader found")


def structs(text):
    """name -> members as (type, name), comments left out."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = {}
    for name, body in re.findall(r"struct (rt_\w+_args)\s*\{(.*?)\}", text, re.S):
        members = []
        for line in body.split(";"):
            match = re.match(r"\s*(uint32_t|uint|float)\s+(.*)", line, re.S)
            if match:
                members += [(match[1].replace("uint32_t", "uint"), n.strip()) for n in match[2].split(",")]
        found[name] = members
    return found


ours, theirs = structs(read(f"{FOLDER}/vk_args.glsl")), structs(read("src/op/args.h"))
check(structs("struct rt_x_args {\n    uint32_t a, b; /* c */\n    float d;\n}") == {"rt_x_args": [("uint", "a"), ("uint", "b"), ("float", "d")]},
      "a planted struct is not understood")
check(len(theirs) > 10, "op/args.h: its structs are not understood")
for name, members in sorted(theirs.items()):
    check(ours.get(name) == members, f"{FOLDER}/vk_args.glsl: {name} is {ours.get(name)}, op/args.h has {members}")
check(set(ours) <= set(theirs), f"{FOLDER}/vk_args.glsl: {set(ours) - set(theirs)} are not in op/args.h")

dtypes = {name: i for i, name in enumerate(re.findall(r"^    X\((\w+), \"", read("src/num/dtype.h"), re.M))}
said = re.findall(r"\b([A-Z]\w*) = (\d+)", re.search(r"const uint F32 = .*?;", read(f"{FOLDER}/vk_common.glsl"), re.S)[0])
check(len(said) > 15, "vk_common.glsl: its dtypes are not understood")
for name, number in said:
    check(dtypes.get(name) == int(number), f"vk_common.glsl: {name} is {number}, num/dtype.h has {dtypes.get(name)}")


def faults_of(path):
    text = read(path)
    lines = text.split("\n")
    if not text.startswith(f"/* {os.path.basename(path)} - "):
        yield f"{path}:1: should open with `/* {os.path.basename(path)} - what it owns`"
    if len(lines) > FILE_LINES:
        yield f"{path}: {len(lines)} lines, the limit is {FILE_LINES}"
    start = None
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS or "\t" in line or line != line.rstrip():
            yield f"{path}:{number}: over {COLUMNS} columns, a tab, or space at the end"
        if line == "{":
            start = number
        elif line == "}" and start:
            if number - start + 1 > FUNCTION_LINES:
                yield f"{path}:{start}: a function of {number - start + 1} lines, the limit is {FUNCTION_LINES}"
            start = None
    if re.search(r"\batomic\w*\s*\([^)]*float", text):
        yield f"{path}: a float atomic"


for path in shaders:
    check_all(faults_of(path))

# Every shader is dispatched by somebody.
host = "".join(read(path) for path in sources("src/backend/vulkan/*.[ch]"))
for path in sources(f"{FOLDER}/*.comp"):
    stem = os.path.basename(path)[:-5]
    check(f'"{stem}"' in host, f"{path}: no host file dispatches it")

validator = shutil.which("spirv-val")
if validator and os.environ.get("BUILD", "build") == "build":
    for path in sources("build/vulkan/*.spv"):
        done = subprocess.run([validator, "--target-env", "vulkan1.2", "--scalar-block-layout", path], capture_output=True, text=True)
        check(done.returncode == 0, f"{path}: {done.stdout}{done.stderr}")
finish()
