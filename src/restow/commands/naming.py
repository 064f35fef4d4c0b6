"""How people name a pod on the command line: `pod NS/NAME`, `NS/NAME`, or `pod/NAME` as kubectl prints it."""

from __future__ import annotations

from collections.abc import Callable

import click

_POD_WORDS = ("pod", "pods", "po")


def pods_named(named: tuple[str, ...], command: str, here: Callable[[], str]) -> list[tuple[str, str]]:
    """Namespace and name of the pods that may be meant; the first of them that there is, is. Where no namespace is
    written it is that of the context, `here`, and so it is in pod/NAME, unless a namespace is called so."""
    namespace, _, name = _written(named, command).rpartition("/")
    if namespace in _POD_WORDS:
        return [(namespace, name), (here(), name)]
    return [(namespace or here(), name)]


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
        case (word, _):
            raise click.UsageError(f"only pods can be named here, not {word!r}; {advice}")
    raise click.UsageError(advice)
