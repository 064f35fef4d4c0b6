"""The argument that names a pod: `pod NS/NAME`, `NS/NAME`, or `pod/NAME` as kubectl prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import click

_POD_WORDS = ("pod", "pods", "po")
_OTHER_KINDS = ("deployment", "replicaset", "statefulset", "daemonset", "job", "cronjob", "node")
_SHORT_NAMES = ("deploy", "rs", "sts", "ds", "cj", "no")
_EXAMPLES = 3


def parse_pod_argument(
    arguments: tuple[str, ...], command: str, default_namespace: Callable[[], str]
) -> list[tuple[str, str]]:
    """Namespace and name of the pods that the arguments may mean; the first one that exists is meant.

    There are two in one case: `pod/web` is pod web in a namespace called pod, if there is one, else in the default
    namespace. Raises UsageError."""
    namespace, _, name = _single_name(arguments, command).rpartition("/")
    if namespace in _POD_WORDS:
        return [(namespace, name), (default_namespace(), name)]
    return [(namespace or default_namespace(), name)]


def pod_not_found_message(
    candidates: Sequence[tuple[str, str]], existing: Iterable[tuple[str, str]], command: str
) -> str:
    """The error for a pod that does not exist, with the names of similar ones."""
    namespace, name = candidates[-1]
    message = f"pod {namespace}/{name} not found"
    if _is_other_kind(namespace):
        message += f"; restow {command} takes one pod, not a {namespace}"
    similar = [
        f"{other_namespace}/{other}"
        for other_namespace, other in sorted(existing)
        if other == name or other.startswith(f"{name}-")
    ]
    more = f" and {len(similar) - _EXAMPLES} more" if len(similar) > _EXAMPLES else ""
    return f"{message}; similar pods: {', '.join(similar[:_EXAMPLES])}{more}" if similar else message


def _single_name(arguments: tuple[str, ...], command: str) -> str:
    """The NS/NAME of `pod NS/NAME`, in which the word may be left out. Raises UsageError."""
    usage = f"name one pod: restow {command} pod NS/NAME"
    if not arguments or not arguments[-1] or arguments[-1].endswith("/"):
        raise click.UsageError(usage)
    match arguments:
        case (name,) if name not in _POD_WORDS:
            return name
        case (word, name) if word in _POD_WORDS:
            return name
        case (word, _) if _is_other_kind(word):
            raise click.UsageError(f"only pods are accepted, not {word!r}; {usage}")
    raise click.UsageError(usage)


def _is_other_kind(word: str) -> bool:
    """Whether a word is another kind that has pods: its name, plural or short name, with or without a group."""
    kind = word.partition(".")[0]
    return kind in _SHORT_NAMES or kind.removesuffix("s") in _OTHER_KINDS
