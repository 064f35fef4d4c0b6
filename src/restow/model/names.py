"""The rules for names, label keys and label values, each with an error message; and names generated from other texts.

In: a text. Out: its problems, none if it is valid; or a valid name.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

_ODD = re.compile(r"[^a-z0-9]+")
_LONGEST_STEM = 40
_DIGITS = 10
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)


@lru_cache(maxsize=16384)
def qualified_name_problems(name: str) -> tuple[str, ...]:
    """Problems of a label key, annotation key or resource name: `name` or `dns.prefix/name`."""
    prefix, slash, part = name.rpartition("/")
    if name.count("/") > 1:
        return ("at most one '/' is allowed",)
    problems: list[str] = []
    if slash and not prefix:
        problems.append("the prefix before '/' is empty")
    elif slash:
        problems += [f"prefix {problem}" for problem in subdomain_problems(prefix)]
    return (*problems, *_name_part_problems(part, "the name"))


@lru_cache(maxsize=16384)
def label_value_problems(value: str) -> tuple[str, ...]:
    return _name_part_problems(value, "a label value") if value else ()


def subdomain_problems(name: str) -> tuple[str, ...]:
    """Problems of an object name (RFC 1123 subdomain)."""
    problems = [] if len(name) <= 253 else ["must be no longer than 253 characters"]
    if not _SUBDOMAIN.fullmatch(name):
        problems.append("must be lower case letters, digits, '-' or '.', and start and end with a letter or digit")
    return tuple(problems)


def dns_label_problems(name: str) -> tuple[str, ...]:
    """Problems of a namespace or container name (RFC 1123 label)."""
    problems = [] if len(name) <= 63 else ["must be no longer than 63 characters"]
    if not _LABEL.fullmatch(name):
        problems.append("must be lower case letters, digits or '-', and start and end with a letter or digit")
    return tuple(problems)


def name_stem(title: str, otherwise: str) -> str:
    """The beginning of a name made from a title; `otherwise` if no letter or digit of the title is left."""
    return _ODD.sub("-", title.lower()).strip("-")[:_LONGEST_STEM].rstrip("-") or otherwise


def short_digest(text: str) -> str:
    """A few hexadecimal digits, the same for the same text."""
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _name_part_problems(part: str, what: str) -> tuple[str, ...]:
    if not part:
        return (f"{what} is empty",)
    problems = [] if len(part) <= 63 else [f"{what} must be no longer than 63 characters"]
    if not _NAME_PART.fullmatch(part):
        problems.append(f"{what} must be letters, digits, '-', '_' or '.', and start and end with a letter or digit")
    return tuple(problems)
