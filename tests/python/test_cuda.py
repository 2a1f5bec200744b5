"""What only a GPU can get wrong: streams, graphs, launches, sizes beyond 32 bits.

Skipped unless the suite runs with --device cuda.
"""

import pytest
import torch

import expected
from expected import assert_close
from inputs import DTYPES, EPS, angles, name, rand

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=name)
layouts = pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "pairs"])


@pytest.fixture(autouse=True)
def needs_cuda(device):
    if device != "cuda":
        pytest.skip("needs --device cuda")


def problem(dtype, tokens=3, hidden=1024, q_heads=16, k_heads=8, head_dim=128):
    """Buffers for one call of every operator."""
    d = dict(dtype=dtype, device="cuda")
    return {
        "x": rand(tokens, hidden, **d),
        "residual": rand(tokens, hidden, **d),
        "w": rand(hidden, **d),
        "gate": rand(tokens, 2 * hidden, **d),
        "q": rand(tokens, q_heads, head_dim, **d),
        "k": rand(tokens, k_heads, head_dim, **d),
        "hw": rand(head_dim, **d),
        "p": torch.arange(tokens, device="cuda"),
        "cache": angles(max(64, tokens), head_dim, device="cuda"),
    }


def step(ops, t):
    """One call of each operator, every one reading what another one wrote, no call
    waiting for its predecessor. Returns all results."""
    dim = t["hw"].shape[0]
    ops.fused_add_rms_norm(t["x"], t["residual"], t["w"], EPS)
    y = ops.rms_norm(t["x"], t["w"], EPS)
    t["gate"][:, : y.shape[1]] = y
    silu = ops.silu_and_mul(t["gate"])
    gelu = ops.gelu_tanh_and_mul(t["gate"], out=t["x"])
    ops.fused_add_rms_norm(silu, t["residual"], t["w"], EPS)
    ops.rotary_embedding(t["p"], t["q"], t["k"], t["cache"], dim)
    ops.qk_norm_rope(t["p"], t["q"], t["k"], t["hw"], t["hw"], EPS, 0.0, t["cache"], dim)
    return y, silu, gelu, t["residual"], t["q"], t["k"]


CALLS = {
    "rms_norm": lambda ops, t: ops.rms_norm(t["x"], t["w"], EPS),
    "fused_add_rms_norm": lambda ops, t: ops.fused_add_rms_norm(t["x"], t["residual"], t["w"], EPS),
    "silu_and_mul": lambda ops, t: ops.silu_and_mul(t["gate"]),
    "gelu_tanh_and_mul": lambda ops, t: ops.gelu_tanh_and_mul(t["gate"]),
    "rotary_embedding": lambda ops, t: ops.rotary_embedding(t["p"], t["q"], t["k"], t["cache"], t["hw"].shape[0]),
    "qk_norm_rope": lambda ops, t: ops.qk_norm_rope(
        t["p"], t["q"], t["k"], t["hw"], t["hw"], EPS, 0.0, t["cache"], t["hw"].shape[0]
    ),
}
every_op = pytest.mark.parametrize("op", list(CALLS))


def copy_of(t):
    return {k: v.clone() for k, v in t.items()}


def equal(got, want):
    for g, w in zip(got, want):
        assert torch.equal(g, w)


# ------------------------------------------------------------------ launches


def launches(call):
    """The names of the kernels that call() launched."""
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        call()
        torch.cuda.synchronize()
    found = [e.name for e in trace.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return [n for n in found if "ynchron" not in n]


@every_op
@dtypes
@pytest.mark.parametrize("tokens", [1, 300])
def test_one_launch_each(ops, dtype, op, tokens):
    t = problem(dtype, tokens)
    found = launches(lambda: CALLS[op](ops, t))
    assert len(found) == 1 and "thox_edge_ops" in found[0], found


@every_op
def test_empty_tensors_launch_nothing(ops, op):
    t = problem(torch.float32, 0)
    assert launches(lambda: CALLS[op](ops, t)) == []


@every_op
def test_no_call_waits_for_the_device(ops, op):
    t = problem(torch.bfloat16)
    CALLS[op](ops, t)
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)  # about a second
    CALLS[op](ops, t)
    assert not torch.cuda.current_stream().query(), "the call returned after the work before it, so it waited"
    torch.cuda.synchronize()


# ---------------------------------------------------------- streams and graphs


@dtypes
def test_dependent_calls_see_each_other(ops, dtype):
    """A kernel may be scheduled before its predecessor ends; it must not read before."""
    t = problem(dtype, 17)
    eager, chained = copy_of(t), copy_of(t)
    for _ in range(50):
        want = step(ops, eager)
        torch.cuda.synchronize()
    for _ in range(50):
        got = step(ops, chained)
    equal(got, want)


@every_op
def test_runs_on_the_current_stream(ops, op):
    """The inputs become right on a side stream that is still busy when the call is made."""
    t = problem(torch.bfloat16)
    want = copy_of(t)
    result = CALLS[op](ops, want)
    late = {k: torch.zeros_like(v) for k, v in t.items()}
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(100_000_000)
        for k, v in late.items():
            v.copy_(t[k])
        got = CALLS[op](ops, late)
    torch.cuda.synchronize()
    equal(late.values(), want.values())
    if isinstance(got, torch.Tensor):
        assert torch.equal(got, result)


@dtypes
def test_two_streams(ops, dtype):
    problems = [problem(dtype, n) for n in (5, 64)]
    alone = []
    for t in problems:
        own = copy_of(t)
        for _ in range(20):
            result = step(ops, own)
        alone.append(result)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in problems]
    together = [None, None]
    for s in streams:
        s.wait_stream(torch.cuda.current_stream())
    for _ in range(20):
        for i, s in enumerate(streams):
            with torch.cuda.stream(s):
                together[i] = step(ops, problems[i])
    torch.cuda.synchronize()
    for got, want in zip(together, alone):
        equal(got, want)


@dtypes
@pytest.mark.parametrize("tokens", [1, 130])
def test_graph_capture_and_replay(ops, dtype, tokens):
    t = problem(dtype, tokens)
    first, second = copy_of(t), problem(dtype, tokens)
    want = [[r.clone() for r in step(ops, copy_of(first))], [r.clone() for r in step(ops, copy_of(second))]]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step(ops, copy_of(t))
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step(ops, t)
    for inputs, expect in ((first, want[0]), (second, want[1]), (first, want[0])):
        for k, v in t.items():
            v.copy_(inputs[k])
        graph.replay()
        equal(results, expect)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@every_op
def test_runs_on_the_device_of_the_tensors(ops, op):
    t = problem(torch.bfloat16)
    other = {k: v.to("cuda:1") for k, v in t.items()}
    assert torch.cuda.current_device() == 0
    CALLS[op](ops, t), CALLS[op](ops, other)
    assert torch.cuda.current_device() == 0
    equal([v.cpu() for v in other.values()], [v.cpu() for v in t.values()])


def test_refuses_tensors_of_two_devices(ops):
    x, w = rand(2, 64, device="cuda"), rand(64)
    with pytest.raises(RuntimeError, match="weight must be on cuda:0 like the input, got cpu"):
        ops.rms_norm(x, w, EPS)
    t = problem(torch.float32)
    with pytest.raises(RuntimeError, match="positions must be on cuda:0 like q, got cpu"):
        ops.rotary_embedding(t["p"].cpu(), t["q"], t["k"], t["cache"], 128)


# -------------------------------------------------------------- the same bits


@dtypes
@pytest.mark.parametrize("hidden", [64, 128, 1000, 1024, 1152, 2560, 4096, 8192, 16384, 40000])
def test_a_row_has_the_same_bits_in_every_batch(ops, dtype, hidden):
    """The launch's shape follows the number of rows; the sum's order must not. Nor may
    alignment and strides change it."""
    rows = max(64, 2**26 // hidden)
    x = torch.randn(rows, hidden, device="cuda").to(dtype)
    w = rand(hidden, dtype=dtype, device="cuda")
    add, residual = x.clone(), torch.randn(rows, hidden, device="cuda").to(dtype)
    before = residual.clone()
    norm = ops.rms_norm(x, w, EPS)
    ops.fused_add_rms_norm(add, residual, w, EPS)
    for first, n in ((0, 1), (1, 2), (3, 7), (rows // 2, 32), (rows - 1, 1)):
        part = slice(first, first + n)
        assert torch.equal(ops.rms_norm(x[part], w, EPS), norm[part])
        a, r = x[part].clone(), before[part].clone()
        ops.fused_add_rms_norm(a, r, w, EPS)
        assert torch.equal(a, add[part]) and torch.equal(r, residual[part])
    odd = torch.empty(rows * (hidden + 1) + 1, dtype=dtype, device="cuda")[1:].view(rows, hidden + 1)[:, :hidden]
    odd.copy_(x)
    assert torch.equal(ops.rms_norm(odd, w, EPS), norm)


@dtypes
@layouts
@pytest.mark.parametrize("head_dim, rotary_dim", [(64, 64), (128, 128), (256, 256), (128, 64), (80, 20), (37, 20), (512, 512), (640, 640)])
@pytest.mark.parametrize("tokens", [1, 3000])
def test_prologue_has_the_bits_of_norm_and_rotary(ops, dtype, interleaved, head_dim, rotary_dim, tokens):
    q_heads, k_heads = 5, 2
    packed = torch.randn(tokens, (q_heads + 2 * k_heads) * head_dim, device="cuda").to(dtype)
    q = packed[:, : q_heads * head_dim].view(tokens, q_heads, head_dim)
    k = packed[:, q_heads * head_dim : (q_heads + k_heads) * head_dim].view(tokens, k_heads, head_dim)
    v = packed[:, (q_heads + k_heads) * head_dim :].clone()
    qw, kw = rand(head_dim, dtype=dtype, device="cuda"), rand(head_dim, dtype=dtype, device="cuda")
    positions = torch.randint(-4, 70, (tokens,), device="cuda", dtype=torch.int32)
    for cache in (angles(64, rotary_dim, device="cuda"), angles(64, rotary_dim, dtype=dtype, device="cuda")):
        q2, k2 = ops.rms_norm(q, qw, EPS, 1.0), ops.rms_norm(k, kw, EPS, 1.0)
        ops.rotary_embedding(positions, q2, k2, cache, rotary_dim, interleaved)
        ops.qk_norm_rope(positions, q, k, qw, kw, EPS, 1.0, cache, rotary_dim, interleaved)
        assert torch.equal(q, q2) and torch.equal(k, k2)
        assert torch.equal(packed[:, (q_heads + k_heads) * head_dim :], v), "v lies beside q and k"


@dtypes
def test_positions_of_both_widths(ops, dtype):
    a, b = problem(dtype, 9), None
    b = copy_of(a)
    ops.rotary_embedding(a["p"], a["q"], a["k"], a["cache"], 128)
    ops.rotary_embedding(b["p"].int(), b["q"], b["k"], b["cache"], 128)
    equal((a["q"], a["k"]), (b["q"], b["k"]))


# ------------------------------------------------------------ beyond 32 bits


def gigabytes(n):
    free = torch.cuda.mem_get_info()[0] / 2**30 if torch.cuda.is_available() else 0
    return pytest.mark.skipif(free < n, reason=f"needs {n} GiB of device memory, {free:.0f} are free")


def filled(*shape, dtype=torch.bfloat16):
    """Values that differ from row to row, without a temporary of another dtype."""
    t = torch.empty(shape, dtype=dtype, device="cuda")
    return t.normal_()


def some(rows):
    return [0, 1, rows // 2, rows - 2, rows - 1]


@gigabytes(30)
@pytest.mark.parametrize("rows, hidden", [(2**20 + 3, 2048), (2**31 + 5, 1), (2, 2**30 + 24), (2**21 + 1, 1023)])
def test_norms_beyond_2_31_elements(ops, rows, hidden):
    x, w = filled(rows, hidden), filled(hidden)
    out, residual = torch.full_like(x, float("nan")), filled(rows, hidden)
    picks = some(rows)
    before = [(x[i].clone(), residual[i].clone()) for i in picks]
    ops.rms_norm(x, w, EPS, out=out)
    for i in picks:
        assert torch.equal(out[i : i + 1], ops.rms_norm(x[i : i + 1].clone(), w, EPS))
        assert_close(out[i], expected.rms_norm(x[i], w, EPS))
    assert not out.isnan().any()
    del out
    ops.fused_add_rms_norm(x, residual, w, EPS)
    for i, (a, r) in zip(picks, before):
        ops.fused_add_rms_norm(a, r, w, EPS)
        assert torch.equal(x[i], a) and torch.equal(residual[i], r)


@gigabytes(20)
@pytest.mark.parametrize("rows, width", [(2**19 + 1, 2048), (2**30 + 7, 1), (1, 2**30 + 8), (3, 2**29 + 1)])
def test_gates_beyond_2_31_elements(ops, rows, width):
    x = filled(rows, 2 * width)
    for gate in ("silu_and_mul", "gelu_tanh_and_mul"):
        out = torch.full((rows, width), float("nan"), dtype=x.dtype, device="cuda")
        getattr(ops, gate)(x, out=out)
        assert not out.isnan().any()
        for i in some(rows) if rows > 4 else range(rows):
            for c in (0, max(0, width - 1000)):
                part = torch.cat([x[i, c : c + 1000], x[i, width + c : width + c + 1000]]) if width > 1 else x[i]
                assert_close(out[i, c : c + 1000], getattr(expected, gate)(part))


@gigabytes(20)
@layouts
@pytest.mark.parametrize("tokens, q_heads, head_dim", [(2**17 + 3, 128, 128), (2**31 + 2, 1, 2), (1, 2**24 + 1, 128)])
def test_rotary_and_prologue_beyond_2_31_elements(ops, interleaved, tokens, q_heads, head_dim):
    q, k = filled(tokens, q_heads, head_dim), filled(tokens, 1, head_dim)
    cache, w = angles(64, head_dim, device="cuda"), filled(head_dim)
    positions = torch.arange(tokens, device="cuda", dtype=torch.int32 if tokens < 2**31 else torch.int64).remainder_(64)
    picks = sorted({i % tokens for i in some(max(tokens, 2))})
    heads = sorted({0, q_heads // 2, q_heads - 1})

    def parts():
        return [(q[i : i + 1, h : h + 1].clone(), k[i : i + 1].clone()) for i in picks for h in heads]

    def places():
        return [(i, h) for i in picks for h in heads]

    for op in ("rotary", "prologue"):
        before = parts()
        if op == "rotary":
            call = lambda p, a, b: ops.rotary_embedding(p, a, b, cache, head_dim, interleaved)
        else:
            call = lambda p, a, b: ops.qk_norm_rope(p, a, b, w, w, EPS, 0.0, cache, head_dim, interleaved)
        call(positions, q, k)
        for (i, h), (a, b) in zip(places(), before):
            call(positions[i : i + 1], a, b)
            assert torch.equal(q[i, h], a[0, 0]) and torch.equal(k[i], b[0])


@gigabytes(20)
@dtypes
def test_strides_beyond_32_bits(ops, dtype):
    """Three rows, each more than 2^31 elements from the next."""
    rows, stride = 3, 2**31 + 64
    view = torch.empty(2 * stride + 2048, dtype=dtype, device="cuda").as_strided((rows, 2048), (stride, 1))
    values, w = rand(rows, 2048, dtype=dtype, device="cuda"), rand(2048, dtype=dtype, device="cuda")
    view.copy_(values)
    assert torch.equal(ops.rms_norm(view, w, EPS), ops.rms_norm(values, w, EPS))
    assert torch.equal(ops.silu_and_mul(view), ops.silu_and_mul(values))
    ops.rms_norm(view, w, EPS, out=view)
    assert torch.equal(view, ops.rms_norm(values, w, EPS))
