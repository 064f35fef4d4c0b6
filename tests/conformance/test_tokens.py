"""serviceaccounts/token: the requests of `kubectl create token`, and reviews of the tokens."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.objects import Document
from restow.ports import Invalid, NotFound
from tests.conformance.server import Server, eventually

ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}


async def token(server: Server, **spec: Any) -> Document:
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [], **spec}}
    return await server.create("serviceaccounts", asked, name="robot", sub="token")


async def review(server: Server, text: str) -> Document:
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": text}}
    status: Document = (await server.create("tokenreviews", asked))["status"]
    return status


async def test_the_bearer_of_a_token_is_the_account(server: Server) -> None:
    account = await server.create("serviceaccounts", ACCOUNT)
    made = await token(server)
    assert made["kind"] == "TokenRequest" and made["status"]["expirationTimestamp"]
    assert made["spec"]["expirationSeconds"] == 3600
    answer = await review(server, made["status"]["token"])
    assert answer["authenticated"] is True
    assert answer["user"]["username"] == f"system:serviceaccount:{server.namespace}:robot"
    assert answer["user"]["uid"] == account["metadata"]["uid"]
    assert "system:serviceaccounts" in answer["user"]["groups"]


async def test_a_token_is_worth_nothing_once_its_account_is_gone(server: Server) -> None:
    await server.create("serviceaccounts", ACCOUNT)
    made = await token(server)
    await server.delete("serviceaccounts", "robot")

    async def refused() -> bool:
        return not (await review(server, made["status"]["token"])).get("authenticated")

    await eventually(refused, "its token is worth nothing")


async def test_an_account_that_does_not_exist_gets_none(server: Server) -> None:
    with pytest.raises(NotFound, match='serviceaccounts "robot" not found'):
        await token(server)


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        pytest.param(599, "may not specify a duration less than 10 minutes", id="too short"),
        pytest.param(2**32 + 1, "may not specify a duration larger than 2^32 seconds", id="too long"),
    ],
)
async def test_token_lifetime_out_of_range_is_refused(server: Server, seconds: int, why: str) -> None:
    await server.create("serviceaccounts", ACCOUNT)
    with pytest.raises(Invalid) as refused:
        await token(server, expirationSeconds=seconds)
    assert f"spec.expirationSeconds: Invalid value: {seconds}: {why}" in str(refused.value)
