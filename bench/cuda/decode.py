"""Decodes with transformers' own models, with and without the operators.

    python bench/cuda/decode.py --out decode.json [--tokens 64] [--trials 7]

Random weights in the shapes of Qwen3-0.6B and Gemma3-1B, one sequence, greedy. Arms:
  eager      transformers as it is
  kernelize  the norms replaced by kernels.kernelize
  fused      all six operators, see fused.py
each as a Python loop with a dynamic cache, and as a CUDA graph of one step with a static
cache. Prints tokens per second, kernel launches per step, and how far the logits are from
those of the same model in float32.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "python"))
import conftest  # noqa: E402
import fused  # noqa: E402

MODELS = {
    "Qwen3-0.6B": lambda: transformers.Qwen3Config(
        vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, max_position_embeddings=4096, tie_word_embeddings=True,
    ),
    "Gemma3-1B": lambda: transformers.Gemma3TextConfig(
        vocab_size=262144, hidden_size=1152, intermediate_size=6912, num_hidden_layers=26, num_attention_heads=4,
        num_key_value_heads=1, head_dim=256, max_position_embeddings=4096, sliding_window=512, query_pre_attn_scalar=256,
    ),
}
PROMPT = 32


def build(name, dtype, seed=3):
    torch.manual_seed(seed)
    config = MODELS[name]()
    cls = transformers.Qwen3ForCausalLM if name.startswith("Qwen") else transformers.Gemma3ForCausalLM
    with torch.device("cuda"):
        model = cls(config)
    for n, p in model.named_parameters():  # norm weights that matter
        if "norm" in n:
            p.data.add_(torch.randn_like(p) * 0.1)
    return model.to(dtype).eval()


def kernelize(model, ops):
    import kernels
    from transformers.models.gemma3 import modeling_gemma3 as gemma3
    from transformers.models.qwen3 import modeling_qwen3 as qwen3

    folder = pathlib.Path(ops.__file__).parent
    kernels.replace_kernel_forward_from_hub(gemma3.Gemma3RMSNorm, "GemmaRMSNorm")
    kernels.replace_kernel_forward_from_hub(qwen3.Qwen3RMSNorm, "RMSNorm")
    mapping = {
        layer: {"cuda": kernels.LocalLayerRepository(repo_path=folder, layer_name=layer)}
        for layer in ("RMSNorm", "GemmaRMSNorm")
    }
    with kernels.use_kernel_mapping(mapping, inherit_mapping=False):
        return kernels.kernelize(model, mode=kernels.Mode.INFERENCE, device="cuda")


def decode(model, prompt, count):
    """Greedy tokens; returns them and the seconds of the steps after the prompt."""
    cache = transformers.DynamicCache(config=model.config)
    out = model(input_ids=prompt, past_key_values=cache, use_cache=True, logits_to_keep=1)
    token = out.logits[:, -1].argmax(-1, keepdim=True)
    found = [token]
    torch.cuda.synchronize()
    start = time.perf_counter()
    for i in range(count):
        position = torch.full((1, 1), prompt.shape[1] + i, device="cuda")
        out = model(input_ids=token, position_ids=position, past_key_values=cache, use_cache=True)
        token = out.logits[:, -1].argmax(-1, keepdim=True)
        found.append(token)
    torch.cuda.synchronize()
    return torch.cat(found, 1), time.perf_counter() - start


def launches(model, prompt):
    """Kernels of one decode step."""
    from torch.profiler import ProfilerActivity, profile

    cache = transformers.DynamicCache(config=model.config)
    model(input_ids=prompt, past_key_values=cache, use_cache=True)
    token, position = prompt[:, :1], torch.full((1, 1), prompt.shape[1], device="cuda")
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        model(input_ids=token, position_ids=position, past_key_values=cache, use_cache=True)
        torch.cuda.synchronize()
    return sum(e.device_type == torch.autograd.DeviceType.CUDA and "ynchron" not in e.name for e in trace.events())


def graph_step(model, prompt, trials, count):
    """Seconds for each replay of one captured step with a static cache."""
    cache = transformers.StaticCache(config=model.config, max_cache_len=1024)
    model(input_ids=prompt, past_key_values=cache, use_cache=True)
    token, position = prompt[:, :1].clone(), torch.full((1, 1), prompt.shape[1], device="cuda")

    def step():
        out = model(input_ids=token, position_ids=position, past_key_values=cache, use_cache=True)
        token.copy_(out.logits[:, -1].argmax(-1, keepdim=True))
        position.add_(1)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step(), step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(trials):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            graph.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / count)
    return times


def logits(model, ids):
    """Of every position of a given text, a token at a time after the prompt."""
    cache = transformers.DynamicCache(config=model.config)
    found = [model(input_ids=ids[:, :PROMPT], past_key_values=cache, use_cache=True).logits.float()]
    for i in range(PROMPT, ids.shape[1]):
        position = torch.full((1, 1), i, device="cuda")
        found.append(model(input_ids=ids[:, i : i + 1], position_ids=position, past_key_values=cache, use_cache=True).logits.float())
    return torch.cat(found, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--trials", type=int, default=7)
    options = parser.parse_args()
    ops = conftest.load_kernel("cuda")
    result = {"torch": torch.__version__, "transformers": transformers.__version__, "gpu": torch.cuda.get_device_name(), "models": {}}
    with torch.inference_mode():
        for name in MODELS:
            torch.manual_seed(1)
            ids = torch.randint(0, 100000, (1, PROMPT + 16), device="cuda")
            prompt = ids[:, :PROMPT]
            exact = logits(build(name, torch.float32), ids)
            arms = {
                "eager": build(name, torch.bfloat16),
                "kernelize": kernelize(build(name, torch.bfloat16), ops),
                "fused": fused.fuse(build(name, torch.bfloat16), ops),
            }
            told = {}
            for arm, model in arms.items():
                got = logits(model, ids)
                decode(model, prompt, 8)
                told[arm] = {
                    "launches": launches(model, prompt),
                    "error": ((got - exact).norm() / exact.norm()).item(),
                    "seconds": [],
                }
            for _ in range(options.trials):
                for arm, model in arms.items():
                    told[arm]["seconds"].append(decode(model, prompt, options.tokens)[1])
            for arm, model in arms.items():
                try:
                    told[arm]["graph step"] = graph_step(model, prompt, options.trials, options.tokens)
                except Exception as e:
                    told[arm]["graph"] = f"{type(e).__name__}: {str(e)[:300]}"
            result["models"][name] = told
            print(f"\n{name}\n| arm | tokens/s | over eager | launches a step | graph: tokens/s | over eager | logits' distance from float32 |")
            print("| --- | --- | --- | --- | --- | --- | --- |")
            rate = {a: options.tokens / statistics.median(t["seconds"]) for a, t in told.items()}
            graph = {a: 1 / statistics.median(t["graph step"]) if "graph step" in t else 0 for a, t in told.items()}
            for arm, t in told.items():
                over = f"{graph[arm] / graph['eager']:.2f}" if graph["eager"] and graph[arm] else t.get("graph", "")
                print(
                    f"| {arm} | {rate[arm]:.1f} | {rate[arm] / rate['eager']:.2f} | {t['launches']} "
                    f"| {graph[arm]:.1f} | {over} | {t['error']:.4f} |",
                    flush=True,
                )
            del arms
            torch.cuda.empty_cache()
    options.out.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
