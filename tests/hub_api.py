"""The Hub's HTTP API as functions from a request to an answer (status, JSON or bytes, headers); see `hub_server`."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qs

import yaml
from huggingface_hub.repocard_data import model_index_to_eval_results
from huggingface_hub.utils import validate_repo_id

OWNER, READER = "hf_owner", "hf_reader"
"""Tokens of a user who may write to "ada" and "org", and of one who may read public repositories."""
NAMESPACES = {OWNER: ("ada", "org"), READER: ("bob",)}
GIT_ATTRIBUTES = b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n"
LARGE_FILES = (".safetensors", ".bin", ".pt", ".pth", ".parquet", ".arrow")
PAGES = "https://huggingface.co"
_DATE = "2024-01-01T00:00:00.000Z"
_REPOSITORY = r"/api/(models|datasets)/([^/]+/[^/]+)"


@dataclass(frozen=True)
class File:
    """A file of a commit; a large one is named by its SHA-256, another as git does."""

    data: bytes
    is_large: bool

    @property
    def oid(self):
        if self.is_large:
            return hashlib.sha256(self.data).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data).hexdigest()

    def describe(self, path):
        """What the tree says of it."""
        entry = {"type": "file", "path": path, "size": len(self.data), "oid": self.oid}
        return entry | ({"lfs": {"oid": self.oid, "size": len(self.data), "pointerSize": 134}} if self.is_large else {})


@dataclass(frozen=True)
class Commit:
    oid: str
    parent: str | None
    title: str
    files: dict[str, File]


@dataclass
class Repository:
    kind: str
    id: str
    private: bool = False
    gated: bool = False
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def commit(self, branch, title, files):
        """Put a commit on top of a branch."""
        parent = self.branches.get(branch)
        content = f"{self.kind} {self.id} {parent} {title} {sorted((p, f.oid) for p, f in files.items())}"
        commit = Commit(hashlib.sha1(content.encode()).hexdigest(), parent, title, files)
        self.commits[commit.oid] = commit
        self.branches[branch] = commit.oid
        return commit

    def find(self, revision):
        """The commit that a branch or an id names."""
        oid = self.branches.get(revision, revision)
        if oid not in self.commits:
            raise RefusedError(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return self.commits[oid]

    def history(self, revision="main"):
        """Titles of the commits, the newest first."""
        titles, commit = [], self.find(revision)
        while commit is not None:
            titles.append(commit.title)
            commit = self.commits.get(commit.parent)
        return titles


class RefusedError(Exception):
    """An answer that is an error."""

    def __init__(self, status, code, message, **headers):
        super().__init__(message)
        self.status, self.code, self.headers = status, code, headers


@dataclass
class Request:
    """What was asked, by whom."""

    hub: Any
    token: str | None
    body: bytes
    query: dict[str, list[str]]

    @property
    def json(self):
        return json.loads(self.body)

    def require_user(self):
        """The namespaces that the token's owner may write to."""
        if self.token not in NAMESPACES:
            raise RefusedError(401, None, "Invalid credentials in Authorization header")
        return NAMESPACES[self.token]

    def require_writer(self, repo_id):
        if repo_id.split("/")[0] not in self.require_user():
            raise RefusedError(403, None, f"You don't have the rights to write to {repo_id}")

    def repository(self, kind, repo_id):
        """Find a repository; one that is hidden looks as if there were none."""
        found = self.hub.repositories.get((kind.removesuffix("s"), repo_id))
        may_read = repo_id.split("/")[0] in NAMESPACES.get(self.token, ())
        if found is None or (found.private and not may_read):
            raise RefusedError(404 if self.token in NAMESPACES else 401, "RepoNotFound", "Repository not found")
        return found

    def require_access(self, repository):
        if repository.gated and repository.id.split("/")[0] not in NAMESPACES.get(self.token, ()):
            status = 403 if self.token in NAMESPACES else 401
            raise RefusedError(status, "GatedRepo", f"Access to model {repository.id} is restricted.")


def whoami(request):
    name, *organizations = request.require_user()
    orgs = [{"name": organization, "type": "org"} for organization in organizations]
    return 200, {"type": "user", "name": name, "orgs": orgs, "auth": {"type": "access_token"}}, {}


def create_repository(request):
    wanted = request.json
    namespace = wanted.get("organization") or request.require_user()[0]
    repo_id, kind = f"{namespace}/{wanted['name']}", wanted.get("type", "model")
    request.require_writer(repo_id)
    url = PAGES + ("/" if kind == "model" else f"/{kind}s/") + repo_id
    if (kind, repo_id) in request.hub.repositories:
        return 409, {"error": "You already created this repo", "url": url, "name": repo_id}, {}
    private = wanted.get("visibility") == "private" or bool(wanted.get("private"))
    request.hub.create(repo_id, kind, private=private)
    return 200, {"url": url, "name": repo_id}, {}


def read_metadata(text):
    """The YAML at the head of a README, as a dictionary; none without such a head."""
    head = re.match(r"---\r?\n(.*?)\n---", text, re.DOTALL)
    return yaml.safe_load(head[1]) if head else {}


def check_metadata(text):
    """What is wrong with a README's metadata."""
    try:
        data = read_metadata(text)
        if not isinstance(data, dict):
            return ["metadata is no mapping"]
        for name in (
            [data.get("base_model")] if isinstance(data.get("base_model"), str) else data.get("base_model") or []
        ):
            validate_repo_id(name)
        if "model-index" in data:
            model_index_to_eval_results(data["model-index"])
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    texts = ("license", "library_name", "pipeline_tag")
    wrong = [f"{name} must be a string" for name in texts if not isinstance(data.get(name, ""), str)]
    if not all(isinstance(tag, str) for tag in data.get("tags", [])):
        wrong.append("tags must be strings")
    return wrong


def validate_yaml(request):
    errors = [{"message": message} for message in check_metadata(request.json["content"])]
    return 400 if errors else 200, {"errors": errors, "warnings": []}, {}


def info(request, kind, repo_id, revision="main"):
    repository = request.repository(kind, repo_id)
    commit = repository.find(revision)
    readme = commit.files.get("README.md")
    card = read_metadata(readme.data.decode()) if readme else {}
    siblings = [{"rfilename": path, "size": len(file.data)} for path, file in sorted(commit.files.items())]
    known = {name: card[name] for name in ("library_name", "pipeline_tag") if name in card}
    return (
        200,
        {
            "id": repo_id,
            "modelId": repo_id,
            "author": repo_id.split("/")[0],
            "sha": commit.oid,
            "lastModified": _DATE,
            "private": repository.private,
            "gated": "auto" if repository.gated else False,
            "disabled": False,
            "tags": card.get("tags") or [],
            "cardData": card,
            "siblings": siblings,
            **known,
        },
        {},
    )


def refs(request, kind, repo_id):
    branches = request.repository(kind, repo_id).branches
    listed = [{"name": name, "ref": f"refs/heads/{name}", "targetCommit": oid} for name, oid in branches.items()]
    return 200, {"branches": listed, "converts": [], "tags": []}, {}


def create_branch(request, kind, repo_id, branch):
    repository = request.repository(kind, repo_id)
    request.require_writer(repo_id)
    if branch in repository.branches:
        raise RefusedError(409, None, f"Reference already exists: {branch}")
    repository.branches[branch] = repository.find(request.json.get("startingPoint", "main")).oid
    return 200, {}, {}


def preupload(request, kind, repo_id, revision):
    repository = request.repository(kind, repo_id)
    if "create_pr" not in request.query:
        request.require_writer(repo_id)
    files = repository.find(revision).files
    answer = []
    for wanted in request.json["files"]:
        path = wanted["path"]
        is_large = path.endswith(LARGE_FILES) or wanted["size"] > 10_000_000
        entry = {"path": path, "uploadMode": "lfs" if is_large else "regular", "shouldIgnore": False}
        answer.append(entry | ({"oid": files[path].oid} if path in files else {}))
    return 200, {"files": answer}, {}


def lfs_batch(request, _prefix, _repo_id):
    request.require_user()
    hub, objects = request.hub, []
    for wanted in request.json["objects"]:
        oid, size = wanted["oid"], wanted["size"]
        upload = {"href": f"{hub.cdn}/lfs/{oid}", "header": {}}
        if hub.part_size and size > hub.part_size:
            count = -(-size // hub.part_size)
            urls = {str(part): f"{hub.cdn}/lfs/{oid}/{part}" for part in range(1, count + 1)}
            upload = {"href": f"{hub.url}/lfs/{oid}", "header": {"chunk_size": str(hub.part_size), **urls}}
        needed = (
            {} if oid in hub.objects else {"actions": {"upload": upload, "verify": {"href": f"{hub.url}/lfs-verify"}}}
        )
        objects.append({"oid": oid, "size": size} | needed)
    return 200, {"transfer": "basic", "objects": objects}, {}


def store(request, oid, data):
    """Keep a large file, if it is the one that was announced."""
    if hashlib.sha256(data).hexdigest() != oid:
        raise RefusedError(400, None, "SHA-256 does not match")
    request.hub.objects[oid] = data
    return 200, {}, {"ETag": f'"{oid}"'}


def put_object(request, oid):
    return store(request, oid, request.body)


def put_part(request, oid, part):
    request.hub.parts[oid, int(part)] = request.body
    return 200, {}, {"ETag": f'"{part}"'}


def complete(request, oid):
    numbers = [part["partNumber"] for part in request.json["parts"]]
    return store(request, oid, b"".join(request.hub.parts.pop((oid, number)) for number in numbers))


def verify(request):
    wanted = request.json
    if len(request.hub.objects.get(wanted["oid"], b"")) != wanted["size"]:
        raise RefusedError(404, None, "The object is not there")
    return 200, {}, {}


def commit(request, kind, repo_id, revision):
    repository = request.repository(kind, repo_id)
    is_request = "create_pr" in request.query
    if not is_request:
        request.require_writer(repo_id)
    lines = [json.loads(line) for line in request.body.splitlines()]
    head, header = repository.find(revision), lines[0]["value"]
    if header.get("parentCommit", head.oid) != head.oid:
        raise RefusedError(412, None, f"A commit has happened since {header['parentCommit']}")
    files = dict(head.files)
    for line in lines[1:]:
        apply_change(request.hub, files, line["key"], line["value"])
    if "README.md" in files and check_metadata(files["README.md"].data.decode()):
        raise RefusedError(400, None, "Invalid metadata in README.md")
    branch = revision
    if is_request:
        branch = f"refs/pr/{1 + sum(name.startswith('refs/pr/') for name in repository.branches)}"
        repository.branches[branch] = head.oid
    made = repository.commit(branch, header["summary"], files)
    answer = {"commitUrl": f"{PAGES}/{repo_id}/commit/{made.oid}", "commitOid": made.oid}
    return 200, answer | {"pullRequestUrl": f"{PAGES}/{repo_id}/discussions/1"}, {}


def apply_change(hub, files, key, change):
    """Apply a line of a commit."""
    path = change["path"]
    if key == "file":
        files[path] = File(base64.b64decode(change["content"]), False)
    elif key == "lfsFile":
        if change["oid"] not in hub.objects:
            raise RefusedError(422, None, f"The large file of {path} was not uploaded")
        files[path] = File(hub.objects[change["oid"]], True)
    elif key == "deletedFile":
        if files.pop(path, None) is None:
            raise RefusedError(404, "EntryNotFound", "A file with this name doesn't exist")
    elif key == "deletedFolder":
        for inner in [name for name in files if name.startswith(path.rstrip("/") + "/")]:
            del files[inner]
    else:
        raise RefusedError(400, None, f"unknown operation {key}")


def describe(files, path):
    """What a path names: a file, a folder, or nothing."""
    if path in files:
        return files[path].describe(path)
    if any(name.startswith(f"{path}/") for name in files):
        return {"type": "directory", "path": path, "oid": hashlib.sha1(path.encode()).hexdigest(), "size": 0}
    return None


def tree(request, kind, repo_id, revision, folder=""):
    files = request.repository(kind, repo_id).find(revision).files
    prefix = f"{folder}/" if folder else ""
    inner = [name for name in files if name.startswith(prefix)]
    if not inner:
        raise RefusedError(404, "EntryNotFound", f"{folder} does not exist on {revision!r}")
    paths = {prefix + name.removeprefix(prefix).split("/")[0] for name in inner}
    if request.query.get("recursive", ["false"])[0].lower() == "true":
        folders = {str(parent) for name in inner for parent in PurePosixPath(name).parents} - {".", folder}
        paths = {*inner, *(name for name in folders if name.startswith(prefix))}
    return 200, [describe(files, path) for path in sorted(paths)], {}


def paths_info(request, kind, repo_id, revision):
    files = request.repository(kind, repo_id).find(revision).files
    paths = parse_qs(request.body.decode())["paths"]
    return 200, [entry for entry in (describe(files, path.rstrip("/")) for path in paths) if entry], {}


def resolve(request, prefix, repo_id, revision, path):
    repository = request.repository("dataset" if prefix else "model", repo_id)
    request.require_access(repository)
    found = repository.find(revision)
    commit_header = {"X-Repo-Commit": found.oid}
    if path not in found.files:
        raise RefusedError(404, "EntryNotFound", f"{path} does not exist", **commit_header)
    file = found.files[path]
    headers = commit_header | {"ETag": f'"{file.oid}"', "Accept-Ranges": "bytes"}
    if not file.is_large:
        return 200, file.data, headers
    linked = {"X-Linked-ETag": f'"{file.oid}"', "X-Linked-Size": str(len(file.data))}
    return 302, b"", headers | linked | {"Location": f"{request.hub.cdn}/lfs/{file.oid}"}


def get_object(request, oid):
    if oid not in request.hub.objects:
        raise RefusedError(404, None, "No such object")
    return 200, request.hub.objects[oid], {"ETag": f'"{oid}"', "Accept-Ranges": "bytes"}


ROUTES: list[tuple[str, str, Callable]] = [
    ("GET", "/api/whoami-v2", whoami),
    ("POST", "/api/repos/create", create_repository),
    ("POST", "/api/validate-yaml", validate_yaml),
    ("GET", _REPOSITORY, info),
    ("GET", _REPOSITORY + "/revision/([^/]+)", info),
    ("GET", _REPOSITORY + "/refs", refs),
    ("POST", _REPOSITORY + "/branch/([^/]+)", create_branch),
    ("POST", _REPOSITORY + "/preupload/([^/]+)", preupload),
    ("POST", r"/(datasets/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch", lfs_batch),
    ("PUT", "/lfs/([0-9a-f]+)", put_object),
    ("PUT", "/lfs/([0-9a-f]+)/([0-9]+)", put_part),
    ("POST", "/lfs/([0-9a-f]+)", complete),
    ("POST", "/lfs-verify", verify),
    ("POST", _REPOSITORY + "/commit/([^/]+)", commit),
    ("GET", _REPOSITORY + "/tree/([^/]+)", tree),
    ("GET", _REPOSITORY + "/tree/([^/]+)/(.+)", tree),
    ("POST", _REPOSITORY + "/paths-info/([^/]+)", paths_info),
    ("GET HEAD", "/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", resolve),
    ("GET HEAD", "/lfs/([0-9a-f]+)", get_object),
]
"""Methods, path and what answers."""
