"""Checks before components start: the API server answers, our kinds are installed, our namespace exists."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from restow.client.verbs import Client
from restow.model.kinds import NAMESPACE, OWN_KINDS, Kind
from restow.model.wire import WireError
from restow.ports import AlreadyExists, ApiError, NotFound, NotKubernetes, OutcomeUnknown, Unauthorized

log = logging.getLogger(__name__)

API_SERVER_TIMEOUT = 10.0
API_SERVER_RETRY = 0.5


class CannotRun(Exception):
    """The request is valid, but this cluster or this machine does not allow it; the message says why."""


async def wait_for_api_server(client: Client, server: str) -> None:
    """Wait until the API server answers, for up to ten seconds. Raises CannotRun if it does not answer, or rejects
    us."""
    deadline = asyncio.get_running_loop().time() + API_SERVER_TIMEOUT
    is_logged = False
    while True:
        try:
            await client.get(NAMESPACE, "default")
            return
        except OutcomeUnknown as error:
            if asyncio.get_running_loop().time() > deadline:
                raise CannotRun(f"cannot reach the API server {server}: {error}") from error
            if not is_logged:
                log.warning("waiting for the API server", extra={"server": server, "err": str(error)})
                is_logged = True
        except Unauthorized as error:
            raise CannotRun(f"the API server {server} rejects our credentials: {error}") from error
        except NotKubernetes as error:
            raise CannotRun(str(error)) from error
        except ApiError:
            return  # an answer, such as Forbidden: components find out themselves what they may do
        await asyncio.sleep(API_SERVER_RETRY)


async def missing_kinds(client: Client) -> list[Kind[Any]]:
    """Our kinds that have no definition in the cluster. Components that need them idle until they are installed."""
    missing: list[Kind[Any]] = []
    for kind in OWN_KINDS:
        try:
            await client.get(kind, "restow", "default" if kind.namespaced else None)
        except NotFound as error:
            # 404 with a name: the kind is there, and no such object. Without: the server does not know the path.
            if error.status.details is None or not error.status.details.name:
                missing.append(kind)
        except (ApiError, WireError):
            continue
    return missing


async def ensure_namespace(client: Client, name: str) -> None:
    """Create our namespace if it is missing. Raises CannotRun if that is not allowed."""
    try:
        await client.get(NAMESPACE, name)
        return
    except NotFound:
        pass
    except ApiError:
        return  # reading namespaces may be forbidden while writing into this one is allowed
    try:
        await client.create(NAMESPACE, {"metadata": {"name": name}})
    except AlreadyExists:
        pass
    except ApiError as error:
        raise CannotRun(f"namespace {name} does not exist and cannot be created: {error}") from error
