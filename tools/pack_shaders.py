#!/usr/bin/env python3
"""pack_shaders.py [--counted] OUT FILE... - puts compiled shaders (SPIR-V) into the one block that is embedded in the binary.

A file is .../vk_rmsnorm.spv: the module is its name. The form of the block is in src/backend/vulkan/vk_image.h.
"""
import os
import struct
import sys

HEADER, RECORD, ALIGN = "<8sII", "<48sQQ", 16


def main():
    counted = sys.argv[1] == "--counted"
    out, *paths = sys.argv[1 + counted:]
    records, modules = b"", b""
    start = struct.calcsize(HEADER) + len(paths) * struct.calcsize(RECORD)
    for path in paths:
        with open(path, "rb") as f:
            data = f.read()
        modules += b"\0" * (-(start + len(modules)) % ALIGN)
        name = os.path.splitext(os.path.basename(path))[0].encode()
        records += struct.pack(RECORD, name, start + len(modules), len(data))
        modules += data
    with open(out, "wb") as f:
        f.write(struct.pack(HEADER, b"RTSPIRV", len(paths), counted) + records + modules)


main()
