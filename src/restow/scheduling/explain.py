"""Why a pod has no node, in one counted sentence; the same one in condition, event, CLI and dashboard.

    0/12 nodes are available: 3 Insufficient cpu, 9 node(s) had untolerated taint {dedicated: gpu}.

The form is kube-scheduler's, so that people and autoscalers read it as usual: every node counts for the first plugin
that refused it, with each of that plugin's reasons; reasons are sorted as text. Plugins may say anything: whatever it
is can be written, and is not without end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from restow.scheduling.framework import Plugin, Refusal

NO_NODES = "no nodes available to schedule pods"
LONGEST = 32_768
"""Characters: what the API machinery allows the message of a condition."""


def count_reasons(refused: Mapping[str, Sequence[Refusal]]) -> Counter[str]:
    """How many nodes each reason stands for."""
    counts: Counter[str] = Counter()
    for refusals in refused.values():
        for refusal in refusals:
            counts[refusal.reason] += int(refusal.rows.sum())
    return +counts


def with_unexplained_rows(plugin: Plugin, refusals: Sequence[Refusal], rows: int) -> list[Refusal]:
    """The refusals of a plugin, and one more for the rows of which it does not say why."""
    told = np.zeros(rows, np.bool_)
    for one in refusals:
        told |= one.rows
    if told.all():
        return [*refusals]
    return [*refusals, Refusal(unexplained_refusal(plugin.name), ~told)]


def unexplained_refusal(*plugins: str) -> str:
    """What is told of plugins that refuse nodes and do not say why."""
    return f"node(s) that {', '.join(plugins)} refuses without a reason"


def fit_error_message(nodes: int, reasons: Mapping[str, int], *, before: str = "", after: str = "") -> str:
    """The sentence: `before` is what stopped it before any node was asked, `after` what was tried afterwards."""
    why = before or reason_histogram(reasons)
    if not nodes and not why:
        why = NO_NODES
    text = f"0/{nodes} nodes are available:" + (f" {why}." if why else "")
    return _writable(f"{text} {after}" if after else text)


def reason_histogram(reasons: Mapping[str, int]) -> str:
    """Each reason with its count, sorted as text."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))


def join_reasons(reasons: Iterable[str]) -> str:
    """Several reasons of one verdict."""
    return _writable(", ".join(map(str, reasons)))


def describe_plugin_failure(error: Exception) -> str:
    """What people are told of an exception, and which plugin was at work."""
    plugin = failing_plugin(error)
    return f"{plugin}: {describe_exception(error)}" if plugin else describe_exception(error)


def describe_exception(error: Exception) -> str:
    """What an exception says."""
    return _writable(f"{type(error).__name__}: {error}")


def failing_plugin(error: Exception) -> str:
    """The plugin that was at work when something broke, or had just answered; empty if none was."""
    name, place = "", error.__traceback__
    while place is not None:
        here = place.tb_frame.f_locals
        name = next((one.name for one in (here.get("self"), here.get("plugin")) if isinstance(one, Plugin)), name)
        place = place.tb_next
    return name


def _writable(text: str) -> str:
    """What can be sent to an API server: text that is neither half a character nor without end."""
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
