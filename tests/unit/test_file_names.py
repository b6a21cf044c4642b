"""No text of an object becomes a file name: only these modules use file names."""

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
ORIGINS = {
    "admission/run.py": "flags",
    "admission/tls.py": "flags",
    "certs/__main__.py": "a flag",
    "certs/certificate_stores.py": "four constants, in the folder of a flag",
    "common/kube/config.py": "the folder of a pod's service account",
    "common/kube/kubeconfig.py": "a flag or an environment variable, and the kubeconfig",
    "common/kube/connection.py": "a flag or an environment variable, and the kubeconfig",
    "recommender/model/buckets.py": "a constant",
    "recommender/sources/prometheus.py": "a flag",
}


def uses_file_names(path: Path) -> bool:
    """Return True if a module calls a function that takes a file name."""
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


def test_file_names_come_from_flags_and_constants() -> None:
    """Each module in the list states the origin of its file names, which is never an object."""
    modules = (path for package in PRODUCT for path in (ROOT / package).rglob("*.py"))
    found = {str(path.relative_to(ROOT)) for path in modules if uses_file_names(path)}
    assert found == ORIGINS.keys()
