"""The CPU's units against each other, and the choice among them."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch

from unit_probe import build

HERE = pathlib.Path(__file__).parent


@pytest.fixture(autouse=True)
def cpu_only(device):
    if device != "cpu":
        pytest.skip("units are the CPU's")


def run(code_or_file, *args, isa, threads=None):
    env = {**os.environ, "PYTHONPATH": str(HERE)}
    env.pop("THOX_EDGE_OPS_CPU_ISA", None)
    if isa is not None:
        env["THOX_EDGE_OPS_CPU_ISA"] = isa
    if threads:
        env["OMP_NUM_THREADS"] = str(threads)
    return subprocess.run(
        [sys.executable, *code_or_file, *args], env=env, cwd=HERE, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def units(ops, tmp_path_factory):
    """{unit: results} of every unit of this host, and of the fastest on one thread."""
    folder, found = tmp_path_factory.mktemp("units"), {}
    wanted = [(isa, isa, None) for isa in ops.cpu_isa_choices()] + [("one thread", None, 1), ("threads", None, 7)]
    for key, isa, threads in wanted:
        file = folder / key.replace(" ", "_")
        done = run(["unit_probe.py"], str(file), isa=isa, threads=threads)
        assert done.returncode == 0, done.stderr
        found[key] = torch.load(file)
    # One that is built again from other sources in between may round otherwise.
    builds = {probe["build"] for probe in found.values()} | {build(ops)}
    assert len(builds) == 1, f"the kernel under test was replaced while it was tested: {sorted(builds)}"
    return found


def differing(a, b):
    assert a.keys() == b.keys()
    # By bits, but any NaN is as good as another.
    return [k for k in a if not torch.equal(a[k].nan_to_num(123), b[k].nan_to_num(123))]


def test_each_unit_says_its_name(ops, units):
    for isa in ops.cpu_isa_choices():
        assert units[isa]["isa"] == ("baseline" if isa == "neon" else isa)
    assert units["one thread"]["isa"] == ops.cpu_isa_choices()[-1], "the last choice is the fastest"


def test_threads_change_nothing(units):
    assert differing(units["one thread"]["results"], units["threads"]["results"]) == []


def test_units_agree_in_every_bit_but_for_the_gates_of_the_baseline(ops, units):
    """Norms and rotations use no fused operation, so all units give the same bits. The
    gates' exponential does where the unit has one: every unit but the baseline's."""
    reference = units[ops.cpu_isa_choices()[-1]]["results"]
    for isa in ops.cpu_isa_choices():
        different = differing(reference, units[isa]["results"])
        if isa == "baseline":
            different = [k for k in different if "and_mul" not in k and not k.startswith("loads")]
        assert different == [], isa


def test_gates_of_the_baseline_differ_by_little(ops, units):
    reference, baseline = units[ops.cpu_isa_choices()[-1]]["results"], units["baseline"]["results"]
    for key in reference:
        if "and_mul" in key:
            # 4e-7 before the rounding, which can then go the other way.
            step = torch.finfo(reference[key].dtype).eps
            bound = max(step, 8e-7)
            torch.testing.assert_close(baseline[key], reference[key], rtol=bound, atol=1e-7 if step < 1e-6 else step)


def test_an_unknown_unit_is_refused(ops):
    code = "import conftest; o = conftest.load_kernel('cpu'); import torch; o.silu_and_mul(torch.ones(2, 4))"
    done = run(["-c", code], isa="sse9")
    assert done.returncode != 0
    assert 'THOX_EDGE_OPS_CPU_ISA is "sse9"' in done.stderr
    assert ", ".join(ops.cpu_isa_choices()) in done.stderr


def test_an_empty_variable_is_none(ops):
    code = "import conftest; print(conftest.load_kernel('cpu').cpu_isa())"
    done = run(["-c", code], isa="")
    assert done.stdout.strip() == ops.cpu_isa_choices()[-1], done.stderr


def test_forced_unit_is_the_one_under_test(ops):
    forced = os.environ.get("THOX_EDGE_OPS_CPU_ISA")
    if not forced:
        pytest.skip("no unit is forced")
    assert ops.cpu_isa() == ("baseline" if forced == "neon" else forced)
