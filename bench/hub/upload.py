"""Times huggingface_hub: upload.py ENDPOINT REPO FOLDER prints seconds on stdout,
of the clock and of the processor.

Start-up and imports are not counted; making the repository, its branch and
the upload are, as they are in thoxbuild's publish.
"""

import sys
import time

from huggingface_hub import HfApi

endpoint, repo, folder = sys.argv[1:]
api = HfApi(endpoint=endpoint, token=False)
start, used = time.perf_counter(), time.process_time()
api.create_repo(repo, repo_type="model", exist_ok=True)
api.create_branch(repo, branch="v1", repo_type="model", exist_ok=True)
api.upload_folder(repo_id=repo, repo_type="model", folder_path=folder, revision="v1")
print(time.perf_counter() - start, time.process_time() - used)
