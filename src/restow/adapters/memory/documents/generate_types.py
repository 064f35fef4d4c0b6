"""Writes `types.json`, the one table of what fields the built-in kinds have and how their lists merge.

In: the directories of the Go modules k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver; upstream
states these facts in their struct declarations. Out: one JSON document, one type per line. A field reads like its Go
declaration: `"[]core.v1.Container,omitempty list=map keys=name patch=merge key=name"`. A leading `*` is a pointer.

    python -m restow.adapters.memory.documents.generate_types <api> <apimachinery> <apiextensions-apiserver>
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Package in the sources -> the API group it declares.
GROUPS = {
    "core.v1": "",
    "apps.v1": "apps",
    "batch.v1": "batch",
    "policy.v1": "policy",
    "coordination.v1": "coordination.k8s.io",
    "events.v1": "events.k8s.io",
    "scheduling.v1": "scheduling.k8s.io",
    "storage.v1": "storage.k8s.io",
    "apiextensions.v1": "apiextensions.k8s.io",
    "rbac.v1": "rbac.authorization.k8s.io",
    "admissionregistration.v1": "admissionregistration.k8s.io",
    "autoscaling.v1": "autoscaling",
    "autoscaling.v2": "autoscaling",
    "discovery.v1": "discovery.k8s.io",
    "networking.v1": "networking.k8s.io",
    "node.v1": "node.k8s.io",
    "authorization.v1": "authorization.k8s.io",
    "authentication.v1": "authentication.k8s.io",
}
# Go types with a JSON form of their own.
LEAVES = {
    "string": "string",
    "bool": "bool",
    "int": "int",
    "int32": "int32",
    "int64": "int",
    "uint64": "int",
    "float32": "number",
    "float64": "number",
    "[]byte": "bytes",
    "metav1.Time": "time",
    "metav1.MicroTime": "microtime",
    "metav1.Duration": "string",
    "metav1.FieldsV1": "any",
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "intorstring",
    "types.UID": "string",
    "types.NodeName": "string",
    "runtime.RawExtension": "any",
    "runtime.Object": "any",
    "apiextensions.v1.JSON": "any",
    "apiextensions.v1.JSONSchemaProps": "any",
    "meta.v1.Time": "time",
    "meta.v1.MicroTime": "microtime",
    "meta.v1.Duration": "string",
    "meta.v1.FieldsV1": "any",
}
ALIASES = {
    "v1": "core.v1",
    "corev1": "core.v1",
    "apiv1": "core.v1",
    "metav1": "meta.v1",
    "apiextensionsv1": "apiextensions.v1",
}

_DECLARATION = re.compile(r"^type (\w+) (=? ?[^{]*?)\s*(struct\s*\{\}?)?$")
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([\w.*\[\]]+)\s+`([^`]*)`")
_TAG = re.compile(r'(\w+):"([^"]*)"')
_MARKER = re.compile(r"^\t// \+(listType|listMapKey|structType|mapType|patchStrategy|patchMergeKey|default)=(\S+)$")


class GoPackage:
    """The declarations of one Go package: structs as lists of fields, everything else as an alias."""

    def __init__(self, name: str, sources: list[Path]) -> None:
        self.name = name
        self.structs: dict[str, list[tuple[str, str, dict[str, list[str]]]]] = {}
        self.aliases: dict[str, str] = {}
        self.atomic: set[str] = set()
        for source in sources:
            self._read(source.read_text().splitlines())

    def _read(self, lines: list[str]) -> None:
        current: list[tuple[str, str, dict[str, list[str]]]] | None = None
        markers: dict[str, list[str]] = {}
        atomic = False
        for line in lines:
            if line.startswith("type "):
                current = self._declare(line)
                if atomic and current is not None:
                    self.atomic.add(line.split()[1])
                atomic = False
            elif line in {"// +structType=atomic", "// +mapType=atomic"}:
                atomic = True
            elif line == "}":
                current = None
            elif current is None:
                continue
            elif marker := _MARKER.match(line):
                markers.setdefault(marker[1], []).append(marker[2])
            elif field := _FIELD.match(line):
                tags = {key: [value] for key, value in _TAG.findall(field[3])}
                current.append((field[1] or "", field[2], {**markers, **tags}))
                markers = {}

    def _declare(self, line: str) -> list[tuple[str, str, dict[str, list[str]]]] | None:
        declared = _DECLARATION.match(line)
        if declared is None:
            return None
        if declared[3]:
            return self.structs.setdefault(declared[1], [])
        self.aliases[declared[1]] = declared[2].removeprefix("= ")
        return None


class TypeTable:
    """Resolves names across packages and writes only what the served kinds reach."""

    def __init__(self, packages: dict[str, GoPackage]) -> None:
        self.packages = packages
        self.types: dict[str, dict[str, str]] = {}

    def resolve(self, package: str, go: str) -> str:
        """The written form of a Go type: a leaf, `[]item`, `{}value` or the name of a struct of the table."""
        if go in LEAVES:
            return LEAVES[go]
        if go.startswith("*"):
            return "*" + self.resolve(package, go[1:]).removeprefix("*")
        if go.startswith("[]"):
            return "[]" + self.resolve(package, go[2:]).removeprefix("*")
        if go.startswith("map["):
            return "{}" + self.resolve(package, go[go.index("]") + 1 :]).removeprefix("*")
        home, _, name = f"{package}.{go}".rpartition(".") if "." not in go else go.rpartition(".")
        home = ALIASES.get(home, home)
        full = f"{home}.{name}"
        if full in LEAVES:
            return LEAVES[full]
        owner = self.packages[home]
        if name in owner.aliases:
            return self.resolve(home, owner.aliases[name])
        self.struct(full)
        return full

    def struct(self, full: str) -> None:
        if full not in self.types:
            self.types[full] = {}
            self.types[full] = dict(self._fields(full))

    def _fields(self, full: str) -> Iterator[tuple[str, str]]:
        home, _, name = full.rpartition(".")
        for field, go, marks in self.packages[home].structs[name]:
            json_name, *options = marks.get("json", [""])[0].split(",")
            if json_name == "-":
                continue
            if not json_name and not field:
                yield from self.types_of(home, go)
                continue
            written = self.resolve(home, go) + (",omitempty" if "omitempty" in options else "")
            if "omitzero" in options and ",omitempty" in written:
                written = written.replace(",omitempty", ",omitzero")
            yield json_name, " ".join([written, *self._merge(written, marks)])

    def types_of(self, home: str, go: str) -> Iterator[tuple[str, str]]:
        full = self.resolve(home, go.removeprefix("*"))
        yield from self.types[full].items()

    def _merge(self, written: str, marks: dict[str, list[str]]) -> Iterator[str]:
        if "listType" in marks:
            yield "list=" + marks["listType"][0]
        if "listMapKey" in marks:
            yield "keys=" + ",".join(marks["listMapKey"])
        home, _, name = written.partition(",")[0].removeprefix("*").rpartition(".")
        declared = home in self.packages and name in self.packages[home].atomic
        if declared or "atomic" in (marks.get("structType", [""])[0], marks.get("mapType", [""])[0]):
            yield "atomic"
        if "default" in marks and marks["default"][0][0] in '"tf0123456789':
            yield "default=" + marks["default"][0]
        if "patchStrategy" in marks:
            yield "patch=" + marks["patchStrategy"][0]
        if "patchMergeKey" in marks:
            yield "key=" + marks["patchMergeKey"][0]


def read_packages(api: Path, machinery: Path, extensions: Path) -> dict[str, GoPackage]:
    packages = {
        name: GoPackage(name, sorted((api / name.replace(".", "/")).glob("types*.go")))
        for name in GROUPS
        if name != "apiextensions.v1"
    }
    packages["meta.v1"] = GoPackage("meta.v1", [machinery / "pkg/apis/meta/v1/types.go"])
    home = extensions / "pkg/apis/apiextensions/v1"
    packages["apiextensions.v1"] = GoPackage("apiextensions.v1", [home / "types.go", home / "types_jsonschema.go"])
    return packages


def kinds(packages: dict[str, GoPackage]) -> Iterator[tuple[str, str]]:
    """Every struct that carries TypeMeta and ObjectMeta, and the few reviews and scales that do too, as group/Kind."""
    for package, group in GROUPS.items():
        for name, fields in packages[package].structs.items():
            embedded = {go for field, go, _ in fields if not field}
            if "metav1.TypeMeta" in embedded and not name.endswith("List") and not name.endswith("Options"):
                yield f"{group}/{name}", f"{package}.{name}"


def main(arguments: list[str]) -> None:
    packages = read_packages(*(Path(argument) for argument in arguments))
    table = TypeTable(packages)
    served = dict(sorted(kinds(packages)))
    for full in served.values():
        table.struct(full)
    rows = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(table.types.items())]
    text = '{"kinds": ' + json.dumps(served) + ',\n"types": {\n' + ",\n".join(rows) + "\n}}\n"
    Path(__file__).with_name("types.json").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
