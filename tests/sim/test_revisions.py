"""Templates of sets that are kept: which is the newest, and going back."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from restow.ports import STRATEGIC_PATCH
from restow.sim.world.raw_objects import CONTROLLER_REVISION
from restow.sim.world.template import REVISION_HASH
from tests.sim.simulated_cluster import on_virtual_time, pass_time, simulated_cluster, workload
from tests.sim.status_readers import status


@pytest.mark.parametrize("kind", [kinds.STATEFUL_SET, kinds.DAEMON_SET], ids=["StatefulSet", "DaemonSet"])
def test_returning_template_becomes_the_newest_revision(kind: kinds.Kind[Any]) -> None:
    @on_virtual_time
    async def story() -> None:
        async with simulated_cluster(nodes=2) as it:
            await it.create(kind, workload("x", 2 if kind is kinds.STATEFUL_SET else None, revisionHistoryLimit=1))
            for label in ("2", None, "3", None):
                await pass_time(30)
                await it.patch(kind, "x", {"spec": {"template": {"metadata": {"labels": {"v": label}}}}})
            await pass_time(30)
            revisions = (await it.client.list(CONTROLLER_REVISION.whole, "default")).items
            templates = {each["revision"]: each["data"]["spec"]["template"] for each in revisions}
            assert {number: made["metadata"]["labels"].get("v") for number, made in templates.items()} == {
                4: "3",
                5: None,
            }
            assert all(made["$patch"] == "replace" for made in templates.values())
            newest = next(each["metadata"]["name"] for each in revisions if each["revision"] == 5)
            assert {(each.metadata.labels or {})[REVISION_HASH] for each in await it.pods()} == {newest}

    story()


@on_virtual_time
async def test_daemon_set_rollback_removes_fields_that_the_revision_did_not_have() -> None:
    async with simulated_cluster(nodes=2) as it:
        await it.create(kinds.DAEMON_SET, workload("x", None))
        await pass_time(10)
        [first] = (await it.client.list(CONTROLLER_REVISION.whole, "default")).items
        await it.patch(kinds.DAEMON_SET, "x", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await pass_time(30)
        await it.client.patch(kinds.DAEMON_SET, "x", first["data"], "default", type=STRATEGIC_PATCH)
        await pass_time(30)
        name = first["metadata"]["name"]
        assert [(each.metadata.labels or {})[REVISION_HASH] for each in await it.pods()] == [name, name]
        assert (await status(it, kinds.DAEMON_SET, "x"))["updatedNumberScheduled"] == 2


@on_virtual_time
async def test_a_set_made_again_takes_over_the_revisions_its_namesake_left() -> None:
    async with simulated_cluster(nodes=1) as it:
        await it.create(kinds.DAEMON_SET, workload("x", None))
        await pass_time(10)
        await it.delete(kinds.DAEMON_SET, "x", propagation="Orphan")
        await pass_time(10)
        made = await it.create(kinds.DAEMON_SET, workload("x", None))
        await pass_time(10)
        [revision] = (await it.client.list(CONTROLLER_REVISION.whole, "default")).items
        assert [each["uid"] for each in revision["metadata"]["ownerReferences"]] == [made.metadata.uid]
