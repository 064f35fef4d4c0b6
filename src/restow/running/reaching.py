"""Whether a cluster lets us work there: it answers, knows our kinds, and has a namespace for us."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from restow.client.verbs import Client
from restow.model.kinds import NAMESPACE, OWN_KINDS, Kind
from restow.model.wire import WireError
from restow.ports import AlreadyExists, ApiError, NotFound, NotKubernetes, OutcomeUnknown, Unauthorized

log = logging.getLogger(__name__)

REACH_WITHIN = 10.0
REACH_AGAIN = 0.5


class CannotRun(Exception):
    """What is asked for is fine, and this cluster, or this machine, does not let us; one line says why."""


async def reach(client: Client, where: str) -> None:
    """Find out early whether the API server is there and knows us, with patience for one that is just starting."""
    deadline = asyncio.get_running_loop().time() + REACH_WITHIN
    told = False
    while True:
        try:
            await client.get(NAMESPACE, "default")
            return
        except OutcomeUnknown as error:
            if asyncio.get_running_loop().time() > deadline:
                raise CannotRun(f"cannot reach the API server {where}: {error}") from error
            if not told:
                log.warning("the API server does not answer yet", extra={"server": where, "err": str(error)})
                told = True
        except Unauthorized as error:
            raise CannotRun(f"the API server {where} does not know us: {error}") from error
        except NotKubernetes as error:
            raise CannotRun(str(error)) from error
        except ApiError:
            return  # it answers: what we may do there, every component finds out for itself
        await asyncio.sleep(REACH_AGAIN)


async def missing_kinds(client: Client) -> list[Kind[Any]]:
    """Which of our kinds the cluster does not know; what needs them has nothing to do until it does."""
    missing: list[Kind[Any]] = []
    for kind in OWN_KINDS:
        try:
            await client.get(kind, "restow", "default" if kind.namespaced else None)
        except NotFound as error:
            if error.status.details is None or not error.status.details.name:
                missing.append(kind)
        except (ApiError, WireError):
            continue
    return missing


async def find_namespace(client: Client, name: str) -> None:
    """Make sure that our namespace is there."""
    try:
        await client.get(NAMESPACE, name)
        return
    except NotFound:
        pass
    except ApiError:
        return  # who may not look may still be allowed to use it
    try:
        await client.create(NAMESPACE, {"metadata": {"name": name}})
    except AlreadyExists:
        pass
    except ApiError as error:
        raise CannotRun(f"there is no namespace {name}, and it cannot be created: {error}") from error
