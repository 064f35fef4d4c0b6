"""What people do to jobs: abort, pause, edit and delete them, and make several for one pod."""

from __future__ import annotations

from restow.model import kinds
from tests.control.migrations.migration_cluster import cluster_with_controller, pod_stays
from tests.sim.simulated_cluster import is_pod_ready, on_virtual_time, pass_time


@on_virtual_time
async def test_an_abort_before_the_eviction_releases_the_seat() -> None:
    async with cluster_with_controller() as it:
        old = await it.seek()
        assert len(await it.reservations()) == 1
        await it.set_status("move", phase="Aborted")
        it.seats.refusing = None
        await pass_time(10)
        assert await it.told() == ("Aborted", "Aborted", "the job was aborted by a user")
        assert await it.reservations() == [] and await pod_stays(it, old)


@on_virtual_time
async def test_an_abort_after_the_eviction_leaves_the_seat_to_the_successor() -> None:
    async with cluster_with_controller() as it:
        await it.leave()
        await it.set_status("move", phase="Aborted")
        await pass_time(60)
        [kept] = await it.reservations()
        it.seats.binding = True
        await pass_time(10)
        [used] = await it.reservations()
        assert used.status.state.phase == "Succeeded" and used.metadata.uid == kept.metadata.uid
        assert (await it.told())[0] == "Aborted"


@on_virtual_time
async def test_a_paused_job_does_nothing_and_its_time_does_not_count() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        await it.move(old, paused=True, ttl="60s")
        await pass_time(100)
        assert (await it.told())[1] == "Paused" and await pod_stays(it, old)
        await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": {"paused": False}})
        it.seats.refusing = "no room"
        await pass_time(5)
        await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": {"paused": True}})
        await pass_time(100)
        it.seats.refusing = None
        await pass_time(5)
        assert (await it.told())[1] == "Paused" and await pod_stays(it, old)
        await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": {"paused": False}})
        await pass_time(30)
        assert (await it.told())[0] == "Succeed"


@on_virtual_time
async def test_the_reservation_of_a_deleted_job_is_collected() -> None:
    async with cluster_with_controller() as it:
        old = await it.seek()
        await it.delete(kinds.POD_MIGRATION_JOB, "move")
        it.seats.refusing = None
        await pass_time(30)
        assert len(await it.reservations()) == 1, "what was sent before may still take effect"
        await pass_time(70)
        assert await it.reservations() == [] and await pod_stays(it, old)


@on_virtual_time
async def test_a_deleted_job_leaves_the_seat_to_the_successor_of_a_pod_that_left() -> None:
    async with cluster_with_controller() as it:
        await it.leave()
        await it.delete(kinds.POD_MIGRATION_JOB, "move")
        await pass_time(120)
        assert len(await it.reservations()) == 1
        it.seats.binding = True
        await pass_time(10)
        assert [one.status.state.phase for one in await it.reservations()] == ["Succeeded"]
        assert all(map(is_pod_ready, await it.pods()))


@on_virtual_time
async def test_of_two_jobs_for_one_pod_the_older_continues() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        await it.move(old, "first")
        await it.move(old, "second")
        await pass_time(30)
        assert (await it.told("first"))[0] == "Succeed"
        phase, reason, message = await it.told("second")
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod") and "job first moves it already" in (message or "")


@on_virtual_time
async def test_a_paused_job_does_not_keep_another_job_from_moving_the_pod() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        await it.move(old, "first", paused=True)
        await it.move(old, "second")
        await pass_time(30)
        assert ((await it.told("first"))[1], (await it.told("second"))[0]) == ("Paused", "Succeed")


@on_virtual_time
async def test_after_a_failed_job_another_job_may_move_the_pod() -> None:
    async with cluster_with_controller() as it:
        old = await it.seek(name="first", ttl="5s")
        await pass_time(5)
        assert (await it.told("first"))[0] == "Failed" and await pod_stays(it, old)
        it.seats.refusing = None
        await it.move(old, "second")
        await pass_time(30)
        assert (await it.told("second"))[0] == "Succeed"


@on_virtual_time
async def test_an_edited_job_keeps_waiting_for_its_limit() -> None:
    async with cluster_with_controller(maxMigratingGlobally=1) as it:
        await it.line_up()
        await it.patch(kinds.POD_MIGRATION_JOB, "b", {"spec": {"ttl": "9m"}, "metadata": {"labels": {"x": "y"}}})
        await pass_time(20)
        assert (await it.told("b"))[:2] == ("Pending", "MaxMigratingGlobally") and len(await it.reservations()) == 1


@on_virtual_time
async def test_a_recreated_job_of_the_same_name_is_another_job() -> None:
    async with cluster_with_controller(maxMigratingGlobally=1) as it:
        second = await it.line_up()
        await it.delete(kinds.POD_MIGRATION_JOB, "b")
        await it.move(second, "b", paused=True)
        await it.delete(kinds.POD_MIGRATION_JOB, "a")
        await pass_time(20)
        assert (await it.told("b"))[:2] == ("Pending", "Paused") and await pod_stays(it, second)
