"""The kubeconfig file with which kubectl finds the embedded server.

In: a path and the server's URL. Out: a file with one cluster, one user without credentials and one context, all named
`restow`. It appears whole or not at all, readable by its owner only.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import yaml

NAME = "restow"


def kubeconfig_document(url: str, *, namespace: str = "default") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": url}}],
        "users": [{"name": NAME, "user": {}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
        "current-context": NAME,
    }


def write_kubeconfig(path: Path, url: str, *, namespace: str = "default") -> Path:
    """Write the file, replacing an older one in one step; the absolute path is returned."""
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yaml.safe_dump(kubeconfig_document(url, namespace=namespace), file, sort_keys=False)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
