#!/usr/bin/env python3
"""plant.py - puts faults into safetensors files of f32, for the cli tests. Needs the standard library only.

    plant.py nan FILE TENSOR ROW COLUMN     one value is not a number
    plant.py overflow FILE ID               a llama whose hidden state overflows where the text has this token, and
                                            nowhere else: column 0 of the residual is zero but for it, and is taken by
                                            the first layer's gate and up projections times 1e25
"""
import json
import struct
import sys


class File:
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as f:
            self.raw = bytearray(f.read())
        size = struct.unpack_from("<Q", self.raw)[0]
        self.head = json.loads(self.raw[8:8 + size])
        self.data = 8 + size

    def put(self, name, row, column, value):
        entry = self.head[name]
        assert entry["dtype"] == "F32", entry["dtype"]
        columns = entry["shape"][-1]
        at = self.data + entry["data_offsets"][0] + 4 * (row * columns + column)
        struct.pack_into("<f", self.raw, at, value)

    def rows(self, name):
        return self.head[name]["shape"][0]

    def columns(self, name):
        return self.head[name]["shape"][-1]

    def write(self):
        with open(self.path, "wb") as f:
            f.write(self.raw)


def overflow(file, token):
    embed, layer = "model.embed_tokens.weight", "model.layers.0."
    for i in range(file.rows(embed)):
        file.put(embed, i, 0, 1.0 if i == token else 0.0)
    for i in range(file.columns(layer + "self_attn.o_proj.weight")):
        file.put(layer + "self_attn.o_proj.weight", 0, i, 0.0)
    for name in layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight":
        for i in range(file.rows(name)):
            file.put(name, i, 0, 1e25)


def main():
    file = File(sys.argv[2])
    if sys.argv[1] == "nan":
        file.put(sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), float("nan"))
    else:
        overflow(file, int(sys.argv[3]))
    file.write()


main()
