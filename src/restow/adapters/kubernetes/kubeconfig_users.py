"""A user entry of a kubeconfig: its credentials, and the user that it impersonates."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from restow.adapters.kubernetes.cluster_config import ConfigError, Impersonation
from restow.adapters.kubernetes.credentials import (
    Certificate,
    Credentials,
    FileCredentials,
    Identity,
    StaticCredentials,
    fits_header,
)
from restow.adapters.kubernetes.exec_plugin import INTERACTIVE_MODES, VERSIONS, ExecCommand, ExecCredentials
from restow.adapters.kubernetes.kubeconfig_clusters import cluster_info
from restow.adapters.kubernetes.kubeconfig_file import Cluster, Entry, Exec, User


def credentials_of(
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
        return _exec_credentials(user, value.exec, cluster, authority, env)
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


def impersonation_of(user: Entry[User]) -> Impersonation | None:
    value = user.value
    if not value.as_:
        if value.as_uid or value.as_groups or value.as_user_extra:
            raise user.error("as", "missing, although as-uid, as-groups or as-user-extra is given")
        return None
    extra = {key: tuple(items) for key, items in sorted((value.as_user_extra or {}).items())}
    values = [
        value.as_,
        value.as_uid or "",
        *(value.as_groups or ()),
        *(item for items in extra.values() for item in items),
    ]
    if not all(map(fits_header, values)):
        raise user.error("as", "the impersonated user holds line breaks or other control characters")
    return Impersonation(user=value.as_, uid=value.as_uid, groups=tuple(value.as_groups or ()), extra=extra)


def _exec_credentials(
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
        cluster=cluster_info(cluster, authority) if plugin.provide_cluster_info else None,
        where=f"kubeconfig {user.file}: {user.path}.exec",
    )
    return ExecCredentials(command, env=env, terminal=_has_terminal)


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
