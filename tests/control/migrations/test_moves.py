"""Moves from beginning to end: the seat first, then the eviction, then the successor in the seat."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from restow.adapters.rest.tables import custom_printer
from restow.model import kinds
from restow.model.crds import custom_resource_definition
from restow.model.objects import Document
from restow.ports import Api, Request, Response
from restow.sim.faults import FaultyApi
from tests.control.migrations.migration_cluster import (
    cluster_with_controller,
    cluster_with_scheduler,
    cluster_with_stub_scheduler,
    pod_stays,
    running_controller,
)
from tests.control.scheduler_cluster import events_with_reason
from tests.sim.simulated_cluster import is_pod_ready, on_virtual_time, pass_time, template, workload

MINE = {"app": "web"}


def spare() -> Document:
    task = {"name": "pod", "template": template("500m", app="web")}
    owner = {"labelSelector": {"matchLabels": MINE}}
    return {
        "metadata": {"name": "spare", "namespace": "default"},
        "spec": {"tasks": [task], "owners": [owner], "ttl": "1h"},
    }


@on_virtual_time
async def test_a_pod_of_a_deployment_gets_its_seat_first_and_then_leaves() -> None:
    async with cluster_with_stub_scheduler() as it:
        seen = FaultyApi(it.api, random.Random(1))
        async with running_controller(seen, it.clock):
            old, other = await it.start(2)
            await it.move(old)
            await pass_time(30)
        job = await it.job()
        names = [one.metadata.name for one in await it.pods()]
        assert old.metadata.name not in names and other.metadata.name in names
        assert all(map(is_pod_ready, await it.pods()))
        [new] = [one for one in await it.pods() if one.metadata.name != other.metadata.name]
        assert (job.status.phase, job.status.node_name) == ("Succeed", new.spec.node_name)
        assert job.status.pod_ref and job.status.pod_ref.uid == new.metadata.uid
        assert new.spec.node_name != old.spec.node_name
        acts = [name.split()[0] + " " + name.split()[1] for name in seen.writes.names if "Event" not in name]
        order = [act for act in acts if "status" not in act]
        assert order == ["patch PodMigrationJob", "create Reservation", "patch PodMigrationJob", "evict Pod"]
        kept = {one.type: one.status for one in job.status.conditions or ()}
        assert set(kept) == {
            "Admitted",
            "ReservationCreated",
            "ReservationScheduled",
            "Eviction",
            "PodBoundReservation",
            "PodScheduled",
            "ReservationBound",
            "BoundPodReady",
            "Complete",
        }
        assert set(kept.values()) == {"True"}


@on_virtual_time
async def test_a_quick_successor_is_seen_at_once_without_messages_in_between() -> None:
    async with cluster_with_scheduler(ready=2.0) as it, running_controller(it.api, it.clock):
        old = (await it.start(2))[0]
        await it.move(old)
        await pass_time(1.9)
        assert (await it.told())[:2] == ("Running", "Evicting")
        await pass_time(1.5)
        assert (await it.told())[0] == "Succeed"


@on_virtual_time
async def test_a_slow_successor_is_reported_in_the_status() -> None:
    async with cluster_with_scheduler(ready=60.0) as it, running_controller(it.api, it.clock):
        [old] = await it.start(1)
        await it.move(old)
        await pass_time(10)
        assert (await it.told())[:2] == ("Running", "WaitForBoundPodReady")


@on_virtual_time
async def test_a_pod_of_a_stateful_set_comes_back_under_its_name() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start(2, kinds.STATEFUL_SET))[0]
        await it.move(old)
        await pass_time(30)
        [new] = [one for one in await it.pods() if one.metadata.name == old.metadata.name]
        assert (await it.told())[0] == "Succeed"
        assert new.metadata.uid != old.metadata.uid and new.spec.node_name != old.spec.node_name


@on_virtual_time
async def test_a_job_written_by_hand_needs_no_uid() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        reference = {"namespace": "default", "name": old.metadata.name}
        await it.create(kinds.POD_MIGRATION_JOB, {"metadata": {"name": "move"}, "spec": {"podRef": reference}})
        await pass_time(30)
        job = await it.job()
        assert (job.status.phase, job.spec.pod_ref.uid) == ("Succeed", old.metadata.uid)
        assert job.spec.reservation_options and job.spec.reservation_options.reservation_ref
        [made] = await it.reservations()
        assert job.spec.reservation_options.reservation_ref.uid == made.metadata.uid


@on_virtual_time
async def test_a_pod_with_a_target_node_moves_there() -> None:
    async with cluster_with_controller(nodes=4) as it:
        old = (await it.start())[0]
        await it.move(old, annotations={"restow.sh/target-node": "n4"})
        await pass_time(30)
        assert (await it.job()).status.node_name == "n4"
        assert (await it.told())[0] == "Succeed"


@on_virtual_time
async def test_mode_evict_directly_evicts_without_a_seat() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        await it.move(old, mode="EvictDirectly")
        await pass_time(30)
        assert await it.told() == ("Succeed", None, f"pod default/{old.metadata.name} is gone")
        assert await it.reservations() == []


@pytest.mark.parametrize("policy", ["Eviction", "Delete"])
@on_virtual_time
async def test_a_pod_is_evicted_or_deleted_with_its_grace_period(policy: str) -> None:
    async with cluster_with_stub_scheduler(stop=60.0) as it:
        seen = FaultyApi(it.api, random.Random(1))
        async with running_controller(seen, it.clock, evictionPolicy=policy):
            old = (await it.start(terminationGracePeriodSeconds=60))[0]
            await it.move(old, deleteOptions={"gracePeriodSeconds": 7})
            await pass_time(4)
            leaving = await it.document(kinds.POD, old.metadata.name)
            assert leaving["metadata"]["deletionGracePeriodSeconds"] == 7
            await pass_time(20)
            assert (await it.told())[0] == "Succeed"
        verb = "evict Pod" if policy == "Eviction" else "delete Pod"
        assert sum(name.startswith(verb) for name in seen.writes.names) == 1


class Hasty:
    """An Api that hears of every eviction or deletion of a pod that is not only tried, before it takes effect."""

    def __init__(self, api: Api, hear: Callable[[Request], Awaitable[Any]]) -> None:
        self.watch = api.watch
        self._api = api
        self._hear = hear

    async def call(self, request: Request) -> Response:
        leaves = request.subresource == "eviction" or request.verb == "delete"
        if leaves and request.resource.plural == "pods" and "dryRun" not in request.query:
            await self._hear(request)
        return await self._api.call(request)


class Tries:
    """An Api that notes the evictions that are only tried."""

    def __init__(self, api: Api) -> None:
        self.tried: list[Document] = []
        self.watch = api.watch
        self._api = api

    async def call(self, request: Request) -> Response:
        if request.subresource == "eviction" and "dryRun" in request.query:
            self.tried.append(msgspec.json.decode(request.body)["deleteOptions"])
        return await self._api.call(request)


@pytest.mark.parametrize("policy", ["Eviction", "Delete"])
@on_virtual_time
async def test_delete_options_are_those_of_the_job_else_those_configured(policy: str) -> None:
    sent = list[Document]()

    async def hear(request: Request) -> None:
        body = msgspec.json.decode(request.body)
        sent.append(body.get("deleteOptions", body))

    async with cluster_with_stub_scheduler() as it:
        options = {"gracePeriodSeconds": 9, "propagationPolicy": "Background"}
        async with running_controller(
            Hasty(it.api, hear), it.clock, evictionPolicy=policy, defaultDeleteOptions=options
        ):
            first, second = await it.start(2)
            for pod, own in ((first, {}), (second, {"gracePeriodSeconds": 7, "propagationPolicy": "Orphan"})):
                await it.move(pod, pod.metadata.name, deleteOptions=own)
                await pass_time(30)
                assert (await it.told(pod.metadata.name))[0] == "Succeed"
    assert [one | options | {"preconditions": {"uid": first.metadata.uid}} == one for one in sent] == [True, False]
    asked = {"gracePeriodSeconds": 7, "propagationPolicy": "Orphan", "preconditions": {"uid": second.metadata.uid}}
    assert sent[1] | asked == sent[1]


@pytest.mark.parametrize("policy", ["Eviction", "Delete"])
@on_virtual_time
async def test_the_dry_run_has_the_options_of_the_eviction(policy: str) -> None:
    async with cluster_with_stub_scheduler() as it:
        seen = Tries(it.api)
        async with running_controller(seen, it.clock, evictionPolicy=policy):
            old = (await it.start())[0]
            await it.move(old, deleteOptions={"gracePeriodSeconds": 7, "propagationPolicy": "Orphan"})
            await pass_time(30)
        asked = {"gracePeriodSeconds": 7, "propagationPolicy": "Orphan", "preconditions": {"uid": old.metadata.uid}}
        assert seen.tried and all(one | asked == one for one in seen.tried), seen.tried


@pytest.mark.parametrize("policy", ["Eviction", "Delete"])
@on_virtual_time
async def test_a_new_pod_of_the_same_name_is_not_evicted_by_a_request_under_way(policy: str) -> None:
    async with cluster_with_stub_scheduler() as it:
        old = (await it.start(2, kinds.STATEFUL_SET))[0]
        name, came = old.metadata.name, list[str]()

        async def be_replaced(request: Request) -> None:
            if not came:
                await it.client.delete(kinds.POD, name, "default", grace_seconds=0)
                await pass_time(3)
                came.append((await it.client.get(kinds.POD, name, "default")).metadata.uid)

        async with running_controller(Hasty(it.api, be_replaced), it.clock, evictionPolicy=policy):
            await it.move(old)
            await pass_time(40)
            now = await it.client.get(kinds.POD, name, "default")
            assert [now.metadata.uid] == came != [old.metadata.uid] and await pod_stays(it, now)
            assert (await it.told())[0] == "Succeed"


@on_virtual_time
async def test_a_given_reservation_is_used_unchanged() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        it.seats.places = "n3" if old.spec.node_name != "n3" else "n2"
        await it.create(kinds.RESERVATION, spare())
        before = (await it.reservations())[0]
        await it.move(old, reservationOptions={"reservationRef": {"name": "spare"}})
        await pass_time(30)
        assert (await it.told())[0] == "Succeed"
        [after] = await it.reservations()
        assert (after.spec, after.metadata.uid) == (before.spec, before.metadata.uid)


@on_virtual_time
async def test_a_given_reservation_outlives_a_job_that_fails() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        it.seats.places = old.spec.node_name
        await it.create(kinds.RESERVATION, spare())
        await it.move(old, reservationOptions={"reservationRef": {"name": "spare"}})
        await pass_time(30)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod") and "where it already is" in (message or "")
        assert len(await it.reservations()) == 1


@on_virtual_time
async def test_a_template_is_merged_with_the_pod() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        template = {"metadata": {"labels": {"team": "a"}}, "spec": {"queue": "gold", "ttl": "1m"}}
        await it.move(old, reservationOptions={"template": template})
        await pass_time(30)
        assert (await it.told())[0] == "Succeed"
        [made] = await it.reservations()
        assert (made.spec.queue, (made.metadata.labels or {})["team"]) == ("gold", "a")
        assert made.spec.ttl != "1m", "too short for the farewell: it was extended"


@on_virtual_time
async def test_status_condition_and_event_have_the_same_message_once() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        it.seats.refusing = "0/3 nodes are available: 3 Insufficient cpu."
        await it.move(old)
        await pass_time(60)
        told = f"no seat outside its own node {old.spec.node_name}: {it.seats.refusing}"
        assert await it.told() == ("Running", "Unschedulable", told)
        assert await events_with_reason(it, "Unschedulable") == [("move", told)]
        kinds_of = {one.reason: one.type for one in (await it.client.list(kinds.EVENT)).items}
        assert (kinds_of["Unschedulable"], kinds_of["Admitted"]) == ("Warning", "Normal")
        it.seats.refusing = None
        await pass_time(60)
        assert (await it.told())[0] == "Succeed"
        assert len(await events_with_reason(it, "Complete")) == 1


@on_virtual_time
async def test_a_failed_job_is_a_warning_event_and_an_aborted_one_is_not() -> None:
    async with cluster_with_controller() as it:
        first, second = await it.start(2)
        it.seats.refusing = "no room"
        await it.move(first, "late", ttl="30s")
        await it.move(second, "unwanted")
        await pass_time(5)
        await it.set_status("unwanted", phase="Aborted")
        await pass_time(40)
        told = {one.reason: one.type for one in (await it.client.list(kinds.EVENT)).items}
        assert (told["Timeout"], told["Aborted"]) == ("Warning", "Normal")


@pytest.mark.parametrize(
    ("mode", "seat"),
    [("ReservationFirst", "to its seat on node {node}"), ("EvictDirectly", "without a seat of its own")],
)
@on_virtual_time
async def test_an_evicted_pod_gets_an_event_with_its_job_and_seat(mode: str, seat: str) -> None:
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        await it.move(old, mode=mode)
        await pass_time(30)
        where = seat.format(node=(await it.job()).status.node_name)
        told = f"evicted from node {old.spec.node_name} by PodMigrationJob move: it moves {where}"
        assert await events_with_reason(it, "Migrating") == [(old.metadata.name, told)]
        [event] = [one for one in (await it.client.list(kinds.EVENT)).items if one.reason == "Migrating"]
        assert (event.involved_object.kind, event.involved_object.uid) == ("Pod", old.metadata.uid)
        assert event.metadata.namespace == "default"


@on_virtual_time
async def test_printer_columns_of_a_job_show_pod_nodes_and_message() -> None:
    [version] = custom_resource_definition(kinds.POD_MIGRATION_JOB)["spec"]["versions"]
    printer = custom_printer(version["additionalPrinterColumns"])
    shown = [place for place, column in enumerate(printer.columns) if not column.priority]
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        await it.move(old)
        await pass_time(30)
        cells = printer.cells(await it.document(kinds.POD_MIGRATION_JOB, "move"), it.clock.now())
        job, pod = await it.job(), old.metadata.name
        assert [printer.columns[place].name for place in shown[1:]] == [
            "Phase",
            "PodNamespace",
            "Pod",
            "From",
            "To",
            "Age",
            "Message",
        ]
        new = job.status.pod_ref.name if job.status.pod_ref else ""
        told = f"pod default/{pod} moved to node {job.status.node_name} as {new}"
        assert [cells[place] for place in shown] == [
            "move",
            "Succeed",
            "default",
            pod,
            old.spec.node_name,
            job.status.node_name,
            "30s",
            told,
        ]


class Counting:
    """ports.Api over another one that counts what is asked of it, but for Events."""

    def __init__(self, api: Api) -> None:
        self.calls: Counter[str] = Counter()
        self.watch = api.watch
        self._api = api

    async def call(self, request: Request) -> Response:
        if request.resource.plural != "events":
            self.calls["read" if request.verb in ("get", "list") else "write"] += 1
        return await self._api.call(request)


@on_virtual_time
async def test_a_move_costs_few_calls() -> None:
    """Of a move the API server sees all that there is to see once before the seat is made, and once before the pod is
    evicted; everything else comes from watches."""
    async with cluster_with_scheduler() as it:
        seen = Counting(it.api)
        async with running_controller(seen, it.clock):
            old = (await it.start())[0]
            seen.calls.clear()
            await it.move(old)
            await pass_time(30)
        assert (await it.told())[0] == "Succeed"
        assert seen.calls["read"] <= 9 and seen.calls["write"] <= 10, seen.calls


@on_virtual_time
async def test_many_pods_move_at_once() -> None:
    async with cluster_with_controller(nodes=6, maxConcurrentReconciles=4) as it:
        for number in range(3):
            made = template("100m", app=f"w{number}")
            await it.create(kinds.DEPLOYMENT, workload(f"w{number}", 4, pods=made))
        await pass_time(10)
        pods = await it.pods()
        for pod in pods:
            await it.move(pod, pod.metadata.name)
        await pass_time(30)
        assert {(await it.told(pod.metadata.name))[0] for pod in pods} == {"Succeed"}
        assert not {pod.metadata.uid for pod in pods} & {pod.metadata.uid for pod in await it.pods()}
        assert len(await it.pods()) == 12 and all(map(is_pod_ready, await it.pods()))


@on_virtual_time
async def test_a_seat_is_of_the_queue_of_its_pod() -> None:
    async with cluster_with_stub_scheduler() as it, running_controller(it.api, it.clock):
        old = (await it.start(annotations={"scheduling.volcano.sh/queue-name": "gold"}))[0]
        await it.move(old)
        await pass_time(20)
        assert [one.spec.queue for one in await it.reservations()] == ["gold"]
        assert (await it.client.get(kinds.POD_MIGRATION_JOB, "move")).status.phase == "Succeed"
