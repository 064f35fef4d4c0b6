"""Serves the embedded API server over HTTP, so that kubectl works against it.

`serve` starts it, `write_kubeconfig` tells kubectl where it is. See `handler` for the paths that are served and
`server` for the clients that are allowed.
"""

from restow.adapters.rest.kubeconfig import write_kubeconfig
from restow.adapters.rest.server import RestServer, serve

__all__ = ["RestServer", "serve", "write_kubeconfig"]
