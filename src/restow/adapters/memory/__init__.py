"""The embedded API server: real Kubernetes semantics in this process, with nothing to set up."""

from restow.adapters.memory.resources import ResourceType, Subresource
from restow.adapters.memory.server import MemoryApi
from restow.adapters.memory.settings import ServerSettings

__all__ = ["MemoryApi", "ResourceType", "ServerSettings", "Subresource"]
