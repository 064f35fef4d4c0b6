"""Kubeconfig files: their fields, and several files merged into one.

Files are merged as kubectl does: of entries with the same name, and of current-context, the first one wins. Relative
paths are relative to the file they stand in. Errors are one line with the file and the path of every wrong field.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from restow.adapters.kubernetes.cluster_config import ConfigError
from restow.adapters.kubernetes.credentials import read_file
from restow.model.wire import WireError, convert_document, read_documents


class _Struct(msgspec.Struct, frozen=True, rename="kebab"):
    """A mapping of the file; its keys are written-like-this."""


class Extension(_Struct, frozen=True, kw_only=True):
    name: str
    extension: Any = None


class Cluster(_Struct, frozen=True, kw_only=True):
    server: str = ""
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool = False
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None
    disable_compression: bool = False
    extensions: list[Extension] | None = None


class ExecVariable(_Struct, frozen=True, kw_only=True):
    name: str
    value: str = ""


class Exec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = ""
    command: str = ""
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False
    interactive_mode: str | None = None


class AuthProvider(_Struct, frozen=True, kw_only=True):
    name: str = ""


class User(_Struct, frozen=True, kw_only=True):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    as_: str | None = msgspec.field(name="as", default=None)
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None
    exec: Exec | None = None
    auth_provider: AuthProvider | None = None


class Context(_Struct, frozen=True, kw_only=True):
    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class NamedCluster(_Struct, frozen=True, kw_only=True):
    name: str
    cluster: Cluster = Cluster()


class NamedUser(_Struct, frozen=True, kw_only=True):
    name: str
    user: User = User()


class NamedContext(_Struct, frozen=True, kw_only=True):
    name: str
    context: Context = Context()


class Kubeconfig(_Struct, frozen=True, kw_only=True):
    current_context: str | None = None
    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None
    contexts: list[NamedContext] | None = None


T = TypeVar("T")


class Entry(msgspec.Struct, Generic[T], frozen=True):
    """One named entry and where it was written, for messages and for relative paths."""

    file: Path
    path: str
    value: T

    def error(self, field: str, message: str) -> ConfigError:
        place = f"{self.path}.{field}" if field else self.path
        return ConfigError(f"kubeconfig {self.file}: {place}: {message}")

    def resolve(self, text: str) -> Path:
        return self.file.parent / _path(text)

    def read(self, field: str, text: str) -> bytes:
        try:
            return read_file(self.resolve(text))
        except ConfigError as error:
            raise self.error(field, str(error)) from None

    def unpack(self, field: str, text: str) -> bytes:
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.error(field, f"not base64: {error}") from None


class Merged(msgspec.Struct):
    """All files as one."""

    files: list[Path]
    current_context: str | None = None
    clusters: dict[str, Entry[Cluster]] = {}
    users: dict[str, Entry[User]] = {}
    contexts: dict[str, Entry[Context]] = {}


def files_of(path: str | Path | None, env: Mapping[str, str]) -> list[Path]:
    """The files to merge. One that is named must exist; of a list, those that exist are taken."""
    if path is not None:
        return [_path(path).absolute()]
    listed = [part for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]
    home = _path(env.get("HOME", "~"))
    candidates = [_path(part).absolute() for part in listed] or [home / ".kube" / "config"]
    files = [file for file in candidates if file.exists()]
    if not files:
        names = ", ".join(map(str, candidates))
        raise ConfigError(f"no kubeconfig found ({names}): name one with --kubeconfig or in KUBECONFIG")
    return files


def _path(text: str | Path) -> Path:
    """The path with ~ replaced; the ~ of an unknown user stays, and the file is then not found."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def merge_files(files: list[Path]) -> Merged:
    merged = Merged(files)
    for file in files:
        config = _read(file)
        merged.current_context = merged.current_context or config.current_context
        for index, cluster in enumerate(config.clusters or ()):
            merged.clusters.setdefault(cluster.name, Entry(file, f"clusters[{index}].cluster", cluster.cluster))
        for index, user in enumerate(config.users or ()):
            merged.users.setdefault(user.name, Entry(file, f"users[{index}].user", user.user))
        for index, context in enumerate(config.contexts or ()):
            merged.contexts.setdefault(context.name, Entry(file, f"contexts[{index}].context", context.context))
    return merged


def _read(file: Path) -> Kubeconfig:
    subject = f"kubeconfig {file}"
    try:
        documents = read_documents(read_file(file), subject)
        if len(documents) > 1:
            raise ConfigError(f"{subject}: holds {len(documents)} documents, expected one")
        return convert_document(Kubeconfig, documents[0], subject) if documents else Kubeconfig()
    except WireError as error:
        raise ConfigError(str(error)) from None
    except ConfigError as error:
        raise ConfigError(str(error) if str(error).startswith(subject) else f"kubeconfig {error}") from None
