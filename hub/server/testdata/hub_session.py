"""A scripted session of the unmodified huggingface_hub against the embedded Hub.

Every operation prints one line, CONFORMANCE|client|type|transport|operation|result,
which `make conformance` makes a table of. The result is "ok", or "client refuses"
where that version of the client has no such operation for the type; anything
else ends the session.
"""
import base64
import functools
import hashlib
import json
import os
import pathlib
import random
import urllib.request

import huggingface_hub as hh
from huggingface_hub.errors import (EntryNotFoundError, HfHubHTTPError,
                                    RepositoryNotFoundError, RevisionNotFoundError)

TYPE = os.environ["REPO_TYPE"]
MB = int(os.environ["LARGE_MB"])
TRANSPORT = os.environ["TRANSPORT"]
REPO = "thox-ai/session"
work = pathlib.Path(os.environ["WORK"])
api = hh.HfApi()
rng = random.Random(7)
old = hh.__version__.startswith("1.")
if old:
    import httpx

# What a version refuses before it asks the server: neither has discussions of
# kernel repositories, and 1.x cannot change what they hold.
REFUSED = set()
if TYPE == "kernel":
    REFUSED = {"pull request: list and merge"}
    if old or TRANSPORT == "xet":
        REFUSED.add("pull request: upload_folder")
    if old:
        REFUSED |= {
            f"upload_folder, small files and {MB} MB", "upload_folder, unchanged", "create_commit, 1,100 files on a parent",
            "create_commit, parent moved: 412", "delete_file, delete_folder", "pull request: create_commit, and another on it"}


def step(name):
    """Runs an operation at once; the script ends at the first that fails."""
    def run(fn):
        result = "ok"
        try:
            fn()
        except Exception as e:
            if name not in REFUSED or not isinstance(e, ValueError) or isinstance(e, HfHubHTTPError):
                print("FAILED", name)
                raise
            result = "client refuses"
        else:
            assert name not in REFUSED, f"{name}: this client was not expected to do it"
        print(f"CONFORMANCE|{hh.__version__}|{TYPE}|{TRANSPORT}|{name}|{result}")
    return run


def raises(kind, fn, *args, **kw):
    try:
        fn(*args, **kw)
    except kind:
        return
    raise AssertionError(f"{fn}{args} raised nothing, want {kind}")


def sha(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def commit(revision, message, files):
    """A commit without the client's help, for versions that cannot."""
    lines = [{"key": "header", "value": {"summary": message}}]
    lines += [{"key": "file", "value": {"path": p, "encoding": "base64", "content": base64.b64encode(b).decode()}} for p, b in files.items()]
    req = urllib.request.Request(f"{os.environ['HF_ENDPOINT']}/api/{TYPE}s/{REPO}/commit/{revision}", method="POST",
                                 data="\n".join(map(json.dumps, lines)).encode(), headers={"Content-Type": "application/x-ndjson"})
    return json.load(urllib.request.urlopen(req))["commitOid"]


# Small and large files; the large one is half repeated, half random, so that
# every packing of chunks occurs.
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
(src / "resume.bin").write_bytes(rng.randbytes(12_000_000))
first, many = "", ""


@step("whoami")
def _():
    assert api.whoami()["name"]


@step("create_repo, exist_ok, and again")
def _():
    url = api.create_repo(REPO, repo_type=TYPE)
    assert url.repo_id == REPO and url.repo_type == TYPE, url
    assert api.create_repo(REPO, repo_type=TYPE, exist_ok=True).repo_id == REPO
    raises(HfHubHTTPError, api.create_repo, REPO, repo_type=TYPE)
    raises(RepositoryNotFoundError, api.list_repo_refs, "thox-ai/none", repo_type=TYPE)


@step(f"upload_folder, small files and {MB} MB")
def _():
    global first
    first = api.upload_folder(repo_id=REPO, repo_type=TYPE, folder_path=src, commit_message="upload").oid
    assert len(first) == 40, first


if not first:
    first = commit("main", "upload", {str(f.relative_to(src)): f.read_bytes() for f in src.rglob("*") if f.is_file()})


@step("upload_folder, unchanged")
def _():
    again = api.upload_folder(repo_id=REPO, repo_type=TYPE, folder_path=src, commit_message="upload")
    assert again.oid == first, (again, first)


@step("create_branch")
def _():
    api.create_branch(REPO, branch="v1", repo_type=TYPE)
    api.create_branch(REPO, branch="feat/x", revision=first, repo_type=TYPE)
    raises(HfHubHTTPError, api.create_branch, REPO, branch="v1", repo_type=TYPE)
    api.create_branch(REPO, branch="v1", repo_type=TYPE, exist_ok=True)
    raises(RevisionNotFoundError, api.create_branch, REPO, branch="v9", revision="nope", repo_type=TYPE)


@step("create_tag")
def _():
    api.create_tag(REPO, tag="rel/1.0", revision="v1", repo_type=TYPE)


@step("list_repo_refs")
def _():
    refs = api.list_repo_refs(REPO, repo_type=TYPE, include_pull_requests=True)
    assert sorted(b.name for b in refs.branches) == ["feat/x", "main", "v1"], refs
    assert [t.name for t in refs.tags] == ["rel/1.0"], refs
    assert all(b.target_commit == first for b in refs.branches), refs


@step("create_commit, 1,100 files on a parent")
def _():
    global many
    ops = [hh.CommitOperationAdd(f"many/{i:04}.txt", f"{i}\n".encode()) for i in range(1100)]
    many = api.create_commit(REPO, ops, commit_message="many", repo_type=TYPE, revision="feat/x", parent_commit=first).oid


if not many:
    commit("feat%2Fx", "many", {f"many/{i:04}.txt": f"{i}\n".encode() for i in range(1100)})


@step("list_repo_tree, pages of 1,000")
def _():
    names = [e.path for e in api.list_repo_tree(REPO, path_in_repo="many", revision="feat/x", repo_type=TYPE)]
    assert len(names) == 1100 and len(set(names)) == 1100, len(names)
    raises(EntryNotFoundError, lambda: list(api.list_repo_tree(REPO, path_in_repo="none", repo_type=TYPE)))


@step("list_repo_tree, expanded")
def _():
    expanded = list(api.list_repo_tree(REPO, path_in_repo="build/variant", revision="feat/x", repo_type=TYPE, expand=True))
    assert {e.last_commit.oid for e in expanded} == {first}, expanded
    lib = next(e for e in expanded if e.path.endswith("lib.so"))
    assert lib.lfs.sha256 == sha(src / "build/variant/lib.so") and lib.size == os.path.getsize(src / "build/variant/lib.so")


@step("get_paths_info")
def _():
    info = api.get_paths_info(REPO, ["README.md", "nope", "build"], repo_type=TYPE)
    assert [p.path for p in info] == ["README.md", "build"], info


@step("list_repo_commits")
def _():
    assert [c.title for c in api.list_repo_commits(REPO, revision="feat/x", repo_type=TYPE)] == ["many", "upload", "initial commit"]


@step("create_commit, parent moved: 412")
def _():
    op = [hh.CommitOperationAdd("a.txt", b"a")]
    try:
        api.create_commit(REPO, op, commit_message="stale", repo_type=TYPE, revision="feat/x", parent_commit=first)
    except HfHubHTTPError as e:
        assert e.response.status_code == 412, e
    else:
        raise AssertionError("a stale parent was accepted")


@step("hf_hub_download, cut and resumed by Range")
def _():
    get = functools.partial(hh.hf_hub_download, REPO, "resume.bin", repo_type=TYPE, revision=first, cache_dir=work / "resumed")
    if old:  # gives up, and goes on when it is called again
        raises(httpx.RemoteProtocolError, get)
    p = get()
    assert sha(p) == sha(src / "resume.bin")


@step("snapshot_download at a commit, again offline")
def _():
    got = pathlib.Path(hh.snapshot_download(REPO, repo_type=TYPE, revision=first))
    for f in src.rglob("*"):
        if f.is_file():
            assert sha(got / f.relative_to(src)) == sha(f), f
    assert hh.snapshot_download(REPO, repo_type=TYPE, revision=first, local_files_only=True) == str(got)


@step("hf_hub_download, cached ETag on another branch")
def _():
    p = hh.hf_hub_download(REPO, "build/variant/two.bin", repo_type=TYPE, revision="v1")
    assert sha(p) == sha(src / "build/variant/two.bin")


@step("hf_hub_download, short revision, odd name, errors")
def _():
    short = hh.hf_hub_download(REPO, "with space #1.txt", repo_type=TYPE, revision=first[:7])
    assert pathlib.Path(short).read_text() == "odd name\n"
    raises(EntryNotFoundError, hh.hf_hub_download, REPO, "nope", repo_type=TYPE)
    raises(RevisionNotFoundError, hh.hf_hub_download, REPO, "README.md", repo_type=TYPE, revision="nope")


@step("snapshot_download of a tag to local_dir, patterns")
def _():
    dest = work / "local"
    hh.snapshot_download(REPO, repo_type=TYPE, revision="rel/1.0", local_dir=dest, allow_patterns=["build/*"])
    assert sha(dest / "build/variant/lib.so") == sha(src / "build/variant/lib.so")


@step("delete_file, delete_folder")
def _():
    raises(EntryNotFoundError, api.delete_file, "nope.txt", REPO, repo_type=TYPE)
    api.delete_file("with space #1.txt", REPO, repo_type=TYPE)
    api.delete_folder("build", REPO, repo_type=TYPE)
    left = set(api.list_repo_files(REPO, repo_type=TYPE))
    assert left == {".gitattributes", "README.md", "empty.txt", "resume.bin"}, left


@step("delete_tag, delete_branch")
def _():
    api.delete_tag(REPO, tag="rel/1.0", repo_type=TYPE)
    api.delete_branch(REPO, branch="feat/x", repo_type=TYPE)
    raises(HfHubHTTPError, api.delete_branch, REPO, branch="main", repo_type=TYPE)
    raises(RevisionNotFoundError, api.delete_branch, REPO, branch="feat/x", repo_type=TYPE)


@step("pull request: create_commit, and another on it")
def _():
    pr = api.create_commit(REPO, [hh.CommitOperationAdd("pr.txt", b"pr")], commit_message="a request", repo_type=TYPE, create_pr=True)
    assert pr.pr_num == 1 and pr.pr_revision == "refs/pr/1", pr
    api.create_commit(REPO, [hh.CommitOperationAdd("pr2.txt", b"pr2")], commit_message="more", repo_type=TYPE, revision=pr.pr_revision)
    assert "pr.txt" not in api.list_repo_files(REPO, repo_type=TYPE)
    assert {"pr.txt", "pr2.txt"} <= set(api.list_repo_files(REPO, repo_type=TYPE, revision="refs/pr/1"))


@step("pull request: list and merge")
def _():
    assert api.get_discussion_details(REPO, 1, repo_type=TYPE).status == "open"
    assert [d.num for d in api.get_repo_discussions(REPO, repo_type=TYPE)] == [1]
    api.merge_pull_request(REPO, 1, repo_type=TYPE)
    assert "pr2.txt" in api.list_repo_files(REPO, repo_type=TYPE)


@step("pull request: upload_folder")
def _():
    pr2 = api.upload_folder(repo_id=REPO, repo_type=TYPE, folder_path=src, path_in_repo="again", commit_message="by request", create_pr=True)
    assert pr2.pr_num == 2, pr2
    assert "again/README.md" in api.list_repo_files(REPO, revision="refs/pr/2", repo_type=TYPE)


@step("move_repo")
def _():
    api.move_repo(REPO, "thox-ai/moved", repo_type=TYPE)
    assert "README.md" in api.list_repo_files("thox-ai/moved", repo_type=TYPE)
    api.move_repo("thox-ai/moved", REPO, repo_type=TYPE)


@step("delete_repo")
def _():
    api.delete_repo(REPO, repo_type=TYPE)
    raises(RepositoryNotFoundError, api.delete_repo, REPO, repo_type=TYPE)
    api.delete_repo(REPO, repo_type=TYPE, missing_ok=True)


print("SESSION OK")
