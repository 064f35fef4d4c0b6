"""VolumeAttachments by node, and the nodes that a volume is attached to."""

from __future__ import annotations

from collections.abc import Collection

from restow.model.objects import VolumeAttachment


class AttachmentIndex:
    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, VolumeAttachment]] = {}
        self._nodes_of: dict[str, set[str]] = {}

    def on(self, node: str) -> Collection[VolumeAttachment]:
        """The attachments to a node."""
        return self._by_node.get(node, {}).values()

    def nodes_of(self, volume: str) -> Collection[str]:
        """The nodes that a volume is attached to."""
        return self._nodes_of.get(volume, ())

    def add(self, attachment: VolumeAttachment) -> None:
        node, volume = attachment.spec.node_name, attachment.spec.source.persistent_volume_name
        self._by_node.setdefault(node, {})[attachment.metadata.name] = attachment
        if volume:
            self._nodes_of.setdefault(volume, set()).add(node)

    def remove(self, attachment: VolumeAttachment) -> None:
        """The inverse of `add`. A volume stays attached to a node while another attachment says so."""
        node, volume = attachment.spec.node_name, attachment.spec.source.persistent_volume_name
        others = self._by_node[node]
        del others[attachment.metadata.name]
        if volume and not any(other.spec.source.persistent_volume_name == volume for other in others.values()):
            self._nodes_of[volume].discard(node)
            if not self._nodes_of[volume]:
                del self._nodes_of[volume]
        if not others:
            del self._by_node[node]
