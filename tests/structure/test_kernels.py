"""Every CUDA kernel begins with begin_kernel(): it is launched before the kernel ahead of it has ended, and that line waits.

Nothing is read or written ahead of it, for PTX promises nothing of that, and nothing lets the next kernel begin ahead of it.
Only expect_weights() may come before: it asks for weights to come to L2, which reads nothing.
"""
import re

from checks import blank_comments_and_strings, check, finish, read, sources

FIRST = re.compile(r"__global__[^{;]*\{\s*(?:expect_weights<[^>]*>\(p\);\s*)?(?:begin_kernel\(\);)?")


def plain(text):
    return blank_comments_and_strings(text).replace("\\\n", "\n")


def late(text):
    """Kernels of a text whose first statement is another one."""
    return [m[0] for m in FIRST.finditer(plain(text)) if not m[0].endswith("begin_kernel();")]


def hasty(text):
    """Functions in which the next kernel may begin before this one has."""
    bodies = re.split(r"\n\s{0,4}\}", plain(text))
    both = [body for body in bodies if "next_may_begin();" in body and "begin_kernel();" in body]
    return [body for body in both if body.rindex("begin_kernel();") > body.index("next_may_begin();")]


KERNEL = "__global__ void f(int p)\n{\n    %s\n}\n"
check(late(KERNEL % "g(p);\n    begin_kernel();") != [], "a kernel that does not wait is not seen")
check(late(KERNEL % "expect_weights<1>(p);\n    begin_kernel();") == [], "weights that are expected are taken for a read")
check(late(KERNEL % "expect_weights<1>(p);\n    g(p);") != [], "a kernel that expects weights and does not wait is not seen")
check(hasty(KERNEL % "next_may_begin();\n    begin_kernel();") != [], "a hasty kernel is not seen")
check(hasty(KERNEL % "begin_kernel();\n    next_may_begin();" * 2) == [], "two kernels are taken for one")
kernels = 0
for path in sources("src/backend/cuda/kernels/*.cu", "src/backend/cuda/kernels/*.cuh"):
    text = read(path)
    kernels += text.count("__global__")
    for head in late(text):
        check(False, f"{path}: does not begin with begin_kernel(): {' '.join(head.split())}")
    for body in hasty(text):
        check(False, f"{path}: the next kernel may begin before this one: {' '.join(body.split())[-200:]}")
    check(len(FIRST.findall(plain(text))) == text.count("__global__"), f"{path}: a kernel was not understood")
check(kernels > 0, "no kernel was found")
finish()
