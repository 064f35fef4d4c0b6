"""An embedded API server full of pods in a process of its own: `python -m bench.served COUNT` prints its URL.

It ends when its standard input does, that is, with the benchmark that started it.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from bench.pods import pod
from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.adapters.rest.server import serve
from restow.ports import Request, Resource

PODS = Resource("", "v1", "pods")
NAMESPACES = Resource("", "v1", "namespaces")
TEAMS = 40


@contextmanager
def served(count: int) -> Iterator[str]:
    """The URL of a server that holds `count` pods."""
    child = subprocess.Popen(
        [sys.executable, "-m", "bench.served", str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin and child.stdout
    try:
        yield child.stdout.readline().strip()
    finally:
        child.stdin.close()
        child.wait(timeout=30)
        child.stdout.close()


async def fill(api: MemoryApi, count: int) -> None:
    for index in range(TEAMS):
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{index:02d}"}}
        await api.call(Request(verb="create", resource=NAMESPACES, body=msgspec.json.encode(document)))
    for index in range(count):
        await api.call(creation(index))


def creation(index: int) -> Request:
    """The request that creates the index-th pod: without an owner, or the garbage collector would delete it."""
    document = pod(index)
    metadata = document["metadata"]
    for field in ("uid", "resourceVersion", "ownerReferences", "managedFields"):
        metadata.pop(field)
    return Request(
        verb="create",
        resource=PODS,
        namespace=metadata["namespace"],
        query={"fieldManager": "bench"},
        body=msgspec.json.encode(document),
    )


async def main() -> None:
    api = MemoryApi(SystemClock(), random.Random(1))
    await fill(api, int(sys.argv[1]))
    server = await serve(api)
    print(server.url, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.close()


if __name__ == "__main__":
    asyncio.run(main())
