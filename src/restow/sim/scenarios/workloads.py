"""What runs in a scenario: workloads drawn from a seed, with requests that add up to the utilisation asked for.

Sizes are log-normal (many small pods, a few large ones) and rounded to numbers people write; memory follows cpu by
one of three ratios. Some workloads are pinned, spread, kept apart, budgeted, prioritised or have volumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np

from restow.sim.scenarios.scenario_nodes import Gi, Ints

WorkloadKind = Literal["Deployment", "ReplicaSet", "StatefulSet", "Job"]

PRIORITIES = {"batch-low": -10, "service": 1000, "frontline": 100_000}
_CORES = np.array([20, 50, 100, 200, 250, 500, 750, 1000, 1500, 2000, 3000, 4000, 6000, 8000, 12000, 16000, 24000])
_MEMORY_PER_CORE = (2, 4, 8)  # GiB
_NAMES = ("api", "auth", "billing", "cache", "catalog", "chat", "crawler", "feed", "gateway", "index", "ledger", "mail")
_TRAITS = ("blue", "core", "edge", "fast", "green", "main", "next", "prime", "quiet", "safe", "swift", "west")


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One workload: `request` is [cpu milli, memory bytes, 1 pod, gpus]; `replicas` is what is wished for."""

    kind: WorkloadKind
    namespace: str
    name: str
    replicas: int
    request: Ints
    pool: str | None = None
    ssd: bool = False
    zones: tuple[int, ...] = ()
    apart: bool = False
    spread: bool = False
    volumes: bool = False
    budget: Literal["maxUnavailable", "minAvailable", "half"] | None = None
    priority: str | None = None
    eviction_cost: int | None = None
    quality: Literal["LS", "BE"] | None = None


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the workloads have which trait, as shares between 0 and 1."""

    pinned: float
    apart: float
    spread: float
    budgets: float
    gpu: float
    batch: float


def draw_requests(mean_cores: float, sizes: list[int], rng: np.random.Generator) -> list[Ints]:
    """One request per workload of these sizes; over all pods, cpu averages about `mean_cores` milli-cores."""
    size = len(sizes)
    drawn = rng.lognormal(0.0, 0.9, size=size)
    drawn *= max(mean_cores, 20.0) * sum(sizes) / max(float(drawn @ np.array(sizes)), 1e-9)
    cores = _CORES[np.abs(np.log(_CORES)[None, :] - np.log(drawn)[:, None]).argmin(axis=1)]
    ratios = rng.choice(_MEMORY_PER_CORE, size=size, p=(0.3, 0.5, 0.2))
    quantum = 64 * Gi // 1024
    memory = np.maximum(cores * ratios * Gi // 1000 // quantum, 1) * quantum
    return [np.array([cpu, mem, 1, 0], dtype=np.int64) for cpu, mem in zip(cores, memory, strict=True)]


def draw_workloads(
    pods: int, mean_cores: float, namespaces: int, zones: int, mix: Mix, rng: np.random.Generator
) -> Iterator[Workload]:
    """Workloads that wish for `pods` pods together."""
    sizes = _sizes(pods, rng)
    for index, (replicas, request) in enumerate(zip(sizes, draw_requests(mean_cores, sizes, rng), strict=True)):
        yield _workload(index, replicas, request, namespaces, zones, mix, rng)


def gpu_request(gpus: int) -> Ints:
    return np.array([gpus * 4000, gpus * 16 * Gi, 1, gpus], dtype=np.int64)


def _sizes(pods: int, rng: np.random.Generator) -> list[int]:
    """Replica counts: most workloads are small, a few large; they add up to `pods`."""
    sizes: list[int] = []
    left = pods
    largest = max(2, min(200, pods // 8))
    while left > 0:
        size = min(left, largest, 1 + int(rng.pareto(1.1) * 2))
        sizes.append(size)
        left -= size
    return sizes


def _workload(
    index: int, replicas: int, request: Ints, namespaces: int, zones: int, mix: Mix, rng: np.random.Generator
) -> Workload:
    kinds: tuple[WorkloadKind, ...] = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
    kind = kinds[int(rng.choice(4, p=(0.6, 0.1, 0.15, 0.15)))]
    trait = rng.random(8)
    pool = "gpu" if trait[0] < mix.gpu else "batch" if trait[0] < mix.gpu + mix.batch else None
    request = gpu_request(int(rng.choice((1, 2, 4), p=(0.6, 0.25, 0.15)))) if pool == "gpu" else request
    pinned = pool is None and trait[1] < mix.pinned
    budget: Literal["maxUnavailable", "minAvailable", "half"] | None = None
    if kind != "Job" and replicas > 1 and trait[2] < mix.budgets:
        budget = ("maxUnavailable", "minAvailable", "half")[index % 3]
    return Workload(
        kind=kind,
        namespace=f"team-{int(rng.integers(max(namespaces, 1))):02d}",
        name=f"{_NAMES[index % len(_NAMES)]}-{_TRAITS[index // len(_NAMES) % len(_TRAITS)]}-{index}",
        replicas=replicas,
        request=request,
        pool=pool,
        ssd=pinned and index % 2 == 0,
        zones=tuple(sorted(rng.permutation(zones)[:2].tolist())) if pinned and index % 2 and zones > 2 else (),
        apart=replicas > 1 and trait[3] < mix.apart,
        spread=replicas > 1 and mix.apart <= trait[3] < mix.apart + mix.spread,
        volumes=kind == "StatefulSet" and trait[4] < 0.5,
        budget=budget,
        priority="batch-low"
        if kind == "Job"
        else ("service" if trait[5] < 0.6 else "frontline" if trait[5] < 0.7 else None),
        eviction_cost=int(rng.integers(-100, 100)) if trait[6] < 0.1 else None,
        quality="BE" if kind == "Job" and trait[7] < 0.5 else "LS" if trait[7] < 0.2 else None,
    )
