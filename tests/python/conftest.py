"""Which build of thox-edge-ops is tested, and on which device.

THOXBUILD_KERNEL_DIR names a local build: a kernel project, its build folder or
one variant. Otherwise THOXBUILD_KERNEL_REPO and THOXBUILD_KERNEL_REVISION name
a published one, which is downloaded from HF_ENDPOINT by the unmodified
`kernels` library. With neither, what `thoxbuild build` left in build/ is used.
"""

import os
import pathlib

import pytest
import torch

WORKSPACE = pathlib.Path(__file__).parents[2]


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", choices=["cpu", "cuda"], help="where the operators run")


def load_kernel(device: str):
    """The kernel under test, as the environment names it."""
    import kernels

    backend = "cpu" if device == "cpu" else None
    repo = os.environ.get("THOXBUILD_KERNEL_REPO")
    if repo and not os.environ.get("THOXBUILD_KERNEL_DIR"):
        revision = os.environ["THOXBUILD_KERNEL_REVISION"]
        return kernels.get_kernel(repo, revision=revision, backend=backend, trust_remote_code=[repo])
    path = pathlib.Path(os.environ.get("THOXBUILD_KERNEL_DIR") or WORKSPACE)
    return kernels.get_local_kernel(path, backend=backend)


@pytest.fixture(scope="session")
def device(request):
    return request.config.getoption("--device")


@pytest.fixture(scope="session")
def ops(device):
    return load_kernel(device)


@pytest.fixture(scope="session")
def variant_dir(ops):
    """The folder that the kernel was loaded from."""
    return pathlib.Path(ops.__file__).parent


@pytest.fixture(autouse=True)
def inference(request):
    """Tests run without autograd, as decoders do, unless they are marked `grad`."""
    torch.manual_seed(0)
    if "grad" in request.keywords:
        yield
        return
    with torch.inference_mode():
        yield


def pytest_configure(config):
    config.addinivalue_line("markers", "grad: runs with autograd on")


def pytest_report_header(config):
    isa = os.environ.get("THOX_EDGE_OPS_CPU_ISA") or "the fastest"
    source = os.environ.get("THOXBUILD_KERNEL_DIR") or os.environ.get("THOXBUILD_KERNEL_REPO") or "build/"
    return f"kernel: {source}, device {config.getoption('--device')}, CPU unit: {isa}"
