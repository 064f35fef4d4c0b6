"""Koordinator's quality of service and priority class of a pod, and Kubernetes' own quality of service.

Koordinator's are enumerations in ascending order, so that they sort.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from restow.model.objects import Pod
from restow.model.qos import qos_class
from restow.model.quantity import QuantityError

QOS_LABEL: Final = "koordinator.sh/qosClass"
PRIORITY_CLASS_LABEL: Final = "koordinator.sh/priority-class"


class KoordinatorQos(IntEnum):
    """Best effort, latency sensitive, with reserved cores, with exclusive ones; SYSTEM is the node's own."""

    BE = 0
    LS = 1
    LSR = 2
    LSE = 3
    SYSTEM = 4


class KoordinatorPriorityClass(IntEnum):
    FREE = 0
    BATCH = 1
    MID = 2
    PROD = 3
    NONE = 4


_BANDS: Final = {
    KoordinatorPriorityClass.PROD: range(9000, 10_000),
    KoordinatorPriorityClass.MID: range(7000, 8000),
    KoordinatorPriorityClass.BATCH: range(5000, 6000),
    KoordinatorPriorityClass.FREE: range(3000, 4000),
}
_CLASS_NAMES: Final = {f"koord-{band.name.lower()}": band for band in _BANDS}


def koordinator_qos(pod: Pod) -> KoordinatorQos:
    """The QoS of the pod's label; without a label, BestEffort pods are BE and all others LS."""
    label = (pod.metadata.labels or {}).get(QOS_LABEL, "")
    if label in KoordinatorQos.__members__:
        return KoordinatorQos[label]
    return KoordinatorQos.BE if kubernetes_qos(pod) == "BestEffort" else KoordinatorQos.LS


def pod_priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def koordinator_priority_class(pod: Pod) -> KoordinatorPriorityClass:
    """The class of the pod's label, else the band of its priority, else the class that its QoS label is used with."""
    labels = pod.metadata.labels or {}
    named = _CLASS_NAMES.get(labels.get(PRIORITY_CLASS_LABEL, ""))
    if named is not None:
        return named
    value = pod.spec.priority
    if value is not None:
        band_of_value = next((band for band, values in _BANDS.items() if value in values), None)
        if band_of_value is not None:
            return band_of_value
    label = labels.get(QOS_LABEL, "")
    if label == KoordinatorQos.BE.name:
        return KoordinatorPriorityClass.BATCH
    return KoordinatorPriorityClass.PROD if label in KoordinatorQos.__members__ else KoordinatorPriorityClass.NONE


def kubernetes_qos(pod: Pod) -> str:
    """BestEffort, Burstable or Guaranteed."""
    if pod.status.qos_class:
        return pod.status.qos_class
    try:
        return qos_class(pod.spec)
    except QuantityError:
        return "Burstable"
