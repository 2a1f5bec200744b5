"""The six operators against their formulas: values, shapes, strides, bad input.

The same cases run for every device (--device) and, on a CPU, for the unit that
THOX_EDGE_OPS_CPU_ISA forces.
"""

import pytest
import torch

import expected
from expected import assert_close
from inputs import DTYPES, EPS, Guarded, angles, name, rand

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=name)
hidden_sizes = pytest.mark.parametrize("hidden", [37, 64, 100, 1024, 1152, 2560])
row_counts = pytest.mark.parametrize("rows", [1, 2, 7, 64])
offsets = pytest.mark.parametrize("offset", [0.0, 1.0], ids=["llama", "gemma"])
gates = pytest.mark.parametrize("gate", ["silu_and_mul", "gelu_tanh_and_mul"])
layouts = pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "pairs"])
HEADS = [(64, 64), (128, 128), (256, 256), (128, 64), (80, 20), (96, 72), (10, 6)]
head_shapes = pytest.mark.parametrize("head_dim, rotary_dim", HEADS)
head_counts = pytest.mark.parametrize("q_heads, k_heads", [(1, 1), (16, 8)])


def norm_weight(hidden, dtype, device, offset):
    return (rand(hidden, dtype=dtype, device=device, scale=0.3) + (1 - offset)).to(dtype)


# ---------------------------------------------------------------- rms_norm


@dtypes
@hidden_sizes
@row_counts
@offsets
def test_rms_norm(ops, device, dtype, hidden, rows, offset):
    x, w = rand(rows, hidden, dtype=dtype, device=device), norm_weight(hidden, dtype, device, offset)
    got = ops.rms_norm(x, w, EPS, offset)
    assert got.dtype == dtype and got.shape == x.shape and got.is_contiguous()
    assert_close(got, expected.rms_norm(x, w, EPS, offset))


@dtypes
@pytest.mark.parametrize("hidden", [1, 2, 3, 15, 16, 17, 31, 33, 47, 48, 63, 65, 80, 127, 257])
def test_rms_norm_every_kind_of_tail(ops, device, dtype, hidden):
    x, w = rand(3, hidden, dtype=dtype, device=device), norm_weight(hidden, dtype, device, 0)
    out = Guarded(torch.full_like(x, float("nan")))
    ops.rms_norm(x, w, EPS, out=out.tensor)
    out.check()
    assert_close(out.tensor, expected.rms_norm(x, w, EPS))


@dtypes
@pytest.mark.parametrize("shape", [(5,), (2, 3, 64), (2, 1, 3, 37), (1, 1, 1, 1)], ids=str)
def test_rms_norm_any_rank(ops, device, dtype, shape):
    x, w = rand(*shape, dtype=dtype, device=device), norm_weight(shape[-1], dtype, device, 0)
    got = ops.rms_norm(x, w, EPS)
    assert got.shape == x.shape
    assert_close(got, expected.rms_norm(x, w, EPS))


@dtypes
def test_rms_norm_scale_does_not_matter(ops, device, dtype):
    x, w = rand(4, 1024, dtype=torch.float32, device=device), norm_weight(1024, dtype, device, 0)
    for scale in (1e-3, 1e3):
        scaled = (x * scale).to(dtype)
        assert_close(ops.rms_norm(scaled, w, 1e-12), expected.rms_norm(scaled, w, 1e-12))


@dtypes
def test_rms_norm_eps_keeps_zero_rows_finite(ops, device, dtype):
    x, w = torch.zeros(2, 64, dtype=dtype, device=device), norm_weight(64, dtype, device, 0)
    assert (ops.rms_norm(x, w, EPS) == 0).all()


def strided_rows(values, kind):
    """The same values in a view with other strides."""
    rows, cols = values.shape
    if kind == "wide":  # a part of wider rows
        base = values.new_full((rows, cols + 13), float("nan"))
        base[:, 5 : 5 + cols] = values
        return base[:, 5 : 5 + cols]
    if kind == "transposed":  # the last dimension has gaps
        return values.t().contiguous().t()
    if kind == "every_other":
        base = values.new_full((rows, 2, cols), float("nan"))
        base[:, 1] = values
        return base[:, 1]
    return Guarded(values).tensor


strides = pytest.mark.parametrize("kind", ["wide", "transposed", "every_other", "unaligned"])


@dtypes
@strides
@pytest.mark.parametrize("hidden", [37, 1024])
def test_rms_norm_strides(ops, device, dtype, kind, hidden):
    x, w = rand(6, hidden, dtype=dtype, device=device), norm_weight(hidden, dtype, device, 0)
    view = strided_rows(x, kind)
    assert torch.equal(ops.rms_norm(view, w, EPS), ops.rms_norm(x, w, EPS))
    out = strided_rows(torch.zeros_like(x), kind)
    assert ops.rms_norm(view, w, EPS, out=out) is out
    assert torch.equal(out, ops.rms_norm(x, w, EPS))


@dtypes
def test_rms_norm_in_place(ops, device, dtype):
    x, w = rand(5, 100, dtype=dtype, device=device), norm_weight(100, dtype, device, 0)
    want, pointer = ops.rms_norm(x, w, EPS), x.data_ptr()
    assert ops.rms_norm(x, w, EPS, out=x) is x
    assert x.data_ptr() == pointer and torch.equal(x, want)


@dtypes
def test_rms_norm_weight_with_a_stride(ops, device, dtype):
    x, w = rand(3, 64, dtype=dtype, device=device), rand(128, dtype=dtype, device=device)
    assert torch.equal(ops.rms_norm(x, w[::2], EPS), ops.rms_norm(x, w[::2].clone(), EPS))


@dtypes
def test_rms_norm_rows_that_share_memory(ops, device, dtype):
    x, w = rand(1, 64, dtype=dtype, device=device), norm_weight(64, dtype, device, 0)
    assert torch.equal(ops.rms_norm(x.expand(5, 64), w, EPS), ops.rms_norm(x, w, EPS).expand(5, 64))


# ------------------------------------------------------- fused_add_rms_norm


@dtypes
@hidden_sizes
@pytest.mark.parametrize("rows", [1, 7, 64])
@offsets
def test_fused_add_rms_norm(ops, device, dtype, hidden, rows, offset):
    x, residual = rand(rows, hidden, dtype=dtype, device=device), rand(rows, hidden, dtype=dtype, device=device)
    w = norm_weight(hidden, dtype, device, offset)
    want, total = expected.fused_add_rms_norm(x, residual, w, EPS, offset)
    gx, gr = Guarded(x), Guarded(residual)
    got = ops.fused_add_rms_norm(gx.tensor, gr.tensor, w, EPS, offset)
    assert got[0] is gx.tensor and got[1] is gr.tensor
    gx.check(), gr.check()
    assert torch.equal(gr.tensor, total), "the residual must have the bits of eager addition"
    assert_close(gx.tensor, want)


@dtypes
def test_fused_add_is_add_then_norm(ops, device, dtype):
    x, residual = rand(9, 1000, dtype=dtype, device=device), rand(9, 1000, dtype=dtype, device=device)
    w = norm_weight(1000, dtype, device, 0)
    total = x + residual
    ops.fused_add_rms_norm(x, residual, w, EPS)
    assert torch.equal(residual, total) and torch.equal(x, ops.rms_norm(total, w, EPS))


@dtypes
@strides
def test_fused_add_rms_norm_strides(ops, device, dtype, kind):
    x, residual = rand(6, 100, dtype=dtype, device=device), rand(6, 100, dtype=dtype, device=device)
    w = norm_weight(100, dtype, device, 0)
    xv, rv = strided_rows(x, kind), strided_rows(residual, "wide")
    pointers = xv.data_ptr(), rv.data_ptr()
    ops.fused_add_rms_norm(xv, rv, w, EPS)
    ops.fused_add_rms_norm(x, residual, w, EPS)
    assert (xv.data_ptr(), rv.data_ptr()) == pointers
    assert torch.equal(xv, x) and torch.equal(rv, residual)


# ------------------------------------------------------- gated activations


@gates
@dtypes
@pytest.mark.parametrize("width", [37, 64, 1000, 3072])
@pytest.mark.parametrize("rows", [1, 5, 64])
def test_gate(ops, device, gate, dtype, width, rows):
    x = rand(rows, 2 * width, dtype=dtype, device=device, scale=2.0)
    got = getattr(ops, gate)(x)
    assert got.shape == (rows, width) and got.dtype == dtype and got.is_contiguous()
    assert_close(got, getattr(expected, gate)(x))


@gates
@dtypes
@pytest.mark.parametrize("width", [1, 2, 3, 8, 15, 16, 17, 31, 33, 1023, 1024, 1025, 2049])
def test_gate_every_kind_of_tail(ops, device, gate, dtype, width):
    x = rand(2, 2 * width, dtype=dtype, device=device)
    out = Guarded(torch.full((2, width), float("nan"), dtype=dtype, device=device))
    assert getattr(ops, gate)(x, out=out.tensor) is out.tensor
    out.check()
    assert_close(out.tensor, getattr(expected, gate)(x))


@gates
@dtypes
@strides
def test_gate_strides(ops, device, gate, dtype, kind):
    fn, x = getattr(ops, gate), rand(6, 74, dtype=dtype, device=device)
    assert torch.equal(fn(strided_rows(x, kind)), fn(x))
    out = strided_rows(torch.zeros(6, 37, dtype=dtype, device=device), kind)
    fn(x, out=out)
    assert torch.equal(out, fn(x))


@gates
@dtypes
def test_gate_any_rank(ops, device, gate, dtype):
    fn, x = getattr(ops, gate), rand(2, 3, 40, dtype=dtype, device=device)
    assert torch.equal(fn(x), fn(x.view(6, 40)).view(2, 3, 20))
    assert fn(x[0, 0]).shape == (20,)


@gates
def test_gate_over_its_whole_range(ops, device, gate):
    """From the linear part over the bend to where the exponential overflows."""
    g = torch.cat([torch.linspace(-120, 120, 20001), torch.logspace(-40, 2, 999), -torch.logspace(-40, 2, 999)])
    x = torch.cat([g, torch.ones_like(g)]).to(device)
    got, want = getattr(ops, gate)(x).double(), getattr(expected, gate)(x)
    error = (got - want).abs()
    # Relative to the result even where it is tiny, until the exponential flushes it. GELU
    # exponentiates a rounded polynomial, whose error grows with its size of up to 88.
    # The GPU's exponential of a number of that size is as far off.
    bound = {"silu_and_mul": 4e-7 if device == "cpu" else 5e-6, "gelu_tanh_and_mul": 2e-5}[gate]
    assert (error <= bound * want.abs() + 1e-35).all(), (error / want.abs().clamp(min=1e-30)).max()
    near = g.to(device).abs() < 4
    assert (error <= 1.5e-6 * want.abs() + 1e-35)[near].all()


@gates
@dtypes
def test_a_gate_does_not_depend_on_its_place(ops, device, gate, dtype):
    """Nor on its neighbours, even where those are out of the exponential's range: a unit
    may take another way for a block that has such."""
    fn, x = getattr(ops, gate), rand(1, 2, 700, dtype=dtype, device=device, scale=3.0)
    whole = fn(x.view(1, 1400))
    alone = fn(x.view(2, 700).t().contiguous())
    assert torch.equal(whole.view(-1), alone.view(-1))
    for at, odd in enumerate((300.0, -300.0, float("inf"), float("nan"), 88.1, -88.1)):
        y = x.clone()
        y[0, 0, at * 67] = odd
        same = torch.arange(700, device=device) != at * 67
        assert torch.equal(fn(y.view(1, 1400))[0, same], whole[0, same]), odd


def test_expected_gelu_is_gelu(device):
    x = torch.randn(2, 128, dtype=torch.float64, device=device)
    want = torch.nn.functional.gelu(x[:, :64], approximate="tanh") * x[:, 64:]
    torch.testing.assert_close(expected.gelu_tanh_and_mul(x), want)


# ------------------------------------------------------------------- rotary


def heads(tokens, q_heads, k_heads, head_dim, dtype, device):
    return (
        rand(tokens, q_heads, head_dim, dtype=dtype, device=device),
        rand(tokens, k_heads, head_dim, dtype=dtype, device=device),
    )


@dtypes
@head_shapes
@layouts
@head_counts
def test_rotary(ops, device, dtype, head_dim, rotary_dim, interleaved, q_heads, k_heads):
    q, k = heads(5, q_heads, k_heads, head_dim, dtype, device)
    positions, cache = torch.tensor([3, 0, 31, 7, 7], device=device), angles(32, rotary_dim, device=device)
    want = [expected.rotary_embedding(positions, t, cache, rotary_dim, interleaved) for t in (q, k)]
    gq, gk = Guarded(q), Guarded(k)
    got = ops.rotary_embedding(positions, gq.tensor, gk.tensor, cache, rotary_dim, interleaved)
    assert got[0] is gq.tensor and got[1] is gk.tensor
    gq.check(), gk.check()
    for t, w, before in ((gq.tensor, want[0], q), (gk.tensor, want[1], k)):
        assert_close(t, w)
        assert torch.equal(t[..., rotary_dim:], before[..., rotary_dim:])


@dtypes
@layouts
@pytest.mark.parametrize("index", [torch.int32, torch.int64], ids=name)
def test_rotary_outside_the_cache(ops, device, dtype, interleaved, index):
    q, k = heads(6, 4, 2, 64, dtype, device)
    before = q.clone(), k.clone()
    positions = torch.tensor([-1, 2, 8, 2**31 - 1, -(2**31), 7], dtype=index, device=device)
    ops.rotary_embedding(positions, q, k, angles(8, 64, device=device), 64, interleaved)
    for t, b in ((q, before[0]), (k, before[1])):
        for token in (0, 2, 3, 4):
            assert torch.equal(t[token], b[token]), "a token outside the cache must be left as it is"
        for token in (1, 5):
            assert not torch.equal(t[token], b[token])


def test_rotary_position_beyond_32_bits(ops, device):
    q, k = heads(2, 1, 1, 16, torch.float32, device)
    before = q.clone()
    ops.rotary_embedding(torch.tensor([2**32, 2**63 - 1], device=device), q, k, angles(8, 16, device=device), 16)
    assert torch.equal(q, before)


@dtypes
@layouts
def test_rotary_cache_of_the_dtype(ops, device, dtype, interleaved):
    q, k = heads(4, 4, 2, 80, dtype, device)
    positions = torch.arange(4, device=device)
    cache = angles(8, 40, dtype=dtype, device=device)
    want = expected.rotary_embedding(positions, q, cache, 40, interleaved)
    ops.rotary_embedding(positions, q, k, cache, 40, interleaved)
    assert_close(q, want)


@dtypes
@layouts
def test_rotary_views_of_a_packed_projection(ops, device, dtype, interleaved):
    """q and k with strides of their own, inside one tensor that also holds v."""
    tokens, q_heads, k_heads, dim = 5, 4, 2, 32
    packed = rand(tokens, (q_heads + 2 * k_heads) * dim, dtype=dtype, device=device)
    q = packed[:, : q_heads * dim].view(tokens, q_heads, dim)
    k = packed[:, q_heads * dim : (q_heads + k_heads) * dim].view(tokens, k_heads, dim)
    v = packed[:, (q_heads + k_heads) * dim :].clone()
    q2, k2 = q.clone(), k.clone()
    positions, cache = torch.arange(tokens, device=device), angles(8, dim, device=device)
    pointers = q.data_ptr(), k.data_ptr()
    ops.rotary_embedding(positions, q, k, cache, dim, interleaved)
    ops.rotary_embedding(positions, q2, k2, cache, dim, interleaved)
    assert (q.data_ptr(), k.data_ptr()) == pointers
    assert torch.equal(q, q2) and torch.equal(k, k2)
    assert torch.equal(packed[:, (q_heads + k_heads) * dim :], v)


@dtypes
@pytest.mark.parametrize("kind", ["heads_first", "gaps", "batch"])
def test_rotary_strides(ops, device, dtype, kind):
    q, k = heads(6, 4, 2, 40, dtype, device)
    positions, cache = torch.arange(6, device=device), angles(8, 40, device=device)
    q2, k2 = q.clone(), k.clone()
    if kind == "heads_first":
        qv, kv = q.transpose(0, 1).contiguous().transpose(0, 1), k.transpose(0, 1).contiguous().transpose(0, 1)
    elif kind == "gaps":
        qv, kv = q.transpose(1, 2).contiguous().transpose(1, 2), k.transpose(1, 2).contiguous().transpose(1, 2)
    else:  # [2, 3, heads, dim] as transformers has it: [2, heads, 3, dim] in memory
        positions = positions.view(2, 3)
        qv = q.view(2, 3, 4, 40).transpose(1, 2).contiguous().transpose(1, 2)
        kv = k.view(2, 3, 2, 40).transpose(1, 2).contiguous().transpose(1, 2)
    ops.rotary_embedding(positions, qv, kv, cache, 40)
    ops.rotary_embedding(positions.reshape(-1), q2, k2, cache, 40)
    assert torch.equal(qv.reshape(q.shape), q2) and torch.equal(kv.reshape(k.shape), k2)


def test_rotary_strided_positions_and_cache(ops, device):
    q, k = heads(4, 2, 1, 32, torch.float32, device)
    q2, k2 = q.clone(), k.clone()
    positions, cache = torch.arange(8, device=device), angles(16, 64, device=device)
    ops.rotary_embedding(positions[::2], q, k, cache[:, :32], 32)
    ops.rotary_embedding(positions[::2].clone(), q2, k2, cache[:, :32].clone(), 32)
    assert torch.equal(q, q2) and torch.equal(k, k2)
    ops.rotary_embedding(positions[::2], q, k, cache[:, ::2], 32)
    ops.rotary_embedding(positions[::2], q2, k2, cache[:, ::2].clone(), 32)
    assert torch.equal(q, q2) and torch.equal(k, k2)


# ----------------------------------------------------------------- prologue


@dtypes
@head_shapes
@layouts
@offsets
def test_prologue(ops, device, dtype, head_dim, rotary_dim, interleaved, offset):
    q, k = heads(5, 4, 2, head_dim, dtype, device)
    qw, kw = norm_weight(head_dim, dtype, device, offset), norm_weight(head_dim, dtype, device, offset)
    positions, cache = torch.tensor([3, 40, 31, -1, 7], device=device), angles(32, rotary_dim, device=device)
    args = EPS, offset, cache, rotary_dim, interleaved
    want = [expected.qk_norm_rope(positions, t, w, *args) for t, w in ((q, qw), (k, kw))]
    # The same as its two halves.
    q2, k2 = ops.rms_norm(q, qw, EPS, offset), ops.rms_norm(k, kw, EPS, offset)
    ops.rotary_embedding(positions, q2, k2, cache, rotary_dim, interleaved)
    gq, gk = Guarded(q), Guarded(k)
    got = ops.qk_norm_rope(positions, gq.tensor, gk.tensor, qw, kw, *args)
    assert got[0] is gq.tensor and got[1] is gk.tensor
    gq.check(), gk.check()
    for t, half, w in ((gq.tensor, q2, want[0]), (gk.tensor, k2, want[1])):
        assert_close(t, w)
        assert torch.equal(t, half)


@dtypes
@layouts
def test_prologue_views_of_a_packed_projection(ops, device, dtype, interleaved):
    tokens, q_heads, k_heads, dim = 3, 4, 2, 64
    packed = rand(tokens, (q_heads + 2 * k_heads) * dim, dtype=dtype, device=device)
    q = packed[:, : q_heads * dim].view(tokens, q_heads, dim)
    k = packed[:, q_heads * dim : (q_heads + k_heads) * dim].view(tokens, k_heads, dim)
    q2, k2 = q.clone(), k.clone()
    qw, kw = norm_weight(dim, dtype, device, 0), norm_weight(dim, dtype, device, 0)
    args = qw, kw, EPS, 0.0, angles(8, dim, dtype=dtype, device=device), dim, interleaved
    positions = torch.arange(tokens, device=device)
    ops.qk_norm_rope(positions, q, k, *args)
    ops.qk_norm_rope(positions, q2, k2, *args)
    assert torch.equal(q, q2) and torch.equal(k, k2)


# ------------------------------------------------------- empty, independence


@dtypes
@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64), (0,), (3, 0)], ids=str)
def test_empty_rows(ops, device, dtype, shape):
    x, w = torch.empty(shape, dtype=dtype, device=device), torch.empty(shape[-1], dtype=dtype, device=device)
    assert ops.rms_norm(x, w, EPS).shape == x.shape
    assert ops.fused_add_rms_norm(x, torch.empty_like(x), w, EPS)[0].shape == x.shape
    for gate in (ops.silu_and_mul, ops.gelu_tanh_and_mul):
        assert gate(x).shape == (*shape[:-1], shape[-1] // 2)


@dtypes
@pytest.mark.parametrize("tokens, q_heads, k_heads, rows", [(0, 4, 2, 8), (3, 0, 2, 8), (3, 4, 0, 8), (3, 4, 2, 0)])
def test_empty_heads(ops, device, dtype, tokens, q_heads, k_heads, rows):
    q, k = heads(tokens, q_heads, k_heads, 16, dtype, device)
    w = torch.ones(16, dtype=dtype, device=device)
    positions, cache = torch.zeros(tokens, dtype=torch.long, device=device), angles(rows, 16, device=device)
    before = q.clone(), k.clone()
    ops.rotary_embedding(positions, q, k, cache, 16)
    if rows == 0:
        assert torch.equal(q, before[0]) and torch.equal(k, before[1])
    ops.qk_norm_rope(positions, q, k, w, w, EPS, 0.0, cache, 16)


@dtypes
def test_a_row_does_not_depend_on_the_batch(ops, device, dtype):
    """Nor on the threads: 300 rows are enough for all of them."""
    x, w = rand(300, 1000, dtype=dtype, device=device), norm_weight(1000, dtype, device, 0)
    q, k = heads(300, 16, 8, 128, dtype, device)
    hw = norm_weight(128, dtype, device, 0)
    positions, cache = torch.arange(300, device=device), angles(300, 128, device=device)
    norm, silu, gelu = ops.rms_norm(x, w, EPS), ops.silu_and_mul(x), ops.gelu_tanh_and_mul(x)
    q2, k2 = q.clone(), k.clone()
    ops.qk_norm_rope(positions, q2, k2, hw, hw, EPS, 0.0, cache, 128)
    for row in (0, 149, 150, 299):
        one = slice(row, row + 1)
        assert torch.equal(norm[one], ops.rms_norm(x[one], w, EPS))
        assert torch.equal(silu[one], ops.silu_and_mul(x[one]))
        assert torch.equal(gelu[one], ops.gelu_tanh_and_mul(x[one]))
        q1, k1 = q[one].clone(), k[one].clone()
        ops.qk_norm_rope(positions[one], q1, k1, hw, hw, EPS, 0.0, cache, 128)
        assert torch.equal(q2[one], q1) and torch.equal(k2[one], k1)


# ----------------------------------------------------------- NaN, inf, bits


def test_silu_of_every_16_bit_value(ops, device):
    """Loads and stores of every fp16 and bf16 number, special ones included."""
    for dtype in (torch.float16, torch.bfloat16):
        g = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype).to(device)
        got = ops.silu_and_mul(torch.cat([g, torch.ones_like(g)]))
        gate = g.double()
        want = torch.where(gate == -torch.inf, torch.nan, gate / (1 + torch.exp(-gate)))
        # -inf * sigmoid(-inf) is NaN here as in eager.
        assert torch.equal(got.isnan(), want.isnan())
        ok = ~want.isnan()
        assert_close(torch.where(ok, got, 0), torch.where(ok, want, 0))


@gates
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=name)
def test_gate_keeps_every_nan(ops, device, gate, dtype):
    """Of gate and up projection, with any payload."""
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype).to(device)
    fn, ones = getattr(ops, gate), torch.ones_like(every)
    assert torch.equal(fn(torch.cat([ones, every])).isnan(), every.isnan())
    assert fn(torch.cat([every, ones])).isnan()[every.isnan()].all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=name)
def test_stores_round_to_nearest_even(ops, device, dtype):
    """x + 0 in float32 cannot show it; a sum of two 16-bit numbers can: torch's own
    addition rounds the same exact sum. Subnormal numbers, ties, overflow, inf, NaN."""
    bits = torch.randint(-(2**15), 2**15, (2, 64, 4096), dtype=torch.int32).to(torch.int16)
    near = (bits[0].int() + torch.randint(-40, 40, bits[0].shape)).to(torch.int16)
    pairs = [(bits[0], bits[1]), (bits[0], near), (bits[0] & 0x83FF, bits[1] & 0x87FF)]
    w = torch.ones(4096, dtype=dtype, device=device)
    for a, b in pairs:
        x, residual = a.view(dtype).to(device), b.view(dtype).to(device)
        want = x + residual
        ops.fused_add_rms_norm(x.clone(), residual, w, EPS)
        assert torch.equal(residual.isnan(), want.isnan())
        ok = ~want.isnan()
        same = residual.view(torch.int16)[ok] == want.view(torch.int16)[ok]
        assert same.all(), f"{(~same).sum()} sums are rounded differently"


@dtypes
def test_nan_and_inf_stay_in_their_row(ops, device, dtype):
    x, w = rand(3, 100, dtype=dtype, device=device), norm_weight(100, dtype, device, 0)
    clean = ops.rms_norm(x, w, EPS)
    x[1, 37] = float("nan")
    got = ops.rms_norm(x, w, EPS)
    assert got[1].isnan().all() and torch.equal(got[0], clean[0]) and torch.equal(got[2], clean[2])
    y = rand(2, 40, dtype=dtype, device=device)
    y[0, 3], y[1, 25], y[1, 4] = float("nan"), float("nan"), float("inf")
    for gate in (ops.silu_and_mul, ops.gelu_tanh_and_mul):
        bad = gate(y).isnan()
        assert bad[0, 3] and bad[1, 5] and bad.sum() == 2
        assert gate(y)[1, 4].isinf()


# ------------------------------------------------------------- invalid input


def refuses(message, fn, *args, **kwargs):
    with pytest.raises(RuntimeError, match=message):
        fn(*args, **kwargs)


def test_norm_refuses(ops, device):
    x, w = rand(2, 64, device=device), rand(64, device=device)
    refuses(r"weight must have shape \[64\], got \[32\]", ops.rms_norm, x, w[:32])
    refuses(r"weight must have shape \[64\], got \[1, 64\]", ops.rms_norm, x, w[None])
    refuses("weight must have the dtype Float", ops.rms_norm, x, w.half())
    refuses("at least one dimension", ops.rms_norm, x[0, 0], w)
    refuses("expected float32, float16 or bfloat16, got Double", ops.rms_norm, x.double(), w.double())
    refuses("expected float32, float16 or bfloat16, got Int", ops.rms_norm, x.int(), w.int())
    refuses(r"out must have shape \[2, 64\], got \[1, 64\]", ops.rms_norm, x, w, out=x[:1].clone())
    refuses("out must have the dtype Float", ops.rms_norm, x, w, out=x.half())
    refuses("several of its elements share memory", ops.rms_norm, x, w, out=x[:1].expand(2, 64))
    base = rand(3, 64, device=device)
    refuses("overlap|memory", ops.rms_norm, base[:2], w, out=base[1:])


def test_fused_add_refuses(ops, device):
    x, w = rand(2, 64, device=device), rand(64, device=device)
    refuses(r"residual must have the shape \[2, 64\] of x, got \[64\]", ops.fused_add_rms_norm, x, x[0].clone(), w)
    refuses("residual must have the dtype", ops.fused_add_rms_norm, x, x.bfloat16(), w)
    refuses("overlap|memory", ops.fused_add_rms_norm, x, x, w)
    refuses("share memory", ops.fused_add_rms_norm, x[:1].expand(2, 64), x.clone(), w)
    refuses("share memory", ops.fused_add_rms_norm, x.clone(), x[:1].expand(2, 64), w)


@gates
def test_gate_refuses(ops, device, gate):
    fn, x = getattr(ops, gate), rand(2, 64, device=device)
    refuses(r"must be even, got \[2, 63\]", fn, x[:, :63])
    refuses("at least one dimension", fn, x[0, 0])
    refuses("expected float32, float16 or bfloat16, got Double", fn, x.double())
    refuses(r"out must have shape \[2, 32\], got \[2, 64\]", fn, x, out=x.clone())
    refuses("overlap|memory", fn, x, out=x.view(-1)[:64].view(2, 32))


def test_rotary_refuses(ops, device):
    q, k = heads(3, 4, 2, 16, torch.float32, device)
    p, cache, w = torch.arange(3, device=device), angles(8, 16, device=device), torch.ones(16, device=device)

    def both(message, positions=p, q=q, k=k, cache=cache, dim=16):
        refuses(message, ops.rotary_embedding, positions, q, k, cache, dim)
        refuses(message, ops.qk_norm_rope, positions, q, k, w, w, EPS, 0.0, cache, dim)

    both("positions must be int64 or int32, got Float", positions=p.float())
    both(r"must be the shape \[2\] of positions", positions=p[:2])
    both("rotary_dim must be even, positive and at most the head size 16, got 15", dim=15)
    both("rotary_dim must be .* got 0", dim=0)
    both("rotary_dim must be .* got -2", dim=-2)
    both("rotary_dim must be .* got 18", dim=18)
    both(r"cos_sin_cache must have shape \[positions, 8\], got \[8, 16\]", dim=8)
    both("cos_sin_cache must be float32 or the dtype Float", cache=cache.double())
    both("cos_sin_cache must have shape", cache=cache[0])
    both("k must have the dtype Float", k=k.half())
    both("k must have the head size 16 of q", k=k[..., :8])
    both("leading dimensions of k", k=k[:2])
    both("overlap|memory", k=q)
    both("share memory", k=k[:1].expand(3, 2, 16))
    refuses(r"q_weight must have shape \[16\], got \[8\]", ops.qk_norm_rope, p, q, k, w[:8], w, EPS, 0.0, cache, 16)
    refuses("k_weight must have the dtype", ops.qk_norm_rope, p, q, k, w, w.half(), EPS, 0.0, cache, 16)


def test_a_refused_call_writes_nothing(ops, device):
    x, residual = rand(2, 64, device=device), rand(2, 64, device=device)
    before = x.clone(), residual.clone()
    refuses("weight", ops.fused_add_rms_norm, x, residual, rand(63, device=device))
    assert torch.equal(x, before[0]) and torch.equal(residual, before[1])


def test_wrong_kinds_of_arguments(ops, device):
    x, w = rand(2, 64, device=device), rand(64, device=device)
    for bad in (None, 3, "x", [1.0]):
        with pytest.raises((RuntimeError, TypeError)):
            ops.rms_norm(bad, w)
        with pytest.raises((RuntimeError, TypeError)):
            ops.rms_norm(x, bad)
    with pytest.raises((RuntimeError, NotImplementedError)):
        ops.rms_norm(x.to_sparse(), w)
