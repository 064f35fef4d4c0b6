"""How people name a pod on the command line: `pod NS/NAME`, `NS/NAME`, or `pod/NAME` as kubectl prints it. And what
they are told if there is none of that name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import click

_POD_WORDS = ("pod", "pods", "po")
_OTHER_KINDS = ("deployment", "replicaset", "statefulset", "daemonset", "job", "cronjob", "node")
_SHORT = ("deploy", "rs", "sts", "ds", "cj", "no")
_EXAMPLES = 3


def pods_named(named: tuple[str, ...], command: str, here: Callable[[], str]) -> list[tuple[str, str]]:
    """Namespace and name of the pods that may be meant; the first of them that there is, is. Where no namespace is
    written it is that of the context, `here`, and so it is in pod/NAME, unless a namespace is called so."""
    namespace, _, name = _written(named, command).rpartition("/")
    if namespace in _POD_WORDS:
        return [(namespace, name), (here(), name)]
    return [(namespace or here(), name)]


def no_such_pod(meant: Sequence[tuple[str, str]], known: Iterable[tuple[str, str]], command: str) -> str:
    """What people are told who named a pod that is not among those that are known: which ones are called alike."""
    namespace, short = meant[-1]
    told = f"there is no pod {namespace}/{short}"
    if _is_other_kind(namespace):
        told += f"; restow {command} takes one pod, not a {namespace}"
    alike = [f"{where}/{one}" for where, one in sorted(known) if one == short or one.startswith(f"{short}-")]
    more = f" and {len(alike) - _EXAMPLES} more" if len(alike) > _EXAMPLES else ""
    return f"{told}; there is {', '.join(alike[:_EXAMPLES])}{more}" if alike else told


def _written(named: tuple[str, ...], command: str) -> str:
    """The NS/NAME of `pod NS/NAME`; the word may be left out."""
    advice = f"name a pod: restow {command} pod NS/NAME"
    if not named or not named[-1] or named[-1].endswith("/"):
        raise click.UsageError(advice)
    match named:
        case (name,) if name not in _POD_WORDS:
            return name
        case (word, name) if word in _POD_WORDS:
            return name
        case (word, _) if _is_other_kind(word):
            raise click.UsageError(f"only pods can be named here, not {word!r}; {advice}")
        case (_, _, *_):
            raise click.UsageError(f"name one pod: restow {command} pod NS/NAME")
    raise click.UsageError(advice)


def _is_other_kind(word: str) -> bool:
    """Whether somebody means another kind: by its names, or with its group, as kubectl prints it."""
    kind = word.partition(".")[0]
    return kind in _SHORT or kind.removesuffix("s") in _OTHER_KINDS
