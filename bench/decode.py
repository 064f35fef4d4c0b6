"""Decoding a list of 5,000 pods: our typed objects against the official client and against plain dictionaries."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import click

from bench.measure import measured
from bench.pods import pod_list
from bench.report import Claim, Report, Row
from restow.model.objects import ObjectList, Pod
from restow.model.wire import decode_object

PODS = 5_000


def typed() -> Callable[[], Any]:
    body = pod_list(PODS)
    return lambda: decode_object(ObjectList[Pod], body, "PodList")


def dictionaries() -> Callable[[], Any]:
    body = pod_list(PODS)
    return lambda: json.loads(body)


def official() -> Callable[[], Any]:
    from kubernetes import client  # the peer is installed by `make bench` only

    body = pod_list(PODS).decode()
    api = client.ApiClient()
    return lambda: api.deserialize(body, "V1PodList", "application/json")


def run() -> Report:
    if find_spec("kubernetes") is None:
        raise click.ClickException("the peer to compare with, the package kubernetes, is missing: run `make bench`")
    peers = {
        "restow, typed": measured("bench.decode:typed", runs=3),
        "json.loads, dictionaries": measured("bench.decode:dictionaries", runs=3),
        "kubernetes (official client)": measured("bench.decode:official", runs=3),
    }
    ours = peers["restow, typed"]
    rows = [
        Row(what=what, figures={"cpu_s": cost.cpu, "grown_mb": cost.grown_mb}, ratio=cost.cpu / ours.cpu)
        for what, cost in peers.items()
    ]
    ratio = peers["kubernetes (official client)"].cpu / ours.cpu
    claim = Claim(what="times less CPU than the official client", wanted=30, measured=ratio)
    return Report(name=f"decode a list of {PODS:,} pods", rows=rows, claims=[claim])
