"""Which pods are requeued when something happens to reservations."""

from __future__ import annotations

import pytest

from restow.model.objects import ObjectReference, OwnerReference, Pod, ReservationOwner
from restow.scheduling.cluster_events import RESERVATION, ActionType, ClusterEvent, EventResource, QueueingHints
from tests.model.cluster.builders import node, pod
from tests.model.reservations.builders import web_pod, web_reservation

PENDING, AVAILABLE = web_reservation("r", phase="Pending"), web_reservation("r", at={0: "n1"})
OPENED = ClusterEvent(EventResource.RESERVATION, ActionType.UPDATED, old=PENDING, new=AVAILABLE)
SET = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-1", uid="uid-1")
BY_CONTROLLER = web_reservation("r", at={0: "n1"}, owners=[ReservationOwner(controller=ObjectReference(name="web"))])


@pytest.mark.parametrize(
    ("waiting", "news", "woken"),
    [
        pytest.param(web_pod("p"), OPENED, True, id="the owner's pod, whatever refused it"),
        pytest.param(web_pod("p", labels={}), OPENED, False, id="another's"),
        pytest.param(web_pod("p", namespace="other"), OPENED, False, id="of another namespace"),
        pytest.param(
            web_pod("p", labels={}, owner=SET),
            ClusterEvent(EventResource.RESERVATION, ActionType.ADDED, new=BY_CONTROLLER),
            True,
            id="its owner's owner may be meant",
        ),
        pytest.param(
            web_pod("p"),
            ClusterEvent(EventResource.RESERVATION, ActionType.UPDATED, old=AVAILABLE, new=AVAILABLE),
            False,
            id="it was available already",
        ),
        pytest.param(
            web_pod("p"),
            ClusterEvent(EventResource.RESERVATION, ActionType.ADDED, new=PENDING),
            False,
            id="not available yet",
        ),
    ],
)
def test_seat_that_opens_requeues_pods_of_its_owners(waiting: Pod, news: ClusterEvent, woken: bool) -> None:
    queueing_hints = QueueingHints()
    plugins = frozenset(["NodeResourcesFit"])
    assert (
        queueing_hints.may_help_any(plugins, news) and queueing_hints.is_worth_requeuing(waiting, plugins, news)
    ) == woken


@pytest.mark.parametrize(
    ("news", "woken"),
    [
        pytest.param(
            ClusterEvent(EventResource.RESERVATION, ActionType.UPDATED, old=AVAILABLE, new=PENDING),
            True,
            id="any change of one",
        ),
        pytest.param(
            ClusterEvent(EventResource.RESERVATION, ActionType.DELETED, old=AVAILABLE), True, id="one is gone"
        ),
        pytest.param(ClusterEvent(EventResource.POD, ActionType.DELETED, old=pod("old")), True, id="a pod has left"),
        pytest.param(
            ClusterEvent(EventResource.POD, ActionType.DELETED, old=pod("old", namespace="other")),
            False,
            id="elsewhere",
        ),
        pytest.param(ClusterEvent(EventResource.POD, ActionType.ADDED, new=pod("new")), False, id="a pod has come"),
        pytest.param(
            ClusterEvent(EventResource.NODE, ActionType.UPDATED, old=node("n1"), new=node("n1", unschedulable=True)),
            True,
            id="a node",
        ),
    ],
)
def test_pod_waiting_for_a_reservation_is_requeued_by_events_that_may_open_it(news: ClusterEvent, woken: bool) -> None:
    assert QueueingHints().is_worth_requeuing(web_pod("p", uses="r"), [RESERVATION], news) == woken
