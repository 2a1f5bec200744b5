"""A scripted session of the unmodified huggingface_hub against the embedded Hub."""
import hashlib
import os
import pathlib
import random

import huggingface_hub as hh
from huggingface_hub.errors import (EntryNotFoundError, HfHubHTTPError,
                                    RepositoryNotFoundError, RevisionNotFoundError)

TYPE = os.environ["REPO_TYPE"]
MB = int(os.environ["LARGE_MB"])
REPO = "thox-ai/session"
work = pathlib.Path(os.environ["WORK"])
api = hh.HfApi()
rng = random.Random(7)


def raises(kind, fn, *args, **kw):
    try:
        fn(*args, **kw)
    except kind:
        return
    raise AssertionError(f"{fn.__name__}{args} raised nothing, want {kind}")


def sha(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


# Accounts.
assert api.whoami()["name"]
# Create, again, and what is not there.
url = api.create_repo(REPO, repo_type=TYPE)
assert url.repo_id == REPO and url.repo_type == TYPE, url
assert api.create_repo(REPO, repo_type=TYPE, exist_ok=True).repo_id == REPO
raises(HfHubHTTPError, api.create_repo, REPO, repo_type=TYPE)
raises(RepositoryNotFoundError, api.list_repo_refs, "thox-ai/none", repo_type=TYPE)

# Upload small and large files; the large one is half repeated, half random, so
# that every packing of chunks occurs.
src = work / "src"
(src / "build" / "variant").mkdir(parents=True)
(src / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A card\n")
(src / "empty.txt").write_bytes(b"")
(src / "with space #1.txt").write_text("odd name\n")
(src / "build" / "variant" / "__init__.py").write_text("x = 1\n")
half = MB * 500_000
floats = b"".join(i.to_bytes(4, "little") for i in range(half // 8))
(src / "build" / "variant" / "lib.so").write_bytes(rng.randbytes(half) + floats + b"\0" * (half - len(floats)))
(src / "build" / "variant" / "two.bin").write_bytes(rng.randbytes(2_000_000))
first = api.upload_folder(repo_id=REPO, repo_type=TYPE, folder_path=src, commit_message="upload")
assert len(first.oid) == 40, first

# The same again makes no commit.
again = api.upload_folder(repo_id=REPO, repo_type=TYPE, folder_path=src, commit_message="upload")
assert again.oid == first.oid, (again, first)

# Branch, tag, refs.
api.create_branch(REPO, branch="v1", repo_type=TYPE)
api.create_branch(REPO, branch="feat/x", revision=first.oid, repo_type=TYPE)
raises(HfHubHTTPError, api.create_branch, REPO, branch="v1", repo_type=TYPE)
api.create_branch(REPO, branch="v1", repo_type=TYPE, exist_ok=True)
api.create_tag(REPO, tag="rel/1.0", revision="v1", repo_type=TYPE)
raises(RevisionNotFoundError, api.create_branch, REPO, branch="v9", revision="nope", repo_type=TYPE)
refs = api.list_repo_refs(REPO, repo_type=TYPE, include_pull_requests=True)
assert sorted(b.name for b in refs.branches) == ["feat/x", "main", "v1"], refs
assert [t.name for t in refs.tags] == ["rel/1.0"], refs
assert all(b.target_commit == first.oid for b in refs.branches), refs

# Tree, paging over more than 1000 files.
ops = [hh.CommitOperationAdd(f"many/{i:04}.txt", f"{i}\n".encode()) for i in range(1100)]
many = api.create_commit(REPO, ops, commit_message="many", repo_type=TYPE, revision="feat/x", parent_commit=first.oid)
names = [e.path for e in api.list_repo_tree(REPO, path_in_repo="many", revision="feat/x", repo_type=TYPE)]
assert len(names) == 1100 and len(set(names)) == 1100, len(names)
expanded = list(api.list_repo_tree(REPO, path_in_repo="build/variant", revision="feat/x", repo_type=TYPE, expand=True))
assert {e.last_commit.oid for e in expanded} == {first.oid}, expanded
lib = next(e for e in expanded if e.path.endswith("lib.so"))
assert lib.lfs.sha256 == sha(src / "build/variant/lib.so") and lib.size == os.path.getsize(src / "build/variant/lib.so")
info = api.get_paths_info(REPO, ["README.md", "nope", "build"], repo_type=TYPE)
assert [p.path for p in info] == ["README.md", "build"], info
assert [c.title for c in api.list_repo_commits(REPO, revision="feat/x", repo_type=TYPE)] == ["many", "upload", "initial commit"]
raises(EntryNotFoundError, lambda: list(api.list_repo_tree(REPO, path_in_repo="none", repo_type=TYPE)))

# A parent that is not the head any more is refused, and so are missing files.
op = [hh.CommitOperationAdd("a.txt", b"a")]
try:
    api.create_commit(REPO, op, commit_message="stale", repo_type=TYPE, revision="feat/x", parent_commit=first.oid)
    raise AssertionError("a stale parent was accepted")
except HfHubHTTPError as e:
    assert e.response.status_code == 412, e
raises(EntryNotFoundError, api.delete_file, "nope.txt", REPO, repo_type=TYPE)

# Snapshot at a pinned revision, and everything from the cache then.
got = pathlib.Path(hh.snapshot_download(REPO, repo_type=TYPE, revision=first.oid))
for f in src.rglob("*"):
    if f.is_file():
        assert sha(got / f.relative_to(src)) == sha(f), f
assert hh.snapshot_download(REPO, repo_type=TYPE, revision=first.oid, local_files_only=True) == str(got)
# The same content on another branch is found by its ETag.
p = hh.hf_hub_download(REPO, "build/variant/two.bin", repo_type=TYPE, revision="v1")
assert sha(p) == sha(src / "build/variant/two.bin")
short = hh.hf_hub_download(REPO, "with space #1.txt", repo_type=TYPE, revision=first.oid[:7])
assert pathlib.Path(short).read_text() == "odd name\n"
raises(EntryNotFoundError, hh.hf_hub_download, REPO, "nope", repo_type=TYPE)
raises(RevisionNotFoundError, hh.hf_hub_download, REPO, "README.md", repo_type=TYPE, revision="nope")
dest = work / "local"
hh.snapshot_download(REPO, repo_type=TYPE, revision="rel/1.0", local_dir=dest, allow_patterns=["build/*"])
assert sha(dest / "build/variant/lib.so") == sha(src / "build/variant/lib.so")

# Delete files and folders, branches and tags.
api.delete_file("with space #1.txt", REPO, repo_type=TYPE)
api.delete_folder("build", REPO, repo_type=TYPE)
left = set(api.list_repo_files(REPO, repo_type=TYPE))
assert left == {".gitattributes", "README.md", "empty.txt"}, left
api.delete_tag(REPO, tag="rel/1.0", repo_type=TYPE)
api.delete_branch(REPO, branch="feat/x", repo_type=TYPE)
raises(HfHubHTTPError, api.delete_branch, REPO, branch="main", repo_type=TYPE)
raises(RevisionNotFoundError, api.delete_branch, REPO, branch="feat/x", repo_type=TYPE)

# A pull request; merging it is possible for models in this client.
pr = api.create_commit(REPO, [hh.CommitOperationAdd("pr.txt", b"pr")], commit_message="a request", repo_type=TYPE, create_pr=True)
assert pr.pr_num == 1 and pr.pr_revision == "refs/pr/1", pr
more = api.create_commit(REPO, [hh.CommitOperationAdd("pr2.txt", b"pr2")], commit_message="more", repo_type=TYPE, revision=pr.pr_revision)
assert "pr.txt" not in api.list_repo_files(REPO, repo_type=TYPE)
assert {"pr.txt", "pr2.txt"} <= set(api.list_repo_files(REPO, repo_type=TYPE, revision="refs/pr/1"))
if TYPE == "model":
    assert api.get_discussion_details(REPO, 1).status == "open"
    assert [d.num for d in api.get_repo_discussions(REPO)] == [1]
    api.merge_pull_request(REPO, 1)
    assert "pr2.txt" in api.list_repo_files(REPO)
    pr2 = api.upload_folder(repo_id=REPO, folder_path=src, path_in_repo="again", commit_message="by request", create_pr=True)
    assert pr2.pr_num == 2, pr2
    assert "again/README.md" in api.list_repo_files(REPO, revision="refs/pr/2")

# Move and delete.
api.move_repo(REPO, "thox-ai/moved", repo_type=TYPE)
assert "README.md" in api.list_repo_files("thox-ai/moved", repo_type=TYPE)
api.delete_repo("thox-ai/moved", repo_type=TYPE)
raises(RepositoryNotFoundError, api.delete_repo, "thox-ai/moved", repo_type=TYPE)
api.delete_repo("thox-ai/moved", repo_type=TYPE, missing_ok=True)
print("SESSION OK")
