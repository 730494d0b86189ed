"""Generation by transformers, for bench_decode to be set beside: a model of random weights in the shape of a preset, as
many requests at once, greedy, answers of a fixed length. Continuous batching (generate_batch); where that fails, one
batch with a static cache, and it says so."""

import argparse
import time

import torch
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

SHAPES = {
    "qwen2.5-1.5b": dict(hidden_size=1536, intermediate_size=8960, num_attention_heads=12, num_key_value_heads=2),
    "qwen2.5-7b": dict(hidden_size=3584, intermediate_size=18944, num_attention_heads=28, num_key_value_heads=4),
}


def make(preset, attention):
    large = preset == "qwen2.5-7b"
    config = Qwen2Config(num_hidden_layers=28, vocab_size=152064 if large else 151936, max_position_embeddings=32768,
                         rope_theta=1e6, tie_word_embeddings=not large, **SHAPES[preset])
    config._attn_implementation = attention
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        return Qwen2ForCausalLM(config).eval()


def batched(model, prompts, answer):
    how = GenerationConfig(max_new_tokens=answer, do_sample=False, eos_token_id=-1, pad_token_id=0)
    out = model.generate_batch(inputs=prompts, generation_config=how)
    return sum(len(o.generated_tokens) for o in out.values())


def static(model, prompts, answer):
    ids = torch.tensor(prompts, device="cuda")
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=answer, min_new_tokens=answer,
                         do_sample=False, cache_implementation="static", pad_token_id=0)
    return (out.shape[1] - ids.shape[1]) * len(prompts)


def timed(run, *args):
    torch.cuda.synchronize()
    begun = time.time()
    made = run(*args)
    torch.cuda.synchronize()
    return made, time.time() - begun


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--preset", choices=SHAPES, default="qwen2.5-1.5b")
    parse.add_argument("--slots", type=int, default=256)
    parse.add_argument("--prompt", type=int, default=256)
    parse.add_argument("--answer", type=int, default=512)
    parse.add_argument("--attention", default="sdpa")
    parse.add_argument("--static", action="store_true", help="one batch with a static cache at once")
    a = parse.parse_args()
    model = make(a.preset, a.attention)
    prompts = [[(i * 977 + k * 31) % 150000 for k in range(a.prompt)] for i in range(a.slots)]
    with torch.no_grad():  # continuous batching changes tensors of its own, which inference mode forbids
        run, name = (static, "static cache") if a.static else (batched, "continuous batching")
        try:
            timed(run, model, prompts, 16)
            made, took = timed(run, model, prompts, a.answer)
        except Exception as e:  # whatever the installed version cannot do
            if a.static:
                raise
            print(f"continuous batching failed: {type(e).__name__}: {str(e)[:300]}")
            run, name = static, "static cache"
            timed(run, model, prompts, 16)
            made, took = timed(run, model, prompts, a.answer)
    print(f"transformers {name}, {a.preset}, {a.slots} x {a.prompt} + {a.answer}: {made} tokens, {took:.2f} s, "
          f"{made / took:.0f} tokens/s")


if __name__ == "__main__":
    main()
