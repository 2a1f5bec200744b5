"""The contenders on a GPU. Each builds, for one configuration, calls on buffers of its own.

Three levels, never mixed: `public` is a package's documented entry point with its
allocations, `raw` the registered operator with its output given, `graph` the time of one
node of a CUDA graph of many calls. All arms take a cos_sin_cache of q's dtype.
"""

import functools
import pathlib
import sys

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "cpu"))
import arms as cpu  # noqa: E402
import configs  # noqa: E402
from inputs import angles  # noqa: E402

EPS, CACHE_ROWS = cpu.EPS, 4096

# Prefill sizes: hidden, intermediate, (q heads, k heads, head size).
LARGE = {"8B": (4096, 14336, (32, 8, 128)), "4B": (2560, 10240, (8, 4, 256)), "Qwen3-0.6B": (1024, 3072, (16, 8, 128))}


def width_of(config):
    if config["level"] != "bandwidth":
        return configs.width_of(config["op"], config["model"])
    hidden, intermediate, heads = LARGE[config["model"]]
    return hidden if config["op"] in configs.NORMS else intermediate if config["op"] in configs.GATES else heads


def inputs(config, seed=7):
    """As cpu.inputs, drawn on the GPU. q and k are views of a packed projection, as
    decoders have them. Weights of in-place norms are 1, so values neither grow nor shrink."""
    g = torch.Generator(device="cuda").manual_seed(seed)
    dtype, n, width = getattr(torch, config["dtype"]), config["tokens"], width_of(config)

    def rand(*shape):
        return torch.empty(shape, dtype=dtype, device="cuda").normal_(generator=g)

    if config["op"] in configs.NORMS:
        return {"x": rand(n, width), "residual": rand(n, width), "w": torch.ones(width, dtype=dtype, device="cuda")}
    if config["op"] in configs.GATES:
        return {"x": rand(n, 2 * width)}
    q_heads, k_heads, dim = width
    packed = rand(n, (q_heads + 2 * k_heads) * dim)
    if config["level"] == "bandwidth":  # every byte of the buffers belongs to the operator
        packed = None
        q, k = rand(n, q_heads, dim), rand(n, k_heads, dim)
    else:
        q = packed[:, : q_heads * dim].view(n, q_heads, dim)
        k = packed[:, q_heads * dim : (q_heads + k_heads) * dim].view(n, k_heads, dim)
    rows = max(CACHE_ROWS, n)
    positions = torch.arange(n, device="cuda") if n > 1 else torch.tensor([1234], device="cuda")
    cache = angles(rows, dim).to(dtype).cuda()
    return {"p": positions, "q": q, "k": k, "packed": packed, "w": torch.ones(dim, dtype=dtype, device="cuda"), "cache": cache, "dim": dim}


def minimum_bytes(config):
    """What one call must read and write."""
    n, width, size = config["tokens"], width_of(config), getattr(torch, config["dtype"]).itemsize
    if config["op"] == "rms_norm":
        return (2 * n + 1) * width * size
    if config["op"] == "fused_add_rms_norm":
        return (4 * n + 1) * width * size
    if config["op"] in configs.GATES:
        return 3 * n * width * size
    q_heads, k_heads, dim = width
    weights = 2 * dim * size if config["op"] == "qk_norm_rope" else 0
    return 2 * n * (q_heads + k_heads) * dim * size + n * dim * size + 8 * n + weights


class Arm(cpu.Arm):
    """An arm whose in-place buffers may be views."""

    def __init__(self, name, tensors, call, note=""):
        super().__init__(name, "", {k: v for k, v in tensors.items() if v is not None}, call, note)

    @staticmethod
    @functools.lru_cache(maxsize=1)
    def _want(key):
        config = dict(key)
        return cpu.exact(config["op"], inputs(config))


def ours_public(config, ops, name="ours"):
    t, op = inputs(config), config["op"]
    fn = getattr(ops, op)
    if op == "rms_norm":
        x, w = t["x"], t["w"]
        return Arm(name, t, lambda: fn(x, w, EPS))
    if op == "fused_add_rms_norm":
        x, r, w = t["x"], t["residual"], t["w"]
        return Arm(name, t, lambda: fn(x, r, w, EPS))
    if op in configs.GATES:
        x = t["x"]
        return Arm(name, t, lambda: fn(x))
    p, q, k, w, cache, dim = (t[i] for i in ("p", "q", "k", "w", "cache", "dim"))
    if op == "rotary_embedding":
        return Arm(name, t, lambda: fn(p, q, k, cache, dim))
    return Arm(name, t, lambda: fn(p, q, k, w, w, EPS, 0.0, cache, dim))


def ours_raw(config, ops, name="ours", registered=False):
    """What the public functions call, with its output given: the short entry, or the
    registered operator that stands behind it."""
    t, op = inputs(config), config["op"]

    def native(name):
        there = getattr(ops.functions, f"_{name}")
        return there.traced if registered else there.direct

    if op == "rms_norm":
        x, w, out, f = t["x"], t["w"], torch.empty_like(t["x"]), native("rms_norm_out")
        return Arm(name, t, lambda: f(out, x, w, EPS, 0.0) or out)
    if op in configs.GATES:
        x, out = t["x"], t["x"].new_empty(t["x"].shape[0], t["x"].shape[1] // 2)
        f = native(op + "_out")
        return Arm(name, t, lambda: f(out, x) or out)
    f = native(op)
    if op == "fused_add_rms_norm":
        x, r, w = t["x"], t["residual"], t["w"]
        return Arm(name, t, lambda: f(x, r, w, EPS, 0.0))
    p, q, k, w, cache, dim = (t[i] for i in ("p", "q", "k", "w", "cache", "dim"))
    if op == "rotary_embedding":
        return Arm(name, t, lambda: f(p, q, k, cache, dim, False))
    return Arm(name, t, lambda: f(p, q, k, w, w, EPS, 0.0, cache, dim, False))


def eager(config):
    t = inputs(config)
    fn, args = cpu.eager_function(config, t)
    return Arm("eager", t, lambda: fn(*args))


COMPILED = {}


def compiled(config):
    t = inputs(config)
    fn, args = cpu.eager_function(config, t)
    key = config["op"], config["dtype"], config["tokens"], str(width_of(config)), config["level"] == "bandwidth"
    if key not in COMPILED:  # one artifact for all levels of a configuration
        torch._dynamo.reset()
        COMPILED[key] = torch.compile(fn, dynamic=False, fullgraph=True)
    call = COMPILED[key]
    return Arm("compile", t, lambda: call(*args))


def functional(config):
    if config["op"] != "rms_norm":
        return None
    t = inputs(config)
    x, w, shape = t["x"], t["w"], t["w"].shape
    return Arm("F.rms_norm", t, lambda: F.rms_norm(x, shape, w, EPS))


def vllm(config, ns):
    """vLLM's registered operators. Its prologue takes the packed projection and does not
    round between norm and rotation."""
    t, op = inputs(config), config["op"]
    if op == "rms_norm":
        x, w, out, f = t["x"], t["w"], torch.empty_like(t["x"]), ns.rms_norm.default
        return Arm("vllm", t, lambda: f(out, x, w, EPS) or out)
    if op == "fused_add_rms_norm":
        x, r, w, f = t["x"], t["residual"], t["w"], ns.fused_add_rms_norm.default
        return Arm("vllm", t, lambda: f(x, r, w, EPS))
    if op in configs.GATES:
        x, out = t["x"], t["x"].new_empty(t["x"].shape[0], t["x"].shape[1] // 2)
        f = getattr(ns, op).default
        return Arm("vllm", t, lambda: f(out, x) or out)
    p, q, k, w, cache, dim = (t[i] for i in ("p", "q", "k", "w", "cache", "dim"))
    if op == "rotary_embedding":
        f, q2, k2 = ns.rotary_embedding.default, q.flatten(1), k.flatten(1)
        return Arm("vllm", t, lambda: f(p, q2, k2, dim, cache, True))
    if t["packed"] is None:
        t["packed"] = torch.cat([q.flatten(1), k.flatten(1), k.flatten(1)], 1)
        t["q"] = t["packed"][:, : q.shape[1] * dim].view_as(q)
        t["k"] = t["packed"][:, q.shape[1] * dim : (q.shape[1] + k.shape[1]) * dim].view_as(k)
    packed, nq, nk, f = t["packed"], q.shape[1], k.shape[1], ns.fused_qk_norm_rope
    return Arm("vllm", t, lambda: f(packed, nq, nk, nk, dim, EPS, w, w, cache, True, p), note="packed, not rounded between")


def liger(config):
    """Liger's functions; its gates take gate and up as two tensors."""
    op = config["op"]
    t = inputs(config)
    if op == "rms_norm":
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction as f

        x, w = t["x"], t["w"]
        return Arm("liger", t, lambda: f.apply(x, w, EPS, 0.0, "llama", False))
    if op == "fused_add_rms_norm":
        from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction as f

        x, r, w = t["x"], t["residual"], t["w"]
        return Arm("liger", t, lambda: f.apply(x, r, w, EPS, 0.0, "llama", False))
    if op in configs.GATES:
        from liger_kernel.ops.geglu import LigerGELUMulFunction
        from liger_kernel.ops.swiglu import LigerSiLUMulFunction

        f = LigerSiLUMulFunction if op == "silu_and_mul" else LigerGELUMulFunction
        a, b = (h.contiguous() for h in t["x"].chunk(2, -1))
        return Arm("liger", t, lambda: f.apply(a, b), note="gate and up given apart")
    return None


def sglang(config, module):
    """SGLang's kernels through tvm-ffi, their outputs given; bf16 only, an angle table in float32 for RoPE."""
    op = config["op"]
    t = inputs(config)
    if op == "rms_norm":
        x, w, out, f = t["x"], t["w"], torch.empty_like(t["x"]), module[f"rmsnorm_{t['x'].shape[-1]}"]
        return Arm("sglang", t, lambda: f(x, w, out, EPS) or out)
    if op == "fused_add_rms_norm":
        x, r, w, f = t["x"], t["residual"], t["w"], module["fused_add_rmsnorm"]
        return Arm("sglang", t, lambda: f(x, r, w, EPS))
    if op in configs.GATES:
        x, out = t["x"], t["x"].new_empty(t["x"].shape[0], t["x"].shape[1] // 2)
        f, act = module["run_activation"], "silu" if op == "silu_and_mul" else "gelu_tanh"
        return Arm("sglang", t, lambda: f(x, out, act) or out)
    p, q, k, w, cache, dim = (t[i] for i in ("p", "q", "k", "w", "cache", "dim"))
    if op == "rotary_embedding":
        t["float cache"] = angles_of = cache.float()
        f = module[f"rope_{dim}"]
        return Arm("sglang", t, lambda: f(q, k, angles_of, p), note="angle table in float32")
    f = module[f"qknorm_rope_{dim}"]
    return Arm("sglang", t, lambda: f(q, k, w, w, cache, p, EPS))


def native(config):
    """The cheapest call there is: an in-place operator of torch on 16 elements."""
    x = torch.ones(16, device="cuda")
    return Arm("native", {"tiny": x}, lambda: x.mul_(1.0))


def copy(config):
    """An elementwise copy of as many bytes, read and written."""
    n = max(8, minimum_bytes(config) // (2 * getattr(torch, config["dtype"]).itemsize) // 8 * 8)
    x = torch.empty(n, dtype=getattr(torch, config["dtype"]), device="cuda").normal_()
    y = torch.empty_like(x)
    return Arm("copy", {"from": x}, lambda: torch.mul(x, 1.0, out=y))
