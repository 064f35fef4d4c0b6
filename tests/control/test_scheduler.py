"""The scheduler in a cluster: from pending to Ready, and what it says where that cannot be."""

from __future__ import annotations

from restow.model import kinds
from tests.control.stage import check_room, condition, events, group, member, places, stage
from tests.sim.stage import node, pass_time, pod, ready, virtual, workload


@virtual
async def test_pods_become_ready() -> None:
    async with stage() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 6))
        await pass_time(10)
        pods = await it.pods()
        assert len(pods) == 6
        assert all(map(ready, pods))
        assert sorted(await events(it, "Scheduled")) == sorted(
            (one.metadata.name, f"Successfully assigned default/{one.metadata.name} to {one.spec.node_name}")
            for one in pods
        )
        await check_room(it)


@virtual
async def test_a_pod_that_fits_nowhere_is_told_why_and_woken_by_a_new_node() -> None:
    async with stage(nodes=2) as it:
        await it.create(kinds.POD, pod("big", "6"))
        await pass_time(5)
        why = "0/2 nodes are available: 2 Insufficient cpu."
        assert await condition(it, "big") == ("False", "Unschedulable", why)
        assert await events(it, "FailedScheduling") == [("big", why)]
        await it.create(kinds.NODE, node("large", cpu="8"))
        await pass_time(12)
        assert await places(it) == {"big": "large"}
        assert (await condition(it, "big"))[0] == "True"


@virtual
async def test_a_gang_waits_until_it_is_whole() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.POD_GROUP, group("train", 3))
        for number in (1, 2):
            await it.create(kinds.POD, member(f"w{number}", "train"))
        await pass_time(5)
        assert await places(it) == {"w1": None, "w2": None}
        status, _, message = await condition(it, "w1")
        assert (status, message) == ("False", "pod group default/train needs 3 pods, 2 exist")
        await it.create(kinds.POD, member("w3", "train"))
        await pass_time(15)
        assert await places(it) == {"w1": "n1", "w2": "n1", "w3": "n1"}
        status = (await it.document(kinds.POD_GROUP, "train"))["status"]
        assert (status["phase"], status["running"]) == ("Running", 3)
        assert [(one["type"], one["status"]) for one in status["conditions"]] == [
            ("Unschedulable", "False"),
            ("Scheduled", "True"),
        ]


@virtual
async def test_room_goes_to_the_more_important_pod() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
        await it.create(kinds.POD, pod("first", "4"))
        await pass_time(5)
        await it.create(kinds.POD, pod("low", "4"))
        await it.create(kinds.POD, pod("high", "4", priorityClassName="high"))
        await pass_time(5)
        await it.delete(kinds.POD, "first")
        await pass_time(30)
        assert await places(it) == {"low": None, "high": "n1"}


@virtual
async def test_the_room_of_a_terminating_pod_is_kept_and_then_used() -> None:
    async with stage(nodes=1, stop=20.0) as it:
        await it.create(kinds.POD, pod("old", "4", terminationGracePeriodSeconds=20))
        await pass_time(5)
        await it.delete(kinds.POD, "old")
        await it.create(kinds.POD, pod("new", "3"))
        await pass_time(5)
        waiting = await it.document(kinds.POD, "new")
        assert waiting["status"]["nominatedNodeName"] == "n1"
        status, reason, message = await condition(it, "new")
        assert (status, reason) == ("False", "Unschedulable")
        assert "are leaving on node n1" in (message or "")
        await it.create(kinds.POD, pod("later", "2"))
        await pass_time(40)
        assert await places(it) == {"new": "n1", "later": None}
        assert "nominatedNodeName" not in (await it.document(kinds.POD, "new"))["status"]


@virtual
async def test_a_nomination_that_came_to_nothing_is_withdrawn() -> None:
    async with stage(nodes=1, stop=20.0) as it:
        await it.create(kinds.POD, pod("old", "4", terminationGracePeriodSeconds=20))
        await pass_time(5)
        await it.delete(kinds.POD, "old")
        await it.create(kinds.POD, pod("new", "3"))
        await pass_time(5)
        await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": True}})
        await pass_time(40)
        assert await places(it) == {"new": None}
        assert "nominatedNodeName" not in (await it.document(kinds.POD, "new"))["status"]
        assert (await condition(it, "new"))[2] == "0/1 nodes are available: 1 node(s) were unschedulable."


CLASS = {"metadata": {"name": "fast"}, "provisioner": "sim/disk", "volumeBindingMode": "WaitForFirstConsumer"}
CLAIM = {
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
MOUNT = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]


@virtual
async def test_a_volume_is_made_where_its_first_pod_goes() -> None:
    async with stage(provision=5.0) as it:
        await it.create(kinds.STORAGE_CLASS, CLASS)
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, CLAIM)
        await it.create(kinds.POD, pod("db", volumes=MOUNT))
        await pass_time(2)
        claim = await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data")
        expected = (await it.document(kinds.POD, "db"))["status"]["nominatedNodeName"]
        assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == expected
        assert await places(it) == {"db": None}
        await pass_time(10)
        assert await places(it) == {"db": expected}
        assert all(map(ready, await it.pods()))


@virtual
async def test_a_missing_claim_wakes_its_pod_when_it_comes() -> None:
    async with stage() as it:
        await it.create(kinds.STORAGE_CLASS, CLASS)
        await it.create(kinds.POD, pod("db", volumes=MOUNT))
        await pass_time(5)
        assert 'persistentvolumeclaim "data" not found' in ((await condition(it, "db"))[2] or "")
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, CLAIM)
        await pass_time(15)
        assert all(map(ready, await it.pods()))


@virtual
async def test_gated_pods_are_left_alone_until_the_gate_opens() -> None:
    async with stage() as it:
        await it.create(kinds.POD, pod("later", schedulingGates=[{"name": "wait"}]))
        await pass_time(5)
        assert (await condition(it, "later"))[1] == "SchedulingGated"
        await it.patch(kinds.POD, "later", {"spec": {"schedulingGates": []}})
        await pass_time(5)
        assert all(map(ready, await it.pods()))


@virtual
async def test_pods_of_others_count_and_are_left_alone() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.POD, pod("theirs", "1", schedulerName="other"))
        await it.create(kinds.POD, pod("placed", "3", schedulerName="other", nodeName="n1"))
        await pass_time(2)
        await it.create(kinds.POD, pod("ours", "2"))
        await pass_time(5)
        assert await places(it) == {"theirs": None, "placed": "n1", "ours": None}
        assert (await it.document(kinds.POD, "theirs"))["status"].get("conditions") is None
        assert await events(it, "Scheduled") == []


@virtual
async def test_a_queue_over_its_limit_is_named() -> None:
    async with stage() as it:
        await it.create(kinds.QUEUE, {"metadata": {"name": "small"}, "spec": {"capability": {"cpu": "1"}}})
        queue = {"scheduling.volcano.sh/queue-name": "small"}
        for name in ("a", "b"):
            await it.create(kinds.POD, pod(name, "1", annotations=queue))
        await pass_time(5)
        assert sorted(map(str, (await places(it)).values()))[0] == "None"
        [(_, message)] = await events(it, "FailedScheduling")
        assert message == "queue small would exceed its capability: cpu (limit 1, used 1, requested 1)"


@virtual
async def test_a_finished_gang_is_completed() -> None:
    async with stage() as it:
        await it.create(kinds.POD_GROUP, group("batch", 2))
        ends = {"scheduling.k8s.io/group-name": "batch", "sim.restow.sh/run-seconds": "5"}
        for name in ("a", "b"):
            await it.create(kinds.POD, pod(name, annotations=ends, restartPolicy="Never"))
        await pass_time(30)
        status = (await it.document(kinds.POD_GROUP, "batch"))["status"]
        assert (status["phase"], status["succeeded"], status.get("running")) == ("Completed", 2, None)
