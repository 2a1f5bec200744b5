"""What the unmodified kernel loader asks of a Hub, up to the choice of a variant."""
import json
import os
import pathlib
import subprocess
import sys

import huggingface_hub as hh
import kernels
from kernels import get_kernel, has_kernel

REPO = "thox-ai/tiny-kernel"
DEP = "thox-ai/tiny-dep"
work = pathlib.Path(os.environ["WORK"])
api = hh.HfApi()


def variant(root, name, version, deps):
    d = root / "build" / "torch-universal"
    d.mkdir(parents=True)
    (d / "__init__.py").write_text(f"VERSION = {version}\n\ndef double(x):\n    return 2 * x\n")
    (d / "metadata.json").write_text(json.dumps({
        "name": name, "id": f"_{name.replace('-', '_')}_{version}", "version": version, "license": "Apache-2.0",
        "python-depends": [], "kernel-depends": deps, "backend": {"type": "cpu"}}))


for repo, name, deps in ((DEP, "tiny-dep", []), (REPO, "tiny-kernel", [{"repo-id": DEP, "version": 1}])):
    api.create_repo(repo, repo_type="kernel")
    for version in (1, 2):
        root = work / f"{name}-{version}"
        variant(root, name, version, deps)
        api.create_branch(repo, branch=f"v{version}", repo_type="kernel")
        api.upload_folder(repo_id=repo, repo_type="kernel", folder_path=root, revision=f"v{version}", commit_message=f"v{version}")


def cli(*args, **kw):
    out = subprocess.run([pathlib.Path(sys.executable).parent / "kernels", *args], capture_output=True, text=True, **kw)
    assert out.returncode == 0, (args, out.stdout, out.stderr)
    return out.stdout


print(cli("versions", REPO))
assert "2" in cli("versions", REPO)
assert "tiny-kernel" in cli("info", REPO)
assert has_kernel(REPO, version=2)
# The namespace is trusted, so nothing has to be allowed by hand.
k = get_kernel(REPO, version=2)
assert k.VERSION == 2 and k.double(4) == 8
sha = next(b.target_commit for b in api.list_repo_refs(REPO, repo_type="kernel").branches if b.name == "v1")
assert get_kernel(REPO, revision=sha).VERSION == 1
try:
    get_kernel(REPO, version=9)
    raise AssertionError("version 9 does not exist")
except ValueError as e:
    assert "9" in str(e), e

# Lock and download, as a project does it.
project = work / "project"
project.mkdir()
(project / "pyproject.toml").write_text(f'[project]\nname = "p"\nversion = "0"\n[tool.kernels.dependencies]\n"{REPO}" = 1\n')
cli("lock", str(project))
lock = json.loads((project / "kernels.lock").read_text())
assert sha in json.dumps(lock), lock
cli("download", str(project))
print("kernels", kernels.__version__)
print("SESSION OK")
