"""Reads Kubernetes' own sources and writes the protobuf field tables that `restow.adapters.rest` ships.

In: a Go module cache holding k8s.io/api and k8s.io/apimachinery. Out: the text of `fields.txt`. Numbers and types come
from generated.proto; whether a zero value is meaningful, and whether a message is inlined in JSON, from types.go.

    python -m tests.rest.proto_fields "$(go env GOMODCACHE)" v0.36.3 > src/restow/adapters/rest/fields.txt
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

API_GROUPS = (
    "core/v1",
    "apps/v1",
    "authentication/v1",
    "authorization/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "certificates/v1",
    "coordination/v1",
    "discovery/v1",
    "events/v1",
    "networking/v1",
    "node/v1",
    "policy/v1",
    "rbac/v1",
    "scheduling/v1",
    "storage/v1",
)
MACHINERY = ("apis/meta/v1", "runtime")

HEADER = """\
# Protobuf fields of the Kubernetes kinds that may arrive as application/vnd.kubernetes.protobuf.
# A line without indent names a message, the indented lines under it its fields: number, JSON name, type.
#   name!     the JSON form keeps a zero value (a pointer in Go, or a field without omitempty)
#   name...   the JSON form has the fields of this message in place of the field
#   []T {}T   a list of T, a map from string to T
# Written by tests/rest/proto_fields.py from Kubernetes VERSION.
"""

MESSAGE = re.compile(r"^message (\w+) \{$")
FIELD = re.compile(r"^  (optional|repeated|required|map<string, ?([\w.]+)>) ?(?:([\w.]+) )?(\w+) = (\d+);")
GO_STRUCT = re.compile(r"^type (\w+) struct \{$")
GO_FIELD = re.compile(
    r'^\t(?:\w+ +)?([*\[\]\w.]+)\s+`json:"([^"]*)" protobuf:"\w+,(\d+),\w+(?:,(?:name|casttype)=\w+)*'
)


def short(package: str, name: str) -> str:
    """k8s.io.api.core.v1.Pod as core.v1.Pod, k8s.io.apimachinery.pkg.apis.meta.v1.Time as meta.v1.Time."""
    if name in {"string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double"}:
        return name
    full = name.lstrip(".") if "." in name else f"{package}.{name}"
    return re.sub(r"^k8s\.io\.(api|apimachinery\.pkg\.apis|apimachinery\.pkg\.api|apimachinery\.pkg)\.", "", full)


def go_marks(source: str) -> dict[tuple[str, int], str]:
    """For each (struct, field number): "!" where zero is meaningful, "..." where the field is inlined in JSON."""
    marks: dict[tuple[str, int], str] = {}
    struct = ""
    for line in source.splitlines():
        if found := GO_STRUCT.match(line):
            struct = found[1]
        elif found := GO_FIELD.match(line):
            go_type, json_tag, number = found[1], found[2], int(found[3])
            if "inline" in json_tag:
                marks[struct, number] = "..."
            elif go_type.startswith("*") or "omit" not in json_tag:
                marks[struct, number] = "!"
    return marks


def messages(folder: Path) -> Iterator[tuple[str, list[str]]]:
    text = (folder / "generated.proto").read_text()
    package = re.search(r"^package (.*);$", text, re.M)[1]  # type: ignore[index]
    marks = go_marks("\n".join(path.read_text() for path in sorted(folder.glob("*.go"))))
    name, fields = "", list[str]()
    for line in text.splitlines():
        if found := MESSAGE.match(line):
            name, fields = found[1], []
        elif found := FIELD.match(line):
            label, map_value, type_name, field, number = found.groups()
            prefix = {"repeated": "[]", "optional": "", "required": ""}.get(label, "{}")
            kind = prefix + short(package, map_value or type_name)
            fields.append(f"  {number} {field}{marks.get((name, int(number)), '')} {kind}")
        elif line == "}" and name:
            yield short(package, name), fields
            name = ""


def table(module_cache: Path, version: str) -> str:
    """The whole of fields.txt."""
    api = module_cache / "k8s.io" / f"api@{version}"
    machinery = module_cache / "k8s.io" / f"apimachinery@{version}" / "pkg"
    folders = [api / group for group in API_GROUPS] + [machinery / part for part in MACHINERY]
    fields = dict(pair for folder in folders for pair in messages(folder))
    lines = [line for name in sorted(fields) for line in (name, *fields[name])]
    return HEADER.replace("VERSION", version.replace("v0.", "1.")) + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table(Path(sys.argv[1]), sys.argv[2]))
