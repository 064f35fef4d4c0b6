"""The embedded API server: real Kubernetes semantics in this process, with nothing to set up."""

from restow.adapters.memory.resources import ResourceType, Subresource
from restow.adapters.memory.server import MemoryApi

__all__ = ["MemoryApi", "ResourceType", "Subresource"]
