"""TLS contexts: the trusted authorities and the client certificate."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

from restow.adapters.kubernetes.credentials import Certificate, ConfigError


def tls_context(authority: bytes | None, certificate: Certificate | None, *, insecure: bool) -> ssl.SSLContext:
    """Raises ConfigError when a certificate cannot be used."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    # Clusters use private CAs whose certificates often lack extensions that strict verification asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=authority.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise ConfigError(f"the cluster's certificate authority is not PEM: {error}") from None
    if certificate is not None:
        _load_certificate(context, certificate)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Load certificate and key. OpenSSL reads them from files only, so they exist on disk for that moment."""
    with tempfile.TemporaryDirectory(prefix="restow-") as name:
        path = Path(name) / "pair.pem"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate.certificate.rstrip() + b"\n" + certificate.key.rstrip() + b"\n")
        try:
            context.load_cert_chain(path, password=_no_password)
        except ssl.SSLError as error:
            raise ConfigError(f"the client certificate or its key cannot be used: {error}") from None


def _no_password() -> str:
    """Never ask on the terminal for the password of an encrypted key: fail instead."""
    return ""
