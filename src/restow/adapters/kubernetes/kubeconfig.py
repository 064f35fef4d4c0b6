"""Reading kubeconfig files: from one or several merged files and a context to a ClusterConfig.

Files are merged as kubectl does: of entries with the same name, and of current-context, the first one wins. Relative
paths are relative to the file they stand in. Errors are one line with the file and the path of every wrong field.
"""

from __future__ import annotations

import base64
import binascii
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec

from restow.adapters.kubernetes.config import (
    ClusterConfig,
    ConfigError,
    Impersonation,
    proxy_from_environment,
)
from restow.adapters.kubernetes.credentials import (
    Certificate,
    Credentials,
    FileCredentials,
    Identity,
    StaticCredentials,
    fits_header,
    read_file,
)
from restow.adapters.kubernetes.exec_plugin import INTERACTIVE_MODES, VERSIONS, ExecCommand, ExecCredentials
from restow.adapters.kubernetes.in_cluster import in_cluster, is_in_cluster
from restow.adapters.loopback import is_loopback
from restow.model.wire import WireError, convert, read_documents

EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class _Struct(msgspec.Struct, frozen=True, rename="kebab"):
    """A mapping of the file, whose keys are written-like-this."""


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


def find_config(
    path: str | Path | None = None, *, context: str | None = None, env: Mapping[str, str] | None = None
) -> ClusterConfig:
    """The cluster meant: the file named, else $KUBECONFIG, else the cluster we run in, else ~/.kube/config."""
    env = os.environ if env is None else env
    if path is None and not env.get("KUBECONFIG") and context is None and is_in_cluster(env):
        return in_cluster(env)
    return load_kubeconfig(path, context=context, env=env)


def load_kubeconfig(
    path: str | Path | None = None, *, context: str | None = None, env: Mapping[str, str] | None = None
) -> ClusterConfig:
    """The cluster and user of a context (the current one by default). Raises ConfigError."""
    env = os.environ if env is None else env
    merged = _merge(_files(path, env))
    chosen = _context(merged, context)
    cluster = _named(chosen, "cluster", chosen.value.cluster, merged.clusters)
    user = _named(chosen, "user", chosen.value.user, merged.users) if chosen.value.user else None
    server = _server(cluster)
    authority = _authority(cluster)
    return ClusterConfig(
        server=server,
        credentials=_credentials(user, cluster, authority, env) if user else StaticCredentials(),
        authority=authority,
        tls_server_name=cluster.value.tls_server_name,
        insecure=cluster.value.insecure_skip_tls_verify,
        proxy=_proxy(cluster) or proxy_from_environment(server, env),
        impersonation=_impersonation(user) if user else None,
        namespace=chosen.value.namespace or "default",
        compress=not cluster.value.disable_compression and not is_loopback(urlsplit(server).hostname or ""),
    )


# ---- files


def _files(path: str | Path | None, env: Mapping[str, str]) -> list[Path]:
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
    """The path with ~ replaced; of a user who does not exist it stays, and is then not found."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _merge(files: list[Path]) -> Merged:
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
    what = f"kubeconfig {file}"
    try:
        documents = read_documents(read_file(file), what)
        if len(documents) > 1:
            raise ConfigError(f"{what}: holds {len(documents)} documents, expected one")
        return convert(Kubeconfig, documents[0], what) if documents else Kubeconfig()
    except WireError as error:
        raise ConfigError(str(error)) from None
    except ConfigError as error:
        raise ConfigError(str(error) if str(error).startswith(what) else f"kubeconfig {error}") from None


def _context(merged: Merged, name: str | None) -> Entry[Context]:
    files = ", ".join(map(str, merged.files))
    name = name or merged.current_context
    if not name:
        raise ConfigError(f"kubeconfig {files}: current-context: not set, and no context was asked for")
    if name not in merged.contexts:
        known = ", ".join(sorted(merged.contexts)) or "none"
        raise ConfigError(f"kubeconfig {files}: contexts: no context {name!r}; there are: {known}")
    return merged.contexts[name]


def _named(context: Entry[Context], field: str, name: str, entries: Mapping[str, Entry[T]]) -> Entry[T]:
    if name not in entries:
        raise context.error(field, f"no {field} named {name!r}; there are: {', '.join(sorted(entries)) or 'none'}")
    return entries[name]


# ---- the cluster


def _server(cluster: Entry[Cluster]) -> str:
    text = cluster.value.server.rstrip("/")
    if text and "://" not in text:
        has_tls = cluster.value.certificate_authority or cluster.value.certificate_authority_data
        text = f"{'https' if has_tls or cluster.value.insecure_skip_tls_verify else 'http'}://{text}"
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or text.split() != [text]:
        raise cluster.error("server", f"expected a URL such as https://10.0.0.1:6443, got {cluster.value.server!r}")
    return text


def _authority(cluster: Entry[Cluster]) -> bytes | None:
    value = cluster.value
    authority = None
    if value.certificate_authority_data:
        authority = cluster.unpack("certificate-authority-data", value.certificate_authority_data)
    elif value.certificate_authority:
        authority = cluster.read("certificate-authority", value.certificate_authority)
    if authority is not None and value.insecure_skip_tls_verify:
        raise cluster.error("insecure-skip-tls-verify", "cannot be true when a certificate authority is given")
    return authority


def _proxy(cluster: Entry[Cluster]) -> str | None:
    proxy = cluster.value.proxy_url
    if not proxy:
        return None
    try:
        parts = urlsplit(proxy)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise cluster.error("proxy-url", f"expected http:// or https://, got {proxy!r} (SOCKS is not supported)")
    return proxy


# ---- the user


def _credentials(
    user: Entry[User], cluster: Entry[Cluster], authority: bytes | None, env: Mapping[str, str]
) -> Credentials:
    value = user.value
    if value.auth_provider is not None:
        raise user.error(
            "auth-provider",
            f"the {value.auth_provider.name!r} auth provider was removed from Kubernetes; "
            "use an exec plugin instead (such as gke-gcloud-auth-plugin, kubelogin or kubectl oidc-login)",
        )
    if value.exec is not None and not _has_own(value):
        return _exec(user, value.exec, cluster, authority, env)
    if (value.token or value.token_file) and value.username:
        raise user.error("username", "a token and a username are given; only one of them can be used")
    files = _certificate_files(user)
    base = Identity(_authorization(user), None if files else _certificate(user))
    if value.token_file is None and files is None:
        return StaticCredentials(base)
    token = user.resolve(value.token_file) if value.token_file else None
    credentials = FileCredentials(token=token, certificate=files, base=base)
    try:
        credentials.read()
    except ConfigError as error:
        raise user.error("tokenFile" if token else "client-certificate", str(error)) from None
    return credentials


def _has_own(user: User) -> bool:
    """Whether there are credentials beside an exec plugin; as for client-go, the plugin is then not run."""
    certificate = user.client_certificate or user.client_certificate_data or user.client_key or user.client_key_data
    return bool(user.token or user.token_file or user.username or certificate)


def _authorization(user: Entry[User]) -> str | None:
    value = user.value
    if value.token and not value.token_file:
        try:
            return Identity.bearer(value.token).authorization
        except ConfigError as error:
            raise user.error("token", str(error)) from None
    if value.username:
        return Identity.basic(value.username, value.password or "").authorization
    return None


def _certificate_files(user: Entry[User]) -> tuple[Path, Path] | None:
    """Both paths, if certificate and key are both given as files only: such a pair may be rotated."""
    value = user.value
    if value.client_certificate_data or value.client_key_data:
        return None
    if not value.client_certificate or not value.client_key:
        return None
    return user.resolve(value.client_certificate), user.resolve(value.client_key)


def _certificate(user: Entry[User]) -> Certificate | None:
    value = user.value
    certificate = _pem(user, "client-certificate", value.client_certificate_data, value.client_certificate)
    key = _pem(user, "client-key", value.client_key_data, value.client_key)
    if certificate is None and key is None:
        return None
    if certificate is None:
        raise user.error("client-certificate", "missing, although client-key is given")
    if key is None:
        raise user.error("client-key", "missing, although client-certificate is given")
    return Certificate(certificate, key)


def _pem(user: Entry[User], field: str, data: str | None, file: str | None) -> bytes | None:
    if data:
        return user.unpack(f"{field}-data", data)
    return user.read(field, file) if file else None


def _impersonation(user: Entry[User]) -> Impersonation | None:
    value = user.value
    if not value.as_:
        if value.as_uid or value.as_groups or value.as_user_extra:
            raise user.error("as", "missing, although as-uid, as-groups or as-user-extra is given")
        return None
    extra = {key: tuple(items) for key, items in sorted((value.as_user_extra or {}).items())}
    said = [
        value.as_,
        value.as_uid or "",
        *(value.as_groups or ()),
        *(item for items in extra.values() for item in items),
    ]
    if not all(map(fits_header, said)):
        raise user.error("as", "whom to act as holds line breaks or other control characters")
    return Impersonation(user=value.as_, uid=value.as_uid, groups=tuple(value.as_groups or ()), extra=extra)


# ---- exec plugins


def _exec(
    user: Entry[User], plugin: Exec, cluster: Entry[Cluster], authority: bytes | None, env: Mapping[str, str]
) -> ExecCredentials:
    if plugin.api_version not in VERSIONS:
        raise user.error("exec.apiVersion", f"expected {' or '.join(VERSIONS)}, got {plugin.api_version!r}")
    if not plugin.command:
        raise user.error("exec.command", "missing")
    mode = plugin.interactive_mode or ("IfAvailable" if plugin.api_version.endswith("beta1") else None)
    if mode not in INTERACTIVE_MODES:
        expected = ", ".join(INTERACTIVE_MODES)
        raise user.error("exec.interactiveMode", f"expected one of {expected}, got {plugin.interactive_mode!r}")
    command = ExecCommand(
        api_version=plugin.api_version,
        command=plugin.command,
        args=tuple(plugin.args or ()),
        env={variable.name: variable.value for variable in plugin.env or ()},
        directory=user.file.parent,
        install_hint=plugin.install_hint,
        interactive_mode=mode,
        cluster=_cluster_info(cluster, authority) if plugin.provide_cluster_info else None,
        where=f"kubeconfig {user.file}: {user.path}.exec",
    )
    return ExecCredentials(command, env=env, terminal=_has_terminal)


def _cluster_info(cluster: Entry[Cluster], authority: bytes | None) -> dict[str, Any]:
    value = cluster.value
    info: dict[str, Any] = {"server": _server(cluster)}
    optional = {
        "tls-server-name": value.tls_server_name,
        "insecure-skip-tls-verify": value.insecure_skip_tls_verify or None,
        "certificate-authority-data": base64.b64encode(authority).decode() if authority else None,
        "proxy-url": value.proxy_url,
        "config": next((item.extension for item in value.extensions or () if item.name == EXEC_EXTENSION), None),
    }
    return info | {key: item for key, item in optional.items() if item is not None}


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
