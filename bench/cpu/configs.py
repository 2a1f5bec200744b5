"""What is measured: operators, dtypes, token counts and the widths of the models."""

HIDDEN = {"Qwen3-0.6B": 1024, "Gemma3-1B": 1152, "4B": 2560}
INTERMEDIATE = {"Qwen3-0.6B": 3072, "Gemma3-1B": 6912, "4B": 10240}
HEADS = {  # q heads, k heads, head size
    "Qwen3-0.6B": (16, 8, 128),
    "Gemma3-1B": (4, 1, 256),
    "Gemma3-4B": (8, 4, 256),
    "Qwen3-4B": (32, 8, 128),
}
# Models for which torch.compile is an arm: a compilation takes seconds.
COMPILED = ["Gemma3-1B"]
TOKENS = [1, 32, 128]
DTYPES = ["float32", "bfloat16"]
NORMS = ["rms_norm", "fused_add_rms_norm"]
GATES = ["silu_and_mul", "gelu_tanh_and_mul"]
ROTARY = ["rotary_embedding", "qk_norm_rope"]
OPS = NORMS + GATES + ROTARY


def width_of(op, model):
    table = HIDDEN if op in NORMS else INTERMEDIATE if op in GATES else HEADS
    return table[model]


def models_of(op):
    return list(HIDDEN if op in NORMS else INTERMEDIATE if op in GATES else HEADS)


def matrix(ops=None, tokens=None, dtypes=None):
    """Every configuration: {op, dtype, tokens, model}."""
    return [
        {"op": op, "dtype": dtype, "tokens": n, "model": model}
        for op in ops or OPS
        for dtype in dtypes or DTYPES
        for n in tokens or TOKENS
        for model in models_of(op)
    ]


def crossover():
    """Prefill lengths at one width, for AVX-512 against AVX2."""
    return [
        {"op": op, "dtype": dtype, "tokens": 2**e, "model": "Gemma3-1B"}
        for op in ("rms_norm", "silu_and_mul", "gelu_tanh_and_mul", "qk_norm_rope")
        for dtype in DTYPES
        for e in range(10)
    ]
