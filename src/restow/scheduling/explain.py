"""Why a pod has no node, in one counted sentence; the same one in condition, event, CLI and dashboard.

    0/12 nodes are available: 3 Insufficient cpu, 9 node(s) had untolerated taint {dedicated: gpu}.

The form is kube-scheduler's, so that people and autoscalers read it as usual: every node counts for the first plugin
that refused it, with each of that plugin's reasons; reasons are sorted as text. Whatever text a plugin returns is made
valid UTF-8 and cut to the length that a condition may have.
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
    """The refusals of a plugin, and one more for the rows that it refuses without a reason."""
    explained = np.zeros(rows, np.bool_)
    for refusal in refusals:
        explained |= refusal.rows
    if explained.all():
        return [*refusals]
    return [*refusals, Refusal(unexplained_refusal(plugin.name), ~explained)]


def unexplained_refusal(*plugins: str) -> str:
    """The reason shown for plugins that refuse nodes without one."""
    return f"node(s) that {', '.join(plugins)} refuses without a reason"


def fit_error_message(nodes: int, reasons: Mapping[str, int], *, before: str = "", after: str = "") -> str:
    """The sentence. `before` is the refusal of a PreFilter, instead of counts; `after` is what PostFilter says."""
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
    """The message for an exception, with the plugin that raised it."""
    plugin = failing_plugin(error)
    return f"{plugin}: {describe_exception(error)}" if plugin else describe_exception(error)


def describe_exception(error: Exception) -> str:
    """The type and text of an exception."""
    return _writable(f"{type(error).__name__}: {error}")


def failing_plugin(error: Exception) -> str:
    """The plugin that raised an exception, or whose answer did; empty if none.

    The innermost frame counts that has a plugin as `self` or `plugin`: the engine names its loop variables so."""
    name, trace = "", error.__traceback__
    while trace is not None:
        names = trace.tb_frame.f_locals
        name = next(
            (candidate.name for candidate in (names.get("self"), names.get("plugin")) if isinstance(candidate, Plugin)),
            name,
        )
        trace = trace.tb_next
    return name


def _writable(text: str) -> str:
    """Text that can be sent to an API server: valid UTF-8, not too long."""
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
