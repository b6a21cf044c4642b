"""No text of an object becomes the name of a file: these modules alone name files at all."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("common", "recommender", "updater", "admission", "certs")
FUNCTIONS = {"open", "Path"}
MODULES = {"shutil", "tempfile"}
ARGUMENTS = {"cafile", "capath"}
METHODS = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "touch", "mkdir", "unlink"),
    *("rename", "rmdir", "symlink_to", "hardlink_to", "fdopen", "makedirs", "joinpath"),
    "load_cert_chain",
}
WHERE_NAMES_COME_FROM = {
    "admission/run.py": "flags",
    "admission/tls.py": "flags",
    "certs/__main__.py": "a flag",
    "certs/store.py": "four constants, in the folder of a flag",
    "common/kube/config.py": "where a pod has its service account",
    "common/kube/kubeconfig.py": "a flag, and the kubeconfig",
    "common/kube/connection.py": "the same",
    "recommender/model/buckets.py": "a constant",
    "recommender/sources/prometheus.py": "a flag",
}


def names_files(path: Path) -> bool:
    """Return whether a module calls anything that takes the name of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in MODULES:
                return True
            case ast.Call(func=ast.Attribute(attr=name)) if name in METHODS:
                return True
            case ast.keyword(arg=str(name)) if name in ARGUMENTS:
                return True
    return False


def test_names_of_files_come_from_flags_and_constants() -> None:
    """A module that comes to the list says where its names come from: never from an object."""
    modules = (path for package in PRODUCT for path in (ROOT / package).rglob("*.py"))
    found = {str(path.relative_to(ROOT)) for path in modules if names_files(path)}
    assert found == WHERE_NAMES_COME_FROM.keys()
