#!/usr/bin/env python3
"""Writes rope_golden.h: rope inverse frequencies computed by the code of transformers itself, in float32.

usage: rope_golden.py > rope_golden.h

Needs transformers and numpy. With torch installed the functions of transformers run as they are; without it they run
on a stand-in for the six torch calls they make, which maps them to numpy float32. The header says which it was.
"""
import importlib.util
import os
import sys
import types

import numpy as np

CASES = [  # name, head width, rope parameters
    ("plain_qwen2", 64, dict(rope_type="default", rope_theta=1000000.0)),
    ("plain_width_80", 80, dict(rope_type="default", rope_theta=10000.0)),
    ("linear", 64, dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
    ("llama3_1b", 64, dict(rope_type="llama3", rope_theta=500000.0, factor=32.0, low_freq_factor=1.0,
                           high_freq_factor=4.0, original_max_position_embeddings=8192)),
    ("llama3_8b", 128, dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
                            high_freq_factor=4.0, original_max_position_embeddings=8192)),
    ("yarn_qwen2", 128, dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0,
                             original_max_position_embeddings=32768)),
    ("yarn_mscale", 64, dict(rope_type="yarn", rope_theta=10000.0, factor=40.0, beta_fast=32.0, beta_slow=1.0,
                             mscale=0.707, mscale_all_dim=1.0, original_max_position_embeddings=4096)),
    ("yarn_no_truncate", 64, dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, beta_fast=24.0, beta_slow=2.0,
                                  attention_factor=1.25, truncate=False, original_max_position_embeddings=4096)),
    ("yarn_one_dim", 8, dict(rope_type="yarn", rope_theta=10000.0, factor=2.0, beta_fast=4.0, beta_slow=4.0,
                             truncate=False, original_max_position_embeddings=64)),
    ("yarn_empty_range", 16, dict(rope_type="yarn", rope_theta=10000.0, factor=2.0, beta_fast=23.0, beta_slow=52.0,
                                  original_max_position_embeddings=2048)),
    ("yarn_shrink", 16, dict(rope_type="yarn", rope_theta=10000.0, factor=0.5,
                             original_max_position_embeddings=2048)),
]


class Tensor(np.ndarray):
    def to(self, device=None, dtype=None):
        return self if dtype is None else self.astype(dtype)


def stand_in():
    torch = types.ModuleType("torch")
    torch.float = torch.float32 = np.float32
    torch.int64 = np.int64
    torch.arange = lambda *a, dtype=np.int64: np.arange(*a, dtype=dtype).view(Tensor)
    torch.where = lambda c, a, b: np.where(c, a, b).view(Tensor)
    torch.clamp = lambda x, lo, hi: np.clip(x, lo, hi)
    return torch


def load(torch):
    """The source of modeling_rope_utils without the rest of the package, which would want torch."""
    package = importlib.util.find_spec("transformers").submodule_search_locations[0]
    path = os.path.join(package, "modeling_rope_utils.py")
    with open(path) as f:
        source = f.read()
    source = source.replace("from .utils import is_torch_available, logging", "")
    names = {"torch": torch, "is_torch_available": lambda: False,
             "logging": types.SimpleNamespace(get_logger=lambda name: None), "__name__": "rope"}
    exec(compile(source, path, "exec"), names)
    return names


def main():
    from importlib.metadata import version

    try:
        import torch

        engine = "torch " + torch.__version__
    except ImportError:
        torch, engine = stand_in(), "numpy " + np.__version__ + " float32 in place of torch"
    names = load(torch)

    def default(config, *rest):  # lives in each model's file, as in modeling_llama.py: LlamaRotaryEmbedding
        dim = config.head_dim
        return 1.0 / (config.rope_parameters["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.float) / dim)), 1.0

    functions = dict(default=default, linear=names["_compute_linear_scaling_rope_parameters"],
                     llama3=names["_compute_llama3_parameters"], yarn=names["_compute_yarn_parameters"])
    print("/* rope_golden.h - written by rope_golden.py; do not edit. transformers %s, %s. */" %
          (version("transformers"), engine))
    print("#ifndef RT_TESTS_ROPE_GOLDEN_H\n#define RT_TESTS_ROPE_GOLDEN_H\n\n/* clang-format off */")
    rows = []
    for name, dim, p in CASES:
        config = types.SimpleNamespace(head_dim=dim, hidden_size=dim, num_attention_heads=1, rope_parameters=p,
                                       max_position_embeddings=p.get("original_max_position_embeddings"),
                                       standardize_rope_params=lambda: None)
        freq, scale = functions[p["rope_type"]](config)
        freq = np.asarray(freq)
        assert freq.dtype == np.float32 and freq.shape == (dim // 2,), (name, freq.dtype)
        print("static const float golden_%s[] = {" % name)
        for i in range(0, len(freq), 6):
            print("    " + " ".join("%.8ef," % v for v in freq[i:i + 6]))
        print("};")
        kind = {"default": "PLAIN"}.get(p["rope_type"], p["rope_type"].upper())
        fields = [".kind = RT_ROPE_" + kind] + [
            ".%s = %r" % (ours, float(p[theirs])) for ours, theirs in (
                ("theta", "rope_theta"), ("factor", "factor"), ("low_freq", "low_freq_factor"),
                ("high_freq", "high_freq_factor"), ("original_context", "original_max_position_embeddings"),
                ("beta_fast", "beta_fast"), ("beta_slow", "beta_slow"), ("attention_factor", "attention_factor"),
                ("mscale", "mscale"), ("mscale_all_dim", "mscale_all_dim")) if theirs in p]
        if p.get("truncate") is False:
            fields.append(".no_truncate = true")
        rows.append('    {"%s", %d, {%s},\n     golden_%s, %r},' % (name, dim, ", ".join(fields), name, float(scale)))
    print("\nstatic const struct golden_rope {\n    const char *name;\n    uint32_t D;\n    rt_rope_scaling s;\n"
          "    const float *freq; /* (D/2) */\n    double scale;\n} golden_rope[] = {")
    print("\n".join(rows))
    print("};\n/* clang-format on */\n\n#endif")
    return 0


if __name__ == "__main__":
    sys.exit(main())
