"""Every CUDA kernel begins with begin_kernel(): it is launched before the kernel ahead of it has ended, and that line waits."""
import re

from checks import blank_comments_and_strings, check, finish, read, sources

FIRST = re.compile(r"__global__[^{;]*\{\s*(?:begin_kernel\(\);)?")


def late(text):
    """Kernels of a text whose first statement is another one."""
    text = blank_comments_and_strings(text).replace("\\\n", "\n")
    return [m[0] for m in FIRST.finditer(text) if not m[0].endswith("begin_kernel();")]


check(late("__global__ void f(int p)\n{\n    g(p);\n    begin_kernel();\n}") != [], "a kernel that does not wait is not seen")
kernels = 0
for path in sources("src/backend/cuda/kernels/*.cu", "src/backend/cuda/kernels/*.cuh"):
    text = read(path)
    kernels += text.count("__global__")
    for head in late(text):
        check(False, f"{path}: does not begin with begin_kernel(): {' '.join(head.split())}")
    check(len(FIRST.findall(blank_comments_and_strings(text).replace("\\\n", "\n"))) == text.count("__global__"),
          f"{path}: a kernel was not understood")
check(kernels > 0, "no kernel was found")
finish()
