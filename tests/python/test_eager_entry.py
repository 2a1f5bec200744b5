"""The short way from Python to the operators (torch-ext/eager_entry.h): taken by plain
calls only, and never to be told from the registered operator by its results."""

import platform
import sys
import types

import numpy
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from inputs import EPS, rand
from test_torch import NAMES, calls, native


@pytest.fixture(autouse=True)
def torch_form(ops):
    """A build for the stable ABI sees no tensor's inside, and has no short way."""
    if ops.functions.stable.IS_STABLE:
        pytest.skip("a build for the stable ABI has no short way")


def entry(ops, op):
    return getattr(ops.functions, "_" + op).direct


def copies(args):
    return [a.clone() if isinstance(a, torch.Tensor) else a for a in args]


def outcome(call, args):
    """What a call returns and leaves in its arguments, or its error."""
    args = copies(args)
    try:
        result = call(*args)
    except Exception as error:
        return type(error), str(error)
    return [t for t in [result, *args] if isinstance(t, torch.Tensor)]


def equal(x, y):
    if x.is_meta or y.is_meta:
        return (x.device, x.shape, x.dtype) == (y.device, y.shape, y.dtype)
    return torch.equal(x, y)


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, tuple):
        assert a == b
    else:
        assert len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b))


@pytest.fixture(params=NAMES)
def case(request, ops, device):
    """(entry, registered operator, arguments)"""
    op = request.param
    return entry(ops, op), native(ops, op), calls(ops, torch.float32, device)[op]


@pytest.fixture
def watched(ops):
    """{operator: entry} of new entries, whose way to the registered operator counts its
    calls in watched["long"]."""
    module, found = types.ModuleType("watched_entries"), {"long": []}
    for op in NAMES:

        def registered(*args, op=op):
            found["long"].append(op)
            return native(ops, op)(*args)

        setattr(module, "_" + op, types.SimpleNamespace(direct=registered))
    sys.modules[module.__name__] = module
    try:
        assert ops.functions.ops.bind_eager(module.__name__)
    finally:
        del sys.modules[module.__name__]
    return found | {op: getattr(module, "_" + op).direct for op in NAMES}


class Seen(TorchDispatchMode):
    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func)
        return func(*args, **(kwargs or {}))


class FunctionsSeen(TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Subclass(torch.Tensor):
    names = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.names.append(str(func))
        return super().__torch_function__(func, types, args, kwargs or {})


def test_the_entries_are_there(ops):
    if sys.platform != "linux":
        pytest.skip("the entries are for Linux")
    assert ops.functions._eager_entries, f"Python {platform.python_version()}, torch {torch.__version__}"
    for op in NAMES:
        assert type(entry(ops, op)) is type(len), "a C function"


@pytest.mark.parametrize("op", NAMES)
def test_which_way_is_taken(ops, watched, device, op):
    from torch._subclasses.fake_tensor import FakeTensorMode

    args = calls(ops, torch.bfloat16, device)[op]
    tensors = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]

    def long(*given):
        before = len(watched["long"])
        watched[op](*given)
        return len(watched["long"]) > before

    assert not long(*args)
    with torch.enable_grad():
        assert not long(*args)
    for i in tensors:
        given = list(args)
        given[i] = torch.nn.Parameter(args[i], requires_grad=False)
        assert not long(*given)
    with torch.inference_mode(False):
        assert not long(*(a.clone() if isinstance(a, torch.Tensor) else a for a in args))
    with Seen():
        assert long(*args)
    with FunctionsSeen():
        assert long(*args)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert long(*args)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert long(*args)
    with FakeTensorMode() as mode:
        assert long(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args))
    for i in tensors:
        given = list(args)
        given[i] = args[i].as_subclass(Subclass)
        assert long(*given), f"argument {i}"
    assert not long(*args)


def test_a_plain_call(case):
    short, registered, args = case
    same(outcome(short, args), outcome(registered, args))


@pytest.mark.grad
def test_results_are_ordinary_tensors(ops, device):
    x = rand(2, 64, device=device)
    y = entry(ops, "silu_and_mul")(x)
    assert type(y) is torch.Tensor and not y.is_inference() and y._version == 0
    with torch.inference_mode():
        assert entry(ops, "silu_and_mul")(x).is_inference()
    entry(ops, "rms_norm_out")(y, y.clone(), rand(32, device=device), EPS, 0.0)
    assert y._version == 1


def test_modes_see_the_registered_operator(case):
    short, registered, args = case
    with Seen() as seen:
        short(*copies(args))
    assert registered in seen.names

    with FunctionsSeen() as seen:
        short(*args)
    assert any(registered.__name__.split(".")[0] in n for n in seen.names)


def test_subclasses_see_the_registered_operator(case):
    short, registered, args = case
    for i, a in enumerate(args):
        if isinstance(a, torch.Tensor):
            given = copies(args)
            given[i] = given[i].as_subclass(Subclass)
            Subclass.names = []
            short(*given)
            assert any(registered.__name__.split(".")[0] in n for n in Subclass.names), f"argument {i}"


def test_the_profiler_sees_the_registered_operator(case):
    short, registered, args = case
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        short(*args)
    assert registered.name().split(".")[0] in {e.key for e in profile.key_averages()}


@pytest.mark.grad
def test_traces_hold_the_registered_operator(ops, device):
    from torch.fx.experimental.proxy_tensor import make_fx

    x, w = rand(2, 64, device=device), rand(64, device=device)
    graph = make_fx(lambda x: entry(ops, "rms_norm")(x, w, EPS, 0.0))(x)
    assert native(ops, "rms_norm") in [n.target for n in graph.graph.nodes]
    traced = torch.jit.trace(lambda x: entry(ops, "silu_and_mul")(x), x)
    assert "silu_and_mul" in str(traced.graph)


def test_fake_tensors(case):
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    short, _, args = case
    with FakeTensorMode() as mode:
        result = short(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args))
    assert result is None or isinstance(result, FakeTensor)


@pytest.mark.grad
def test_functorch(ops, device):
    """No batching rule is registered: the entry must not compute with a wrapper's memory."""
    x = rand(5, 2, 64, device=device)
    for transform in (torch.func.vmap, lambda f: torch.func.functionalize(torch.func.vmap(f))):
        same(outcome(transform(entry(ops, "silu_and_mul")), [x]), outcome(transform(native(ops, "silu_and_mul")), [x]))


@pytest.mark.grad
def test_gradients_are_refused(case):
    short, registered, args = case
    for i, a in enumerate(args):
        if isinstance(a, torch.Tensor) and a.is_floating_point():
            given = list(args)
            given[i] = a.clone().requires_grad_()
            with pytest.raises(NotImplementedError, match="no backward pass"):
                short(*given)


def test_autocast(case, device):
    short, registered, args = case
    with torch.autocast(device, dtype=torch.bfloat16):
        same(outcome(short, args), outcome(registered, args))


def test_lazy_negation(ops, device):
    x = rand(2, 64, device=device)
    got = entry(ops, "silu_and_mul")(torch._neg_view(x))
    assert torch.equal(got, native(ops, "silu_and_mul")(-x))


def bad(args):
    """Calls that must fail, and unusual ones that must not, one argument changed."""
    others = [None, 1, 2.5, True, "x", [1.0], numpy.float64(0.5), numpy.int64(2), 2**70]
    for i, a in enumerate(args):
        for other in others:
            yield args[:i] + (other,) + args[i + 1 :]
        if isinstance(a, torch.Tensor):
            for other in (a.double(), a[..., :-1], a[0], a.to("meta"), a.to_sparse(), a.cpu()[..., :0]):
                yield args[:i] + (other,) + args[i + 1 :]
    yield args[:-1]
    yield (*args, 1)
    yield ()


def test_the_same_results_and_errors_for_any_arguments(case):
    short, registered, args = case
    for given in bad(tuple(args)):
        a, b = outcome(short, given), outcome(registered, given)
        if isinstance(a, tuple):
            assert a == b, given
        else:
            same(a, b)


def test_keyword_arguments_of_the_function(ops, device):
    x, w = rand(2, 64, device=device), rand(64, device=device)
    assert torch.equal(ops.rms_norm(x=x, weight=w, eps=EPS, weight_offset=1), ops.rms_norm(x, w, EPS, 1.0))


def test_nothing_is_kept(case):
    """Neither the arguments nor the result of a call are referred to afterwards."""
    short, _, args = case
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    before = [sys.getrefcount(t) for t in tensors] + [sys.getrefcount(None)]
    for _ in range(100):
        result = short(*args)
        assert result is None or sys.getrefcount(result) == 2
        del result
    after = [sys.getrefcount(t) for t in tensors] + [sys.getrefcount(None)]
    assert all(abs(a - b) < 50 for a, b in zip(before, after)), (before, after)


def test_long_calls_from_several_threads(ops, device):
    """Above the size at which Python's lock is released."""
    import threading

    x, results = rand(64, 2048, device=device), [None] * 4

    def work(i):
        with torch.inference_mode():
            for _ in range(20):
                results[i] = ops.silu_and_mul(x)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    want = native(ops, "silu_and_mul")(x)
    assert all(torch.equal(r, want) for r in results)
