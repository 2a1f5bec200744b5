"""The operators inside torch: schemas, fake tensors, torch.compile, autograd, kernelize."""

import pytest
import torch
from torch import nn

import expected
from expected import assert_close
from inputs import DTYPES, EPS, angles, name, rand

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=name)


def calls(ops, dtype, device):
    """One call of each registered operator: (name, arguments)."""
    x, w = rand(2, 64, dtype=dtype, device=device), rand(64, dtype=dtype, device=device)
    q, k = rand(3, 4, 16, dtype=dtype, device=device), rand(3, 2, 16, dtype=dtype, device=device)
    hw, p, cache = rand(16, dtype=dtype, device=device), torch.arange(3, device=device), angles(8, 16, device=device)
    return {
        "rms_norm": (x, w, EPS, 0.0),
        "rms_norm_out": (torch.zeros_like(x), x, w, EPS, 1.0),
        "fused_add_rms_norm": (x, x.clone(), w, EPS, 0.0),
        "silu_and_mul": (x,),
        "silu_and_mul_out": (torch.zeros_like(x[:, :32]).contiguous(), x),
        "gelu_tanh_and_mul": (x,),
        "gelu_tanh_and_mul_out": (torch.zeros_like(x[:, :32]).contiguous(), x),
        "rotary_embedding": (p, q, k, cache, 16, False),
        "qk_norm_rope": (p, q, k, hw, hw, EPS, 0.0, cache, 16, True),
    }


NAMES = list(calls(None, torch.float32, "cpu"))


def native(ops, op):
    return getattr(ops.functions.ops, op).default


@pytest.mark.grad
@dtypes
@pytest.mark.parametrize("op", NAMES)
def test_opcheck(ops, device, dtype, op):
    """Schema (what is written, what aliases), fake tensors, autograd, AOT dispatch."""
    torch.library.opcheck(native(ops, op), calls(ops, dtype, device)[op])


@dtypes
@pytest.mark.parametrize("op", NAMES)
def test_fake_results_have_the_real_shapes(ops, device, dtype, op):
    from torch._subclasses.fake_tensor import FakeTensorMode

    args = calls(ops, dtype, device)[op]
    real = native(ops, op)(*args)
    with FakeTensorMode() as mode:
        fake = native(ops, op)(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args))
    if real is None:
        assert fake is None
    else:
        assert (fake.shape, fake.dtype, fake.stride()) == (real.shape, real.dtype, real.stride())


def compiled(fn, *args, backend="aot_eager", dynamic=None):
    """fn's result, eager and compiled without a graph break, each on its own copies."""
    torch._dynamo.reset()
    results = []
    for call in (fn, torch.compile(fn, fullgraph=True, backend=backend, dynamic=dynamic)):
        own = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        results.append((call(*own), own))
    (eager, eager_args), (graph, graph_args) = results
    for a, b in zip(eager_args, graph_args):
        if isinstance(a, torch.Tensor):
            assert torch.equal(a, b), "the compiled call must write the same values in place"
    return eager, graph


def same(eager, graph):
    if isinstance(eager, torch.Tensor):
        eager, graph = (eager,), (graph,)
    for a, b in zip(eager, graph):
        assert torch.equal(a, b)


@dtypes
@pytest.mark.parametrize("op", ["rms_norm", "silu_and_mul", "gelu_tanh_and_mul"])
def test_compile_functions(ops, device, dtype, op):
    args = calls(ops, dtype, device)[op]
    same(*compiled(lambda *a: getattr(ops, op)(*a), *args))
    shape = native(ops, op)(*args).shape

    def into(*a):
        out = a[0].new_zeros(shape)
        return getattr(ops, op)(*a, out=out) + 1

    same(*compiled(into, *args))


@dtypes
@pytest.mark.parametrize("op", ["fused_add_rms_norm", "rotary_embedding", "qk_norm_rope"])
def test_compile_in_place_functions(ops, device, dtype, op):
    args = calls(ops, dtype, device)[op]
    same(*compiled(lambda *a: getattr(ops, op)(*a), *args))


def test_compile_dynamic_shapes(ops, device):
    torch._dynamo.reset()
    fn = torch.compile(lambda x, w: ops.rms_norm(x, w, EPS), fullgraph=True, backend="aot_eager", dynamic=True)
    w = rand(64, device=device)
    for rows in (1, 3, 17):
        x = rand(rows, 64, device=device)
        assert torch.equal(fn(x, w), ops.rms_norm(x, w, EPS))


def test_compile_a_block_with_inductor(ops, device):
    """A decoder layer's seams in one graph, functionalized and scheduled by Inductor."""

    def block(x, residual, w, up, p, q, k, hw, cache):
        x, residual = ops.fused_add_rms_norm(x, residual, w, EPS)
        x = ops.silu_and_mul(x @ up)
        q, k = ops.qk_norm_rope(p, q, k, hw, hw, EPS, 0.0, cache, 16)
        return x * 2, residual, q + 1, k

    args = (
        *(rand(3, 64, device=device) for _ in range(2)),
        rand(64, device=device),
        rand(64, 128, device=device),
        torch.arange(3, device=device),
        rand(3, 4, 16, device=device),
        rand(3, 2, 16, device=device),
        rand(16, device=device),
        angles(8, 16, device=device),
    )
    eager, graph = compiled(block, *args, backend="inductor")
    for a, b in zip(eager, graph):
        torch.testing.assert_close(a, b)


# ------------------------------------------------------------------ autograd


@pytest.mark.grad
def test_functions_fall_back_where_a_gradient_is_needed(ops, device):
    x, w = rand(3, 64, device=device).requires_grad_(), rand(64, device=device).requires_grad_()
    for fn, want in (
        (lambda: ops.rms_norm(x, w, EPS), lambda: ops.reference.rms_norm(x, w, EPS)),
        (lambda: ops.silu_and_mul(x), lambda: ops.reference.silu_and_mul(x)),
        (lambda: ops.gelu_tanh_and_mul(x), lambda: ops.reference.gelu_tanh_and_mul(x)),
    ):
        y = fn()
        assert y.requires_grad and torch.equal(y, want())
        y.sum().backward()
        assert x.grad is not None
        x.grad = None


@pytest.mark.grad
def test_no_gradient_no_fallback(ops, device):
    """With requires_grad inputs the kernel runs under no_grad, and its result says so."""
    x, w = rand(3, 64, device=device).requires_grad_(), rand(64, device=device).requires_grad_()
    with torch.no_grad():
        y = ops.rms_norm(x, w, EPS)
    assert not y.requires_grad
    assert_close(y, expected.rms_norm(x.detach(), w.detach(), EPS))


@pytest.mark.grad
def test_in_place_functions_refuse_gradients(ops, device):
    x, w = rand(3, 64, device=device), rand(64, device=device).requires_grad_()
    for call in (
        lambda: ops.fused_add_rms_norm(x.clone(), x.clone(), w, EPS),
        lambda: ops.rms_norm(x, w, EPS, out=x.clone()),
        lambda: ops.rotary_embedding(
            torch.arange(3, device=device),
            *(rand(3, 1, 16, device=device).requires_grad_() * 1 for _ in range(2)),
            angles(8, 16, device=device),
            16,
        ),
    ):
        with pytest.raises(NotImplementedError, match="no backward pass"):
            call()


@pytest.mark.grad
def test_in_place_writes_are_seen_by_autograd(ops, device):
    """A tensor that autograd saved and an operator overwrote: backward must refuse."""
    x, a = rand(3, 64, device=device), rand(3, 64, device=device).requires_grad_()
    product = (a * x).sum()
    with torch.no_grad():
        ops.rms_norm(x, rand(64, device=device), EPS, out=x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


@pytest.mark.grad
def test_compile_refuses_gradients_instead_of_losing_them(ops, device):
    torch._dynamo.reset()
    fn = torch.compile(lambda x: ops.silu_and_mul(x), fullgraph=True, backend="aot_eager")
    x = rand(3, 64, device=device).requires_grad_()
    try:
        y = fn(x)
    except Exception as error:
        assert "no backward pass" in str(error)
    else:
        assert y.requires_grad


# ----------------------------------------------------------------- kernelize


class ModelRMSNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(hidden))
        self.variance_epsilon = EPS

    def forward(self, hidden_states):
        raise AssertionError("the original forward ran")


class ModelGemmaRMSNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(hidden))
        self.eps = EPS

    def forward(self, x):
        raise AssertionError("the original forward ran")


class ModelGate(nn.Module):
    def forward(self, x):
        raise AssertionError("the original forward ran")


class ModelRotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cos_sin_cache", angles(8, 16))
        self.rotary_dim = 16

    def forward(self, positions, q, k):
        raise AssertionError("the original forward ran")


class ModelPrologue(ModelRotary):
    def __init__(self, weight_offset=0.0):
        super().__init__()
        self.q_weight, self.k_weight = nn.Parameter(torch.rand(16)), nn.Parameter(torch.rand(16))
        self.eps, self.weight_offset = EPS, weight_offset


class ModelRotaryPosEmb(nn.Module):
    def forward(self, q, k, cos, sin, unsqueeze_dim=1):
        raise AssertionError("the original forward ran")


MODELS = {
    "RMSNorm": (lambda: ModelRMSNorm(64), ModelRMSNorm),
    "GemmaRMSNorm": (lambda: ModelGemmaRMSNorm(64), ModelGemmaRMSNorm),
    "SiluAndMul": (ModelGate, ModelGate),
    "GeluTanhAndMul": (ModelGate, ModelGate),
    "GELUTanhAndMul": (ModelGate, ModelGate),
    "RotaryEmbedding": (ModelRotary, ModelRotary),
    "QKNormRotary": (ModelPrologue, ModelPrologue),
    "RotaryPosEmb": (ModelRotaryPosEmb, ModelRotaryPosEmb),
}


def swapped(layer, variant_dir, device, mode, use_fallback=False):
    """A module whose forward kernelize has replaced by the kernel's layer."""
    import kernels

    make, base = MODELS[layer]
    module = make().to(device)
    kernels.replace_kernel_forward_from_hub(type(module), layer)
    repository = kernels.LocalLayerRepository(repo_path=variant_dir, layer_name=layer)
    with kernels.use_kernel_mapping({layer: {device: repository}}, inherit_mapping=False):
        return kernels.kernelize(module, mode=mode, device=device, use_fallback=use_fallback)


def layer_inputs(layer, device):
    """Inputs, and the float64 results for the module."""
    if layer.endswith("RMSNorm"):
        x = rand(2, 3, 64, device=device)
        offset = 1.0 if layer.startswith("Gemma") else 0.0
        return (x,), lambda m: (expected.rms_norm(x, m.weight.detach(), EPS, offset),)
    if layer.lower().endswith("andmul"):
        x = rand(2, 64, device=device)
        gate = expected.silu_and_mul if layer.startswith("Silu") else expected.gelu_tanh_and_mul
        return (x,), lambda m: (gate(x),)
    if layer == "RotaryPosEmb":
        q, k = rand(2, 4, 3, 16, device=device), rand(2, 2, 3, 16, device=device)
        positions = torch.arange(6, device=device).view(2, 3)
        rows = angles(8, 16, device=device)[positions]
        cos, sin = (torch.cat([h, h], -1) for h in rows.chunk(2, -1))
        cache = angles(8, 16, device=device)
        turn = lambda t: expected.rotary_embedding(positions, t.transpose(1, 2), cache, 16, False).transpose(1, 2)
        return (q, k, cos, sin), lambda m: (turn(q), turn(k))
    q, k = rand(3, 4, 16, device=device), rand(3, 2, 16, device=device)
    positions, cache = torch.tensor([0, 7, 9], device=device), angles(8, 16, device=device)
    if layer == "RotaryEmbedding":
        return (positions, q, k), lambda m: tuple(
            expected.rotary_embedding(positions, t, cache, 16, False) for t in (q, k)
        )
    return (positions, q, k), lambda m: tuple(
        expected.qk_norm_rope(positions, t, w.detach(), EPS, m.weight_offset, cache, 16, False)
        for t, w in ((q, m.q_weight), (k, m.k_weight))
    )


@pytest.mark.parametrize("layer", list(MODELS))
def test_kernelize(ops, variant_dir, device, layer):
    import kernels

    module = swapped(layer, variant_dir, device, kernels.Mode.INFERENCE)
    inputs, want = layer_inputs(layer, device)
    before = [i.clone() for i in inputs]
    got = module(*inputs)
    for g, w in zip((got,) if isinstance(got, torch.Tensor) else got, want(module)):
        assert_close(g, w)
    for i, b in zip(inputs, before):
        assert torch.equal(i, b), "a layer must not change its inputs"


@pytest.mark.parametrize("layer", list(MODELS))
def test_kernelize_for_compile(ops, variant_dir, device, layer):
    import kernels

    torch._dynamo.reset()
    module = swapped(layer, variant_dir, device, kernels.Mode.INFERENCE | kernels.Mode.TORCH_COMPILE)
    inputs, want = layer_inputs(layer, device)
    got = torch.compile(module, fullgraph=True, backend="aot_eager")(*inputs)
    for g, w in zip((got,) if isinstance(got, torch.Tensor) else got, want(module)):
        assert_close(g, w)


@pytest.mark.parametrize("layer", list(MODELS))
def test_kernelize_for_training_keeps_the_original(ops, variant_dir, device, layer):
    """The layers have no backward pass and say so."""
    import kernels

    with pytest.raises(ValueError, match="does not support|mode"):
        swapped(layer, variant_dir, device, kernels.Mode.TRAINING)
    module = swapped(layer, variant_dir, device, kernels.Mode.TRAINING, use_fallback=True)
    with pytest.raises(AssertionError, match="the original forward ran"):
        module(*layer_inputs(layer, device)[0])


@pytest.mark.grad
def test_kernelized_layer_outside_no_grad(ops, variant_dir, device):
    """A Parameter requires a gradient; a caller who forgot no_grad still gets one."""
    import kernels

    module = swapped("RMSNorm", variant_dir, device, kernels.Mode.INFERENCE)
    y = module(rand(2, 64, device=device))
    y.sum().backward()
    assert module.weight.grad is not None


def test_layers_follow_the_rules(ops):
    for layer in ops.layers.__all__:
        cls = getattr(ops.layers, layer)
        assert issubclass(cls, nn.Module) and cls.__init__ is nn.Module.__init__
        extra = set(dir(cls)) - set(dir(nn.Module))
        assert extra <= {"has_backward", "can_torch_compile"}, extra
        assert cls.has_backward is False and cls.can_torch_compile is True
