"""Descriptions of the fields of our kinds, as `kubectl explain resv.spec.ttl` prints them.

By kind and path; `crds` writes them into the definitions. A field without an entry has the docstring of its type.
"""

from __future__ import annotations

from collections.abc import Mapping

from restow.model.kinds import POD_GROUP, POD_MIGRATION_JOB, QUEUE, RESERVATION

_RESERVATION_SPEC: Mapping[str, str] = {
    "": "Which seats are reserved, for which owners, and for how long.",
    "schedulerName": "The scheduler that handles the reservation, one of scheduler.schedulerNames of the "
    "configuration; if left out, any of them. It is the default of the templates.",
    "minAvailable": "The number of seats that must be held at once before the reservation is Available; all of "
    "them if left out.",
    "queue": "The queue that the seats are charged to; default if left out.",
    "owners": "The pods that may consume a seat; all entries refer to the namespace of the reservation.",
    "owners.object": "A Pod or a PodGroup, by name or uid; an object of another kind means the pods that it owns.",
    "owners.controller": "A workload, by name or uid: all pods with it in their chain of owners.",
    "owners.labelSelector": "Pods with these labels, and pods of a PodGroup with these labels.",
    "ttl": "How long the reservation lives after its creation, such as 600s or 1h30m; 0s is for ever. If both ttl and "
    "expires are set, the earlier time counts.",
    "expires": "The time at which the reservation ends, such as 2026-01-31T12:00:00Z.",
    "matchPolicy": "Template (the default): only pods with the same spec as the template may consume a seat. Fits: any "
    "pod of an owner that fits the node in place of the seat.",
    "tasks": "The seats: each task has a template and a number of replicas.",
    "tasks.name": "The name of the task within the reservation.",
    "tasks.replicas": "The number of seats of the task; 1 if left out.",
    "tasks.template": "The pod that resources are held for: its requests and its scheduling constraints.",
    "tasks.reservationNodeNames": "Nodes that are tried first, in this order. To require a node, use nodeSelector or "
    "node affinity in the template.",
}
_RESERVATION_STATUS: Mapping[str, str] = {
    "": "The observed state of the reservation.",
    "state": "The phase, and the reason for it.",
    "minAvailable": "The number of seats that must be held at once.",
    "pending": "The number of seats that are not placed yet, or are placed but not usable yet.",
    "available": "The number of seats that are held and not consumed.",
    "succeeded": "The number of seats that are consumed.",
    "failed": "The number of seats that were not consumed when the reservation failed.",
    "conditions": "One condition per phase that the reservation has been in.",
    "currentOwner": "The owner of the pod that consumed the first seat.",
    "currentOwners": "The owners of the pods that consumed seats; at most the first hundred.",
    "allocatable": "The sum of the requests of all seats.",
    "allocated": "The sum of the requests of the consumed seats.",
    "taskStatusCount": "The number of seats in each phase, by task.",
    "placements": "The node of every seat, and the pod that consumed it (podRef).",
    "observedGeneration": "The generation of the spec that this status describes.",
    "observedOwners": "Owners of pods that may have consumed a seat without a record in placements yet.",
    "observedRequests": "The requests that a seat of each task was admitted with.",
    "observedQueue": "The queue that the open seats are charged to; default if left out.",
}
_JOB_SPEC: Mapping[str, str] = {
    "": "The pod to move, and how.",
    "podRef": "The pod, by namespace and name; its uid is filled in before admission, and immutable from then on.",
    "paused": "While true the job makes no progress and its ttl does not run, so that it can be reviewed.",
    "ttl": "How long the job may take from its admission, such as 5m; 0s is no limit; if left out, defaultJobTTL of "
    "the configuration. Waiting for admission has a limit of its own (waitingTTL).",
    "mode": "ReservationFirst: a seat is held for the successor of the pod before the pod is evicted. EvictDirectly: "
    "without a seat. If left out, defaultJobMode of the configuration.",
    "reservationOptions": "The seat of the pod's successor; if left out, a reservation is created from the pod.",
    "reservationOptions.reservationRef": "An existing reservation to use, in the pod's namespace. The name of a "
    "reservation that is created for the job is filled in here.",
    "reservationOptions.template": "Fields of the reservation that is created; they override those made from the pod.",
    "reservationOptions.preemptionOptions": "Not used: no pods are preempted.",
    "deleteOptions": "How the pod is evicted; if left out, defaultDeleteOptions of the configuration.",
    "deleteOptions.gracePeriodSeconds": "The grace period in seconds; if left out, that of the pod.",
    "deleteOptions.propagationPolicy": "Foreground, Background or Orphan.",
    "deleteOptions.preconditions": "The uid of the pod; a resourceVersion is refused.",
    "deleteOptions.dryRun": "With All, the job does everything except creating a reservation and evicting the pod.",
    "deleteOptions.orphanDependents": "Refused: use propagationPolicy.",
    "deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential": "Refused: a pod must be readable to be moved.",
}
_JOB_STATUS: Mapping[str, str] = {
    "": "The progress of the job.",
    "phase": "Pending, Running, Succeed, Failed or Aborted. Write Aborted to end a job.",
    "status": "The condition that was written last.",
    "reason": "The reason for waiting or failing, in CamelCase.",
    "message": "The same as a sentence, with numbers.",
    "conditions": "The steps of the move, one condition per step.",
    "nodeName": "The node that the pod moves to.",
    "podRef": "The pod that consumed the seat.",
    "preemptedPodsRef": "Always empty: no pods are preempted.",
    "preemptedPodsReservation": "Always empty: no pods are preempted.",
}
_QUEUE_SPEC: Mapping[str, str] = {
    "": "The limits of the queue, and the resources that are kept for it.",
    "weight": "The share of the queue relative to others, if deserved is not set.",
    "capability": "The most that its pods and reservations may request together.",
    "reclaimable": "Not used: no resources are reclaimed from a queue.",
    "guarantee": "The resources that are guaranteed to the queue: nodes are locked for its pods.",
    "guarantee.policy": "Best-Effort (the default) evicts no pods. Guaranteed moves pods of others off locked nodes.",
    "guarantee.percentage": "A share of the cluster's nodes.",
    "guarantee.percentage.value": "From 0 to 1, of the number of nodes.",
    "guarantee.percentage.dimensions": "The resources by which nodes are compared.",
    "guarantee.resource": "Amounts of resources. If percentage is set as well, the larger of both counts.",
    "deserved": "The amount by which the share of the queue is measured; not a limit.",
    "priority": "Queues of higher priority are served first.",
    "parent": "Not supported: jobs of a queue with a parent other than root wait.",
}
_GROUP_SPEC: Mapping[str, str] = {
    "": "A gang: pods that start together or not at all.",
    "minMember": "The number of pods that must fit at once.",
    "minTaskMember": "The number of pods of each role (annotation volcano.sh/task-spec) that must fit at once.",
    "queue": "The queue that the pods are charged to; default if left out.",
    "priorityClassName": "The priority of the group; if left out, that of its pod with the highest priority.",
    "minResources": "The resources that the group needs to start; they decide whether it is admitted.",
}
_QUEUE_STATUS: Mapping[str, str] = {
    "": "The observed state of the queue.",
    "state": "Open or, if a user wrote it, Closed: the queue admits no jobs (Closing until its jobs are completed).",
    "pending": "The number of jobs that are not admitted yet.",
    "inqueue": "The number of admitted jobs that wait for resources.",
    "running": "The number of running jobs.",
    "completed": "The number of completed jobs.",
    "unknown": "The number of jobs in another phase.",
    "reservation": "The nodes that are locked for the queue, and the idle resources on them.",
    "acceptedGuarantee": "The guarantee as it was last accepted.",
    "allocated": "The sum of the requests of its pods.",
    "conditions": "Whether the guarantee is satisfied, or why it was rejected.",
}
_GROUP_STATUS: Mapping[str, str] = {
    "": "The progress of the group.",
    "phase": "Pending, Inqueue (admitted), Running or Completed.",
    "conditions": "Whether the group was scheduled, or why not.",
    "running": "The number of its running pods.",
    "succeeded": "The number of its pods that succeeded.",
    "failed": "The number of its pods that failed.",
}
FIELDS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    RESERVATION.kind: {"spec": _RESERVATION_SPEC, "status": _RESERVATION_STATUS},
    POD_MIGRATION_JOB.kind: {"spec": _JOB_SPEC, "status": _JOB_STATUS},
    QUEUE.kind: {"spec": _QUEUE_SPEC, "status": _QUEUE_STATUS},
    POD_GROUP.kind: {"spec": _GROUP_SPEC, "status": _GROUP_STATUS},
}
"""By kind, section and path within it; "" is the section itself."""
