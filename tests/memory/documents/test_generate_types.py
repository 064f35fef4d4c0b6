"""Reading Go declarations into the type table."""

from __future__ import annotations

from pathlib import Path

from restow.adapters.memory.documents.generate_types import GoPackage, TypeTable

META = """
type TypeMeta struct {
	Kind string `json:"kind,omitempty" protobuf:"bytes,1"`
}
// +structType=atomic
type Selector struct {
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}
type Time struct {
	time.Time `protobuf:"-"`
}
"""
CORE = """
// A Pod is documented here, with a +listType=map in prose.
type Pod struct {
	metav1.TypeMeta `json:",inline"`
	Spec PodSpec `json:"spec,omitempty" protobuf:"bytes,2"`
	hidden string
}
type PodSpec struct {
	// +listType=map
	// +listMapKey=name
	// +listMapKey=protocol
	Ports []Port `json:"ports,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	Policy *Policy `json:"policy"`
	Amounts ResourceList `json:"amounts,omitempty"`
	Secret string `json:"-"`
	Since metav1.Time `json:"since,omitempty,omitzero"`
	Selector *metav1.Selector `json:"selector,omitempty"`
	Count int32 `json:"count"`
}
type Policy string
type ResourceList map[ResourceName]resource.Quantity
type Port struct {
	Name string `json:"name"`
	// +default="TCP"
	Protocol Policy `json:"protocol,omitempty"`
}
"""


def table(tmp_path: Path) -> TypeTable:
    packages = {}
    for name, text in (("meta.v1", META), ("core.v1", CORE)):
        source = tmp_path / f"{name}.go"
        source.write_text(text)
        packages[name] = GoPackage(name, [source])
    return TypeTable(packages)


def test_structs_become_rows_of_the_table(tmp_path: Path) -> None:
    types = table(tmp_path)
    types.struct("core.v1.Pod")
    assert types.types["core.v1.Pod"] == {"kind": "string,omitempty", "spec": "core.v1.PodSpec,omitempty"}
    assert types.types["core.v1.PodSpec"] == {
        "ports": "[]core.v1.Port,omitempty list=map keys=name,protocol patch=merge key=name",
        "policy": "*string",
        "amounts": "{}quantity,omitempty",
        "since": "time,omitzero",
        "selector": "*meta.v1.Selector,omitempty atomic",
        "count": "int32",
    }
    assert types.types["core.v1.Port"] == {"name": "string", "protocol": 'string,omitempty default="TCP"'}
