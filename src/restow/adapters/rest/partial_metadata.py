"""Answers reduced to metadata: `PartialObjectMetadata`, alone, in a list or in a watch event.

Garbage collectors and other clients that only follow names, labels and owners ask for this form.
"""

from __future__ import annotations

from restow.adapters.rest.unchecked_documents import mapping, sequence
from restow.model.objects import Document


def partial_metadata(document: Document, version: str = "v1") -> Document:
    """The metadata of one object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": mapping(document, "metadata"),
    }


def partial_metadata_list(document: Document, version: str = "v1") -> Document:
    """The metadata of every object of a list."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": mapping(document, "metadata"),
        "items": [partial_metadata(item, version) for item in sequence(document, "items")],
    }
