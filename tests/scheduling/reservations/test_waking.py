"""Who is tried again when something happens to reservations."""

from __future__ import annotations

import pytest

from restow.model.objects import ObjectReference, OwnerReference, ReservationOwner
from restow.scheduling.wakeups import RESERVATION, Deed, News, Thing, Wakeups
from tests.model.cluster.builders import node, pod
from tests.scheduling.reservations.stage import booking, user

PENDING, AVAILABLE = booking("r", phase="Pending"), booking("r", at={0: "n1"})
OPENED = News(Thing.RESERVATION, Deed.UPDATED, old=PENDING, new=AVAILABLE)
SET = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-1", uid="uid-1")
BY_CONTROLLER = booking("r", at={0: "n1"}, owners=[ReservationOwner(controller=ObjectReference(name="web"))])


@pytest.mark.parametrize(
    ("waiting", "news", "woken"),
    [
        pytest.param(user("p"), OPENED, True, id="the owner's pod, whatever refused it"),
        pytest.param(user("p", labels={}), OPENED, False, id="another's"),
        pytest.param(user("p", namespace="other"), OPENED, False, id="of another namespace"),
        pytest.param(
            user("p", labels={}, owner=SET),
            News(Thing.RESERVATION, Deed.ADDED, new=BY_CONTROLLER),
            True,
            id="its owner's owner may be meant",
        ),
        pytest.param(
            user("p"),
            News(Thing.RESERVATION, Deed.UPDATED, old=AVAILABLE, new=AVAILABLE),
            False,
            id="it was available already",
        ),
        pytest.param(user("p"), News(Thing.RESERVATION, Deed.ADDED, new=PENDING), False, id="not available yet"),
    ],
)
def test_a_seat_that_opens_wakes_those_who_may_take_it(waiting, news: News, woken: bool) -> None:
    wakeups = Wakeups()
    plugins = frozenset(["NodeResourcesFit"])
    assert (wakeups.concerns(plugins, news) and wakeups.wakes(waiting, plugins, news)) == woken


@pytest.mark.parametrize(
    ("news", "woken"),
    [
        pytest.param(News(Thing.RESERVATION, Deed.UPDATED, old=AVAILABLE, new=PENDING), True, id="any change of one"),
        pytest.param(News(Thing.RESERVATION, Deed.DELETED, old=AVAILABLE), True, id="one is gone"),
        pytest.param(News(Thing.POD, Deed.DELETED, old=pod("old")), True, id="a pod has left"),
        pytest.param(News(Thing.POD, Deed.DELETED, old=pod("old", namespace="other")), False, id="elsewhere"),
        pytest.param(News(Thing.POD, Deed.ADDED, new=pod("new")), False, id="a pod has come"),
        pytest.param(
            News(Thing.NODE, Deed.UPDATED, old=node("n1"), new=node("n1", unschedulable=True)), True, id="a node"
        ),
    ],
)
def test_who_waits_for_a_reservation_is_woken_by_what_may_open_it(news: News, woken: bool) -> None:
    assert Wakeups().wakes(user("p", uses="r"), [RESERVATION], news) == woken
