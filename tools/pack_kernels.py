#!/usr/bin/env python3
"""pack_kernels.py OUT NVCC_VERSION FILE... - puts compiled kernels into the one block that is embedded in the binary.

A file is .../sm_90/cuda_rmsnorm.fatbin or .../ptx_75/cuda_rmsnorm.fatbin: kind, architecture and module are its name. The
form of the block is in src/backend/cuda/cuda_image.h.
"""
import os
import re
import struct
import sys

HEADER, RECORD, ALIGN = "<8sIi", "<48sIIQQ", 64


def main():
    out, version, paths = sys.argv[1], sys.argv[2], sys.argv[3:]
    major, minor = re.match(r"(\d+)\.(\d+)", version).groups()
    records, images = b"", b""
    start = struct.calcsize(HEADER) + len(paths) * struct.calcsize(RECORD)
    for path in paths:
        kind, sm = re.match(r"(sm|ptx)_(\d+)$", os.path.basename(os.path.dirname(path))).groups()
        module = os.path.splitext(os.path.basename(path))[0].encode()
        with open(path, "rb") as f:
            data = f.read()
        images += b"\0" * (-(start + len(images)) % ALIGN)
        records += struct.pack(RECORD, module, int(sm), kind == "ptx", start + len(images), len(data))
        images += data + b"\0"
    with open(out, "wb") as f:
        f.write(struct.pack(HEADER, b"RTCUDA1", len(paths), 1000 * int(major) + 10 * int(minor)) + records + images)


main()
