#!/usr/bin/env python3
"""count_shaders.py IN OUT - puts counters into a shader of the Vulkan backend that was compiled with -DCOUNTED.

Every load and store through an address calls count_load or count_store of vk_count.glsl, with the address and the bytes;
every block calls count_flops with the floating-point operations in it. Operands (the table of addresses) are not counted. A
multiply, an add, a compare, a divide, a root, an exponential or a logarithm is one operation, as in op/op_cost.c: what the
functions of vk_math.glsl take to be exact is not counted, nor is what takes a number out of 16 bits or out of its block.
Needs spirv-dis and spirv-as (spirv-tools).
"""
import re
import subprocess
import sys

# function -> operations of a call; its own instructions are not counted
KNOWN = {"exp_of": 1, "log_of": 1, "log1p_of": 1, "quotient": 1, "root": 1, "two_sum": 1, "fast_sum": 1, "two_product": 1,
         "pair_add": 1, "pair_sum": 1, "pair_product": 1, "split": 0, "rotation": 0, "log_ratio": 1, "left_of": 0,
         "from_bf16": 0, "to_bf16": 0, "from_f16": 0, "to_f16": 0, "from_e4m3": 0, "to_e4m3": 0, "block_value": 0,
         "affine": 0, "q6_k": 0, "iq4_xs": 0, "q2_k": 0, "q3_k": 0, "value_of": 0, "value_of_m": 0, "code_of": 0,
         "code_of_m": 0, "code_of_v": 0, "is_finite": 0, "is_nan": 0, "unit_of": 0}
ONE = {"OpFAdd", "OpFSub", "OpFMul", "OpFDiv", "OpVectorTimesScalar"}
INST = {"FMin": 1, "FMax": 1, "Fma": 2, "Sqrt": 1, "Floor": 0, "FAbs": 0}


def tool(*words, text=None):
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout


def bytes_of(types, t):
    kind, *rest = types[t]
    if kind in ("OpTypeInt", "OpTypeFloat"):
        return int(rest[0]) // 8
    if kind == "OpTypeVector":
        return bytes_of(types, rest[0]) * int(rest[1])
    raise SystemExit(f"a load or store of {kind}")


class Shader:
    def __init__(self, lines):
        self.lines = [line.split() for line in lines]
        self.names, self.types, self.result_type, self.base, self.constants = {}, {}, {}, {}, {}
        for w in self.lines:
            if w[:1] == ["OpName"]:
                self.names[w[1]] = w[2].strip('"').split("(")[0]
            if len(w) < 3 or w[1] != "=":
                continue
            if w[2].startswith("OpType"):
                self.types[w[0]] = w[2:]
            elif len(w) > 3:
                self.result_type[w[0]] = w[3]
            if w[2] in ("OpAccessChain", "OpInBoundsAccessChain"):
                self.base[w[0]] = w[4]
            if w[2] == "OpConstant" and len(w) == 5:
                self.constants[w[3], w[4]] = w[0]
        self.function = {name: i for i, name in self.names.items() if self.types.get(i) is None and i in self.result_type}
        self.uint = next(i for i, t in self.types.items() if t == ["OpTypeInt", "32", "0"])
        self.ulong = next(i for i, t in self.types.items() if t == ["OpTypeInt", "64", "0"])
        self.void = next(i for i, t in self.types.items() if t == ["OpTypeVoid"])
        self.next = 1 + max(int(w[0][1:]) for w in self.lines if w and w[0].startswith("%"))
        self.more = []  # constants that were not there

    def fresh(self):
        self.next += 1
        return f"%{self.next - 1}"

    def constant(self, n):
        key = (self.uint, str(n))
        if key not in self.constants:
            self.constants[key] = self.fresh()
            self.more.append([self.constants[key], "=", "OpConstant", *key])
        return self.constants[key]

    def call(self, name, *args):
        return [self.fresh(), "=", "OpFunctionCall", self.void, self.function[name], *args]

    def counted(self, pointer):
        """The type behind an address that is not of the operands' table; None: it is something else."""
        t = self.types.get(self.result_type.get(pointer, ""), [])
        if t[:2] != ["OpTypePointer", "PhysicalStorageBuffer"]:
            return None
        while pointer in self.base:
            pointer = self.base[pointer]
        of = self.types[self.result_type[pointer]][2]
        return None if self.names.get(of) in ("Operands", "Counters") else t[2]

    def flops(self, w):
        if len(w) < 4 or w[1] != "=":
            return 0
        t = self.types.get(w[3], [])
        parts = int(t[2]) if t[:1] == ["OpTypeVector"] else 1
        if w[2] in ONE:
            return parts
        if w[2].startswith("OpFOrd") or w[2].startswith("OpFUnord"):
            return 1
        if w[2] == "OpExtInst":
            return INST.get(w[5], 0) * parts if w[5] in INST else (0 if w[5][0] in "SU" or "Find" in w[5] else 1)
        if w[2] == "OpFunctionCall":
            return KNOWN.get(self.names.get(w[4], ""), 0)
        return 0

    def out(self):
        lines, at, now, flops = [], 0, None, 0
        for w in self.lines:
            if w[2:3] == ["OpFunction"]:
                at, now = at or len(lines), self.names[w[0]]
            counting = now is not None and now != "main" and not now.startswith("count_")
            op = w[2] if w[1:2] == ["="] else w[0] if w else ""
            pointer = w[4] if op == "OpLoad" else w[1] if op == "OpStore" else None
            of = self.counted(pointer) if counting and pointer else None
            if counting and now not in KNOWN:
                flops += self.flops(w)
            if of:
                address = self.fresh()
                lines.append([address, "=", "OpConvertPtrToU", self.ulong, pointer])
                lines.append(self.call("count_load" if op == "OpLoad" else "count_store", address, self.constant(bytes_of(self.types, of))))
            ends = op in ("OpLoopMerge", "OpSelectionMerge", "OpBranch", "OpBranchConditional", "OpSwitch", "OpReturn", "OpReturnValue",
                          "OpUnreachable")
            if ends and flops:
                lines.append(self.call("count_flops", self.constant(flops)))
                flops = 0
            lines.append(w)
        lines[at:at] = self.more
        return "\n".join(" ".join(w) for w in lines) + "\n"


def main():
    source, target = sys.argv[1:]
    text = tool("spirv-dis", "--raw-id", "--no-header", source)
    shader = Shader([line for line in text.split("\n") if line.strip()])
    subprocess.run(["spirv-as", "--target-env", "vulkan1.2", "--preserve-numeric-ids", "-", "-o", target], input=shader.out(), text=True, check=True)


main()
