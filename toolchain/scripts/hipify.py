"""CUDA sources to HIP by torch's own hipify: hipify.py FOLDER FILE...

FOLDER holds torch's package hipify. Each file is written to hip/FILE, a .cu
file as .hip. As kernel-builder does, hipify runs with its settings for
extensions. There it renames headers and what includes them; here each file is
alone when it is converted, so that the names in includes stay: the headers are
converted under the names that they have.
"""

import contextlib
import io
import os
import shutil
import sys
import tempfile

folder, *files = sys.argv[1:]
sys.path.insert(0, folder)
from hipify import hipify_python  # noqa: E402

for name in files:
    with tempfile.TemporaryDirectory() as alone:
        alone = os.path.realpath(alone)
        copy = os.path.join(alone, os.path.basename(name))
        shutil.copyfile(name, copy)
        with contextlib.redirect_stderr(io.StringIO()):  # it says that all went well
            results = hipify_python.hipify(
                project_directory=alone,
                output_directory=alone,
                includes=[os.path.join(alone, "*")],
                extra_files=[copy],
                hipify_extra_files_only=True,
                is_pytorch_extension=True,
                show_progress=False,
            )
        result = results.get(copy)
        if result is None:
            sys.exit(f"{name}: hipify did not take it")
        with open(result.hipified_path or copy, encoding="utf-8", newline="") as f:
            text = f.read()
    to = os.path.join("hip", name[: -len(".cu")] + ".hip" if name.endswith(".cu") else name)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    with open(to, "w", encoding="utf-8", newline="") as f:
        f.write(text)
