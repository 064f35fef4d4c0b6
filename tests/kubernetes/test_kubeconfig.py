"""kubeconfig files: what is read from them, how they merge, and what is said about wrong ones."""

from __future__ import annotations

import base64
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from restow.adapters.kubernetes import ConfigError, find_config, in_cluster, load_kubeconfig
from restow.adapters.kubernetes.cluster_config import ClusterConfig, Impersonation, proxy_from_environment
from restow.adapters.kubernetes.credentials import Certificate, Identity


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def text(user: str = "token: t", cluster: str = "server: https://10.0.0.1:6443", name: str = "one") -> str:
    return "\n".join(
        (
            "apiVersion: v1",
            "kind: Config",
            f"current-context: {name}",
            f"contexts: [{{name: {name}, context: {{cluster: {name}, user: {name}, namespace: ns-{name}}}}}]",
            f"clusters:\n- name: {name}\n  cluster:\n" + indent(dedent(cluster), "    "),
            f"users:\n- name: {name}\n  user:\n" + indent(dedent(user), "    "),
        )
    )


def load(tmp_path: Path, content: str, **options: Any) -> ClusterConfig:
    file = tmp_path / "config"
    file.write_text(content)
    return load_kubeconfig(file, env={}, **options)


async def identity(config: ClusterConfig) -> Identity:
    return await config.credentials.current(0)


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        pytest.param("token: t", "Bearer t", id="a token"),
        pytest.param("tokenFile: tok", "Bearer from-file", id="a token file beside the kubeconfig"),
        pytest.param("token: t\ntokenFile: tok", "Bearer from-file", id="the file wins over the token"),
        pytest.param("username: u\npassword: p", f"Basic {b64('u:p')}", id="a name and a password"),
        pytest.param("token: t\nexec: {apiVersion: client.authentication.k8s.io/v1}", "Bearer t", id="before a plugin"),
        pytest.param("{}", None, id="no credentials"),
    ],
)
async def test_kubeconfig_credentials_are_read(tmp_path: Path, user: str, authorization: str | None) -> None:
    (tmp_path / "tok").write_text("from-file\n")
    assert (await identity(load(tmp_path, text(user)))).authorization == authorization


@pytest.mark.parametrize(
    "user",
    [
        pytest.param("client-certificate: c.pem\nclient-key: k.pem", id="files"),
        pytest.param(f"client-certificate-data: {b64('CERT')}\nclient-key-data: {b64('KEY')}", id="data"),
        pytest.param(f"client-certificate: c.pem\nclient-key-data: {b64('KEY')}", id="both"),
        pytest.param(
            f"client-certificate: none\nclient-certificate-data: {b64('CERT')}\nclient-key: k.pem", id="data wins"
        ),
        pytest.param(
            "client-certificate: c.pem\nclient-key: k.pem\nexec: {apiVersion: client.authentication.k8s.io/v1}",
            id="before a plugin",
        ),
    ],
)
async def test_kubeconfig_client_certificate_is_read(tmp_path: Path, user: str) -> None:
    (tmp_path / "c.pem").write_text("CERT")
    (tmp_path / "k.pem").write_text("KEY")
    assert (await identity(load(tmp_path, text(user)))).certificate == Certificate(b"CERT", b"KEY")


async def test_rotated_certificate_files_are_noticed(tmp_path: Path) -> None:
    for name in ("c.pem", "k.pem"):
        (tmp_path / name).write_text("old")
    credentials = load(tmp_path, text("client-certificate: c.pem\nclient-key: k.pem")).credentials
    first = await credentials.current(0)
    (tmp_path / "c.pem").write_text("new")
    assert (await credentials.current(59)) == first
    assert (await credentials.current(60)).certificate == Certificate(b"new", b"old")


def test_kubeconfig_cluster_is_read(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("CA")
    cluster = """
        server: https://example.org/k8s/clusters/c-1/
        certificate-authority: ca.pem
        tls-server-name: inner
        proxy-url: http://proxy:3128
    """
    config = load(tmp_path, text(cluster=cluster))
    assert (config.server, config.authority) == ("https://example.org/k8s/clusters/c-1", b"CA")
    assert (config.tls_server_name, config.proxy, config.namespace) == ("inner", "http://proxy:3128", "ns-one")
    assert (config.compress, config.insecure) == (True, False)


def test_kubeconfig_impersonation_is_read(tmp_path: Path) -> None:
    user = "as: jane\nas-uid: '7'\nas-groups: [a, b]\nas-user-extra: {scope: [x]}"
    expected = Impersonation(user="jane", uid="7", groups=("a", "b"), extra={"scope": ("x",)})
    assert load(tmp_path, text(user)).impersonation == expected


async def test_of_several_files_the_first_wins(tmp_path: Path) -> None:
    first, second, missing = tmp_path / "a", tmp_path / "b", tmp_path / "none"
    first.write_text(text("token: first"))
    second.write_text(text("token: second") + "\n" + "# a second entry of the same name\n")
    third = tmp_path / "c"
    third.write_text(text("token: third", name="two"))
    env = {"KUBECONFIG": f"{missing}:{first}::{second}:{third}"}
    assert (await identity(load_kubeconfig(env=env))).authorization == "Bearer first"
    assert (await identity(load_kubeconfig(env=env, context="two"))).authorization == "Bearer third"


def test_relative_paths_belong_to_their_own_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "ca.pem").write_text("CA")
    cluster = text(cluster="server: https://x\ncertificate-authority: ca.pem")
    (tmp_path / "sub" / "config").write_text(cluster)
    (tmp_path / "main").write_text("current-context: one\n")
    env = {"KUBECONFIG": f"{tmp_path}/main:{tmp_path}/sub/config"}
    assert load_kubeconfig(env=env).authority == b"CA"


async def test_the_home_directory_is_the_last_resort(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(text("token: home"))
    assert (await identity(find_config(env={"HOME": str(tmp_path)}))).authorization == "Bearer home"


WRONG = [
    pytest.param("a: [", r"config: not YAML: line", id="broken YAML"),
    pytest.param("[1]", r"config: .*expected an object", id="not a mapping"),
    pytest.param(text("token: 12"), r"config: users\[0\]\.user\.token: ", id="a number for a token"),
    pytest.param(text() + "\n", None, id="a right one"),
    pytest.param("clusters: []", r"config: current-context: not set", id="no context"),
    pytest.param("current-context: x", r"config: contexts: no context 'x'; there are: none", id="an unknown context"),
    pytest.param(
        text().replace("cluster: one", "cluster: two"),
        r"contexts\[0\]\.context\.cluster: no cluster named 'two'; there are: one",
        id="an unknown cluster",
    ),
    pytest.param(text(cluster="server: ''"), r"clusters\[0\]\.cluster\.server: expected a URL", id="no server"),
    pytest.param(text(cluster="server: ftp://x"), r"server: expected a URL .* got 'ftp://x'", id="a strange scheme"),
    pytest.param(text(cluster="server: https://x:99999"), r"server: expected a URL", id="a strange port"),
    pytest.param(
        text(cluster="server: https://x\nproxy-url: socks5://y"), r"proxy-url: .*SOCKS is not supported", id="SOCKS"
    ),
    pytest.param(
        text(cluster="server: https://x\ncertificate-authority: no.pem"),
        r"cluster\.certificate-authority: .*no\.pem: No such file",
        id="a CA that is not there",
    ),
    pytest.param(
        text(cluster="server: https://x\ncertificate-authority-data: '***'"),
        r"certificate-authority-data: not base64",
        id="a CA that is not base64",
    ),
    pytest.param(
        text(cluster=f"server: https://x\ninsecure-skip-tls-verify: true\ncertificate-authority-data: {b64('x')}"),
        r"insecure-skip-tls-verify: cannot be true",
        id="insecure with a CA",
    ),
    pytest.param(
        text("tokenFile: gone"), r"users\[0\]\.user\.tokenFile: .*gone: No such file", id="a token file that is gone"
    ),
    pytest.param(text("token: t\nusername: u"), r"user\.username: .*only one", id="a token and a name"),
    pytest.param(text(f"client-key-data: {b64('k')}"), r"user\.client-certificate: missing", id="a key alone"),
    pytest.param(
        text(f"client-certificate-data: {b64('c')}\nexec: {{apiVersion: client.authentication.k8s.io/v1}}"),
        r"user\.client-key: missing",
        id="half a certificate beside a plugin",
    ),
    pytest.param(text("as-groups: [x]"), r"user\.as: missing", id="groups without a user"),
    pytest.param(
        text("auth-provider: {name: gcp}"), r"user\.auth-provider: the 'gcp' .*exec plugin", id="a removed provider"
    ),
    pytest.param(
        text("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}"),
        r"users\[0\]\.user\.exec\.apiVersion: expected .*/v1 or .*/v1beta1, got",
        id="an old exec version",
    ),
    pytest.param(
        text("exec: {apiVersion: client.authentication.k8s.io/v1, command: x}"),
        r"user\.exec\.interactiveMode: expected one of Never, IfAvailable, Always",
        id="v1 asks for the interactive mode",
    ),
    pytest.param(
        text("exec: {apiVersion: client.authentication.k8s.io/v1beta1}"),
        r"user\.exec\.command: missing",
        id="no command",
    ),
    pytest.param(
        text('token: "a\\nb"'), r"users\[0\]\.user\.token: the token holds line breaks", id="two lines of token"
    ),
    pytest.param(text('tokenFile: "a\\0b"'), r"user\.tokenFile: .*null", id="a null character in a path"),
    pytest.param(
        text("tokenFile: ~missing-user/token"), r"user\.tokenFile: .*No such file", id="home of an unknown user"
    ),
    pytest.param(text('as: "a\\r\\nX-Evil: b"'), r"user\.as: .*line breaks", id="a header in a name"),
    pytest.param(text(cluster="server: https://x/?a=b"), r"server: expected a URL", id="a server with a query"),
    pytest.param(text(cluster='server: "https://x y"'), r"server: expected a URL", id="a server with a space"),
    pytest.param(
        text(cluster="server: https://x\nproxy-url: 'http://[x'"), r"proxy-url: expected http", id="a broken proxy"
    ),
    pytest.param(
        text(cluster="server: https://x\nproxy-url: http://"), r"proxy-url: expected http", id="no proxy host"
    ),
]


@pytest.mark.parametrize(("content", "message"), WRONG)
def test_kubeconfig_mistakes_are_reported(tmp_path: Path, content: str, message: str | None) -> None:
    if message is None:
        load(tmp_path, content)
        return
    with pytest.raises(ConfigError, match=message) as caught:
        load(tmp_path, content)
    assert f"kubeconfig {tmp_path}/config: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_wrong_field_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"users\[0\]\.user\.token: .*users\[0\]\.user\.username: "):
        load(tmp_path, text("token: 1\nusername: [x]"))


def test_missing_kubeconfig_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no kubeconfig found"):
        load_kubeconfig(env={"HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"kubeconfig .*/nowhere: No such file"):
        load_kubeconfig(tmp_path / "nowhere", env={})


# ---- in a pod


@pytest.fixture
def account(tmp_path: Path) -> Path:
    for name, content in (("token", "t1\n"), ("ca.crt", "CA"), ("namespace", "restow-system\n")):
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.mark.parametrize(
    ("host", "server"),
    [
        pytest.param("10.0.0.1", "https://10.0.0.1:443", id="IPv4"),
        pytest.param("fd00::1", "https://[fd00::1]:443", id="IPv6"),
    ],
)
async def test_in_cluster_configuration_is_read(account: Path, host: str, server: str) -> None:
    env = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    config = in_cluster(env, account)
    assert (config.server, config.authority, config.namespace) == (server, b"CA", "restow-system")
    assert (await identity(config)).authorization == "Bearer t1"
    (account / "token").write_text("t2")
    assert (await config.credentials.current(61)).authorization == "Bearer t2"
    (account / "token").unlink()
    assert (await config.credentials.current(200)).authorization == "Bearer t2"


def test_in_cluster_configuration_outside_a_cluster_is_refused(account: Path) -> None:
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST"):
        in_cluster({}, account)


# ---- proxies


@pytest.mark.parametrize(
    ("server", "exceptions", "proxied"),
    [
        pytest.param("https://10.1.2.3:6443", "", True, id="everything goes through it"),
        pytest.param("https://127.0.0.1:6443", "", False, id="but never loopback"),
        pytest.param("https://[::1]:6443", "", False, id="nor its IPv6 address"),
        pytest.param("https://dev.localhost:6443", "", False, id="nor a name below localhost"),
        pytest.param("https://10.1.2.3:6443", "10.0.0.0/8", False, id="a network is excepted"),
        pytest.param("https://api.example.org", "x, .example.org", False, id="a domain is excepted"),
        pytest.param("https://notexample.org", "example.org", True, id="a domain is not a suffix"),
        pytest.param("https://api.example.org:6443", "example.org:443", True, id="a port that differs"),
        pytest.param("http://10.1.2.3", "", False, id="of another scheme"),
        pytest.param("https://10.1.2.3", "*", False, id="everything is excepted"),
    ],
)
def test_proxies_from_the_environment(server: str, exceptions: str, proxied: bool) -> None:
    env = {"HTTPS_PROXY": "proxy:3128", "NO_PROXY": exceptions}
    assert proxy_from_environment(server, env) == ("http://proxy:3128" if proxied else None)
