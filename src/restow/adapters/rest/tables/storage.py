"""Rows of volumes, claims and the storage kinds."""

from __future__ import annotations

from restow.adapters.rest.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Cells,
    age_of,
    boolean_column,
    integer_column,
    make_printer,
    name_of,
    wide_column,
)
from restow.adapters.rest.unchecked_documents import at, flag, mapping, sequence, strings, text
from restow.model.objects import Document
from restow.model.volumes import CLASS_ANNOTATION, DEFAULT_CLASS

MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
DEFAULT_CLASS_ANNOTATIONS = (DEFAULT_CLASS, "storageclass.beta.kubernetes.io/is-default-class")


def _modes(values: list[str]) -> str:
    return ",".join(short for mode, short in MODES.items() if mode in values)


def _phase(item: Document) -> str:
    return "Terminating" if text(item, "metadata", "deletionTimestamp") else text(item, "status", "phase")


def _class(item: Document) -> str:
    annotation = text(item, "metadata", "annotations", CLASS_ANNOTATION)
    return annotation or text(item, "spec", "storageClassName")


def _volume(item: Document, now: float) -> Cells:
    claim = mapping(item, "spec", "claimRef")
    return [
        name_of(item),
        text(item, "spec", "capacity", "storage") or "0",
        _modes(strings(item, "spec", "accessModes")),
        text(item, "spec", "persistentVolumeReclaimPolicy"),
        _phase(item),
        f"{text(claim, 'namespace')}/{text(claim, 'name')}" if claim else "",
        _class(item),
        text(item, "spec", "volumeAttributesClassName") or UNSET,
        text(item, "status", "reason"),
        age_of(item, now),
        text(item, "spec", "volumeMode") or UNSET,
    ]


def _claim(item: Document, now: float) -> Cells:
    volume = text(item, "spec", "volumeName")
    return [
        name_of(item),
        _phase(item),
        volume,
        text(item, "status", "capacity", "storage") or "0" if volume else "",
        _modes(strings(item, "status", "accessModes")) if volume else "",
        _class(item),
        text(item, "spec", "volumeAttributesClassName") or UNSET,
        age_of(item, now),
        text(item, "spec", "volumeMode") or UNSET,
    ]


def _storage_class(item: Document, now: float) -> Cells:
    annotations = mapping(item, "metadata", "annotations")
    is_default = any(annotations.get(key) == "true" for key in DEFAULT_CLASS_ANNOTATIONS)
    return [
        f"{name_of(item)} (default)" if is_default else name_of(item),
        text(item, "provisioner"),
        text(item, "reclaimPolicy") or "Delete",
        text(item, "volumeBindingMode") or "Immediate",
        flag(item, "allowVolumeExpansion"),
        age_of(item, now),
    ]


def _csi_node(item: Document, now: float) -> Cells:
    return [name_of(item), len(sequence(item, "spec", "drivers")), age_of(item, now)]


def _csi_driver(item: Document, now: float) -> Cells:
    audiences = ",".join(text(each, "audience") for each in sequence(item, "spec", "tokenRequests"))
    return [
        name_of(item),
        at(item, "spec", "attachRequired") is not False,
        flag(item, "spec", "podInfoOnMount"),
        flag(item, "spec", "storageCapacity"),
        audiences or UNSET,
        flag(item, "spec", "requiresRepublish"),
        ",".join(strings(item, "spec", "volumeLifecycleModes")) or NONE,
        age_of(item, now),
    ]


def _csi_capacity(item: Document, now: float) -> Cells:
    return [name_of(item), text(item, "storageClassName"), text(item, "capacity")]


def _attachment(item: Document, now: float) -> Cells:
    volume = text(item, "spec", "source", "persistentVolumeName")
    cells = [name_of(item), text(item, "spec", "attacher"), volume, text(item, "spec", "nodeName")]
    return [*cells, flag(item, "status", "attached"), age_of(item, now)]


PRINTERS = {
    ("", "PersistentVolume"): make_printer(
        _volume,
        *(NAME, "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass"),
        *("VolumeAttributesClass", "Reason", AGE, wide_column("VolumeMode")),
    ),
    ("", "PersistentVolumeClaim"): make_printer(
        _claim,
        *(NAME, "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", AGE),
        wide_column("VolumeMode"),
    ),
    ("storage.k8s.io", "StorageClass"): make_printer(
        _storage_class,
        *(NAME, "Provisioner", "ReclaimPolicy", "VolumeBindingMode", boolean_column("AllowVolumeExpansion"), AGE),
    ),
    ("storage.k8s.io", "CSINode"): make_printer(_csi_node, NAME, integer_column("Drivers"), AGE),
    ("storage.k8s.io", "CSIDriver"): make_printer(
        _csi_driver,
        *(
            NAME,
            boolean_column("AttachRequired"),
            boolean_column("PodInfoOnMount"),
            boolean_column("StorageCapacity"),
            "TokenRequests",
        ),
        *(boolean_column("RequiresRepublish"), "Modes", AGE),
    ),
    ("storage.k8s.io", "CSIStorageCapacity"): make_printer(_csi_capacity, NAME, "StorageClassName", "Capacity"),
    ("storage.k8s.io", "VolumeAttachment"): make_printer(
        _attachment, NAME, "Attacher", "PV", "Node", boolean_column("Attached"), AGE
    ),
}
