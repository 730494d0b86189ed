"""step_reference.py - the step once more, in PyTorch: models of transformers (adapters of PEFT) in float64, the loss written down anew
from its definition, torch.optim.AdamW and clip_grad_norm_. For test_step_torch.py and tools/gen_step_golden.py.

A job is what tests/unit/step_case.h describes; run() gives the same names with the same meaning.

What is float64 in transformers only after a patch (see exact()): RMSNorm and the rotary embedding compute in float32 whatever the
model's dtype is. Attention goes through scaled_dot_product_attention, which keeps float64 (the eager form asks for a float32 softmax). The inverse
frequencies stay the float32 table that transformers makes. Scalars that a plan holds as float32 (1/sqrt(D), the eps of a norm, yarn's factor) are rounded to
it; those of a job are float32 values from the start (f32()).
"""
import math

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config, SmolLM3Config

SHAPE = dict(vocab_size=41, hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=8, max_position_embeddings=256, bos_token_id=None, eos_token_id=None, pad_token_id=None)


def rope(theta, **scaling):
    return dict(rope_parameters=dict(rope_theta=theta, **(scaling or {"rope_type": "default"})))


# name -> configuration; two shapes of each are made: student and a wider teacher
MODELS = {
    "llama": (LlamaConfig, dict(attention_bias=True, mlp_bias=True, **rope(100.0))),
    "llama3-rope": (LlamaConfig, rope(100.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                      original_max_position_embeddings=32)),
    "linear-rope": (LlamaConfig, rope(100.0, rope_type="linear", factor=4.0)),
    "yarn-rope": (LlamaConfig, rope(100.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=64)),
    "qwen2": (Qwen2Config, dict(tie_word_embeddings=True, **rope(1000.0))),
    "qwen2-windows": (Qwen2Config, dict(use_sliding_window=True, sliding_window=3, max_window_layers=1, **rope(1000.0))),
    "qwen3": (Qwen3Config, dict(tie_word_embeddings=False, **rope(1000.0))),
    "mistral": (MistralConfig, dict(sliding_window=4, **rope(100.0))),
    "smollm3": (SmolLM3Config, dict(no_rope_layers=[1, 0], tie_word_embeddings=True, use_sliding_window=False, **rope(100.0))),
}


def config(name, **other):
    kind, keys = MODELS[name]
    return kind(**{**SHAPE, "rms_norm_eps": 1e-5, **keys, **other})


def teacher_config(name, **other):
    return config(name, **{**dict(hidden_size=32, intermediate_size=28), **other})


def f32(x):
    return float(np.float32(x))


# ---- weights by formula: step_case.h has the same ----

def units(seed, count):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float64) / 2.0 ** 24 - 0.5


def seed(model, name):
    h = 0xCBF29CE484222325
    for byte in f"{model}/{name}".encode():
        h = ((h ^ byte) * 0x100000001B3) % 2 ** 64
    return h


def plain_name(name):
    """A parameter's name in our files; PEFT wraps modules."""
    return name.removeprefix("base_model.model.").replace(".base_layer", "").replace(".default", "")


def fill(model, label):
    done = set()
    for name, parameter in model.named_parameters():
        name = plain_name(name)
        u = units(seed(label, name), parameter.numel())
        values = 1 + u / 2 if "norm" in name else u / 4 if name.endswith(".bias") else u * 0.75
        parameter.data.copy_(torch.from_numpy(values).reshape(parameter.shape))
        done.add(name)
    return done


def build(configuration, label):
    model = AutoModelForCausalLM.from_config(configuration, attn_implementation="sdpa").eval()
    fill(model, label)
    return model


# ---- float64 throughout ----

def norm_forward(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def rotary_forward(self, x, position_ids):
    angles = position_ids[..., None].double() * self.table
    both = torch.cat((angles, angles), dim=-1)
    return both.cos() * self.factor, both.sin() * self.factor


def exact(model):
    """The model in float64, in place; answers how many modules were patched."""
    table = next(m.inv_freq for m in model.modules() if type(m).__name__.endswith("RotaryEmbedding")).detach().clone()
    if table.dtype != torch.float32:
        raise ValueError("the rope table was expected in float32")
    model.double()
    patched = 0
    for module in model.modules():
        kind = type(module).__name__
        if kind.endswith("RMSNorm"):
            module.variance_epsilon = f32(module.variance_epsilon)
            module.forward = norm_forward.__get__(module)
            patched += 1
        elif kind.endswith("RotaryEmbedding"):
            module.table, module.factor = table.double(), f32(module.attention_scaling)
            module.forward = rotary_forward.__get__(module)
            patched += 1
        elif kind.endswith("Attention"):
            module.scaling = f32(module.scaling)
            patched += 1
    return patched


def rope_table(model):
    return model.model.rotary_emb.inv_freq.float().tolist()


# ---- the loss, from DESIGN section 5 ----

def common_ids(job, V, U):
    words = job.get("vmask")
    return [v for v in range(min(V, U)) if words is None or words[v // 32] >> v % 32 & 1]


def divergences(kind, mix, lp, lq):
    """(N) from log p of the teacher and log q of the student, (N, ids) each."""
    p, q = lp.exp(), lq.exp()
    if kind == "jsd" and mix in (0.0, 1.0):
        kind = "reverse-kl" if mix else "forward-kl"
    if kind == "forward-kl":
        terms = p * (lp - lq)
    elif kind == "reverse-kl":
        terms = q * (lq - lp)
    elif kind == "jsd":
        lm = (mix * p + (1 - mix) * q).log()
        terms = mix * p * (lp - lm) + (1 - mix) * q * (lq - lm)
    elif kind == "skew-forward":
        terms = p * (lp - (mix * p + (1 - mix) * q).log())
    elif kind == "skew-reverse":
        terms = q * (lq - (mix * q + (1 - mix) * p).log())
    elif kind == "tv":
        terms = (p - q).abs() / 2
    else:
        raise ValueError(kind)
    return terms.sum(-1)


def positions(job, batch, z, zt):
    """Per position: CE, D, D as forward KL at temperature 1, agreement, the teacher's CE; 0 without a target."""
    loss, target = job["loss"], torch.tensor(batch["target"])
    here = (target >= 0).nonzero()[:, 0]
    at = target[here]
    full = lambda values: torch.zeros(len(target), dtype=values.dtype).index_put((here,), values)
    ce = lambda logits: full(torch.nn.functional.cross_entropy(logits[here], at, reduction="none"))
    out = {"ce": ce(z)}
    if zt is None:
        return out
    ids = common_ids(job, z.shape[1], zt.shape[1])
    s, t, T = z[here][:, ids], zt[here][:, ids], loss["temperature"]
    D = lambda kind, mix, T: full(divergences(kind, mix, (t / T).log_softmax(-1), (s / T).log_softmax(-1)))
    out["div"] = D(loss["divergence"], loss["mix"], T)
    out["kl"] = D("forward-kl", 0.0, 1.0)
    out["top1"] = full((s.argmax(-1) == t.argmax(-1)).double())
    out["teacher_ce"] = ce(zt)
    return out


# ---- running a job ----

def explicit_mask(job, batch, window=None):
    """(B, 1, T, T): causal within a document."""
    B, T = job["B"], job["T"]
    start = torch.tensor(batch["start"]).reshape(B, 1, T, 1)
    i, j = torch.arange(T).reshape(1, 1, T, 1), torch.arange(T).reshape(1, 1, 1, T)
    mask = (j <= i) & (j >= start)
    return mask & (i - j < window) if window else mask


def masks(job, batch, configuration):
    """What a model takes as attention_mask."""
    window = getattr(configuration, "sliding_window", None)
    types = set(getattr(configuration, "layer_types", None) or ["full_attention"])
    if configuration.model_type == "mistral":
        return explicit_mask(job, batch, window)
    if types == {"full_attention"} and configuration.model_type == "llama":
        return explicit_mask(job, batch)
    return {"full_attention": explicit_mask(job, batch), "sliding_attention": explicit_mask(job, batch, window)}


def forward(model, job, batch, mask="explicit"):
    """(B*T, V). mask "explicit": ours; None: what transformers makes of the positions."""
    B, T = job["B"], job["T"]
    ids, pos = torch.tensor(batch["ids"]).reshape(B, T), torch.tensor(batch["pos"]).reshape(B, T)
    given = masks(job, batch, model.config) if mask else None
    return model(input_ids=ids, position_ids=pos, attention_mask=given, use_cache=False).logits.reshape(B * T, -1)


def optimizer(job, parameters):
    a = job["adamw"]
    groups = [dict(params=[p for p in parameters if p.dim() >= 2], weight_decay=a["weight_decay"]),
              dict(params=[p for p in parameters if p.dim() < 2], weight_decay=0.0)]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=1.0, betas=(a["beta1"], a["beta2"]), eps=a["eps"])


def run(job, student, teacher):
    """Every result by name, numpy float64. Models are exact(); the student is trained in place."""
    out = {}
    put = lambda key, value: out.__setitem__(key, value.detach().double().reshape(-1).numpy().copy())
    frozen = set(job.get("frozen", []))
    trained = {plain_name(name): p for name, p in student.named_parameters()
               if (".lora_" in name if "lora" in job else name not in frozen)}
    still = {plain_name(name): p for name, p in student.named_parameters() if plain_name(name) not in trained}
    for p in student.parameters():
        p.requires_grad_(False)
    for p in trained.values():
        p.requires_grad_(True)
    batches, micro = job["batches"], job["micro"]
    with torch.no_grad():
        z = forward(student, job, batches[0])
        zt = forward(teacher, job, batches[0]) if teacher else None
        put("logits.student", z)
        if teacher:
            put("logits.teacher", zt)
        for key, value in positions(job, batches[0], z, zt).items():
            put("eval." + key, value)
        from_teacher = [forward(teacher, job, b) if teacher else None for b in batches]
    adamw, loss, limit = optimizer(job, list(trained.values())), job["loss"], job["adamw"]["max_grad_norm"]
    kd_weight = loss["kd_weight"] * (loss["temperature"] ** 2 if loss["t2"] else 1)
    steps = {key: [] for key in ("loss", "ce", "div", "agreement", "grad_norm", "clip")}
    for s, lr in enumerate(job["lr"]):
        chosen = [(s * micro + k) % len(batches) for k in range(micro)]
        M = sum(t >= 0 for b in chosen for t in batches[b]["target"])
        adamw.zero_grad()
        sums = dict(ce=0.0, div=0.0, top1=0.0)
        for b in chosen:
            parts = positions(job, batches[b], forward(student, job, batches[b]), from_teacher[b])
            total = loss["ce_weight"] * parts["ce"].sum() / M
            if teacher:
                total = total + kd_weight * parts["div"].sum() / M
            total.backward()
            for key in sums:
                sums[key] += parts[key].sum().item() / M if key in parts else 0.0
        if s == 0:
            for name, p in trained.items():
                put("grad." + name, p.grad if p.grad is not None else torch.zeros_like(p))
        norm = torch.nn.utils.clip_grad_norm_(list(trained.values()), limit if limit > 0 else math.inf).item()
        for group in adamw.param_groups:
            group["lr"] = lr
        adamw.step()
        values = (loss["ce_weight"] * sums["ce"] + (kd_weight * sums["div"] if teacher else 0), sums["ce"], sums["div"], sums["top1"], norm,
                  min(1.0, limit / (norm + 1e-6)) if limit > 0 else 1.0)
        for key, value in zip(steps, values):
            steps[key].append(value)
    for key, values in steps.items():
        put("step." + key, torch.tensor(values, dtype=torch.float64))
    for name, p in trained.items():
        put("weight." + name, p)
        put("m." + name, adamw.state[p]["exp_avg"])
        put("v." + name, adamw.state[p]["exp_avg_sq"])
    for name, p in still.items():
        put("frozen." + name, p)
    return out


# ---- jobs ----

def make_batch(rng, B, T, V, documents):
    """Rows of packed documents; a quarter of the targets is masked, the last row ends in padding."""
    batch = dict(ids=[], pos=[], start=[], target=[])
    for row in range(B):
        cuts = sorted(rng.choice(np.arange(1, T), size=documents - 1, replace=False).tolist()) if documents > 1 else []
        edges = [0, *cuts, T]
        ids = rng.integers(0, V, T).tolist()
        for first, end in zip(edges, edges[1:]):
            padding = row == B - 1 and end == T and documents > 1
            for i in range(first, end):
                batch["ids"].append(0 if padding else ids[i])
                batch["pos"].append(i - first)
                batch["start"].append(first)
                last = i + 1 == end
                batch["target"].append(-1 if padding or last or rng.random() < 0.25 else ids[i + 1])
    if not any(t >= 0 for t in batch["target"]):
        batch["target"][0] = 1
    return batch


def make_job(number, V, B=2, T=11, documents=3, micro=1, steps=10, divergence="forward-kl", mix=0.0, temperature=1.0, ce_weight=0.1,
             kd_weight=0.9, t2=True, lr=3e-3, chunk=5, max_grad_norm=0.5, **other):
    rng = np.random.default_rng(number)
    return dict(B=B, T=T, chunk=chunk, micro=micro, lr=[f32(lr * min(1.0, (s + 1) / 3)) for s in range(steps)],
                batches=[make_batch(rng, B, T, V, documents) for _ in range(3)],
                loss=dict(divergence=divergence, mix=f32(mix), temperature=f32(temperature), ce_weight=f32(ce_weight), kd_weight=f32(kd_weight),
                          t2=t2),
                adamw=dict(beta1=f32(0.9), beta2=f32(0.95), eps=f32(1e-8), weight_decay=f32(0.1), max_grad_norm=f32(max_grad_norm)), **other)
