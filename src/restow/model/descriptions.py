"""What people read about the fields of the own kinds: `kubectl explain resv.spec.ttl`.

By kind and path; `crds` writes them into the definitions. What a type means by itself is its docstring's to say.
"""

from __future__ import annotations

from collections.abc import Mapping

from restow.model.kinds import POD_GROUP, POD_MIGRATION_JOB, QUEUE, RESERVATION

_RESERVATION_SPEC: Mapping[str, str] = {
    "": "What is held, for whom, and until when.",
    "schedulerName": "The scheduler that looks after it, one of scheduler.schedulerNames of the configuration; "
    "left out, any of ours. It fills what templates leave out.",
    "minAvailable": "How many seats have to be held at once before it is Available; all of them if left out.",
    "queue": "The queue that its seats are charged to; left out, default.",
    "owners": "Whose pods may take a seat; all are of the reservation's namespace.",
    "owners.object": "A Pod or a PodGroup, by name or uid; of another kind, whoever it owns.",
    "owners.controller": "A workload, by name or uid: the pods of which it is an owner, or an owner's owner.",
    "owners.labelSelector": "Pods with these labels, or whose PodGroup has them.",
    "ttl": "How long it lives, from its creation, such as 600s or 1h30m; 0s is for ever. Of ttl and expires the "
    "earlier counts.",
    "expires": "When it ends, as a point in time, such as 2026-01-31T12:00:00Z.",
    "matchPolicy": "Template (if left out): only pods whose spec is what the template says take a seat. Fits: any pod "
    "of an owner that fits the node in the seat's place.",
    "tasks": "The seats: each task has a template and a number of replicas.",
    "tasks.name": "What the task is called, within the reservation.",
    "tasks.replicas": "How many seats it has; 1 if left out.",
    "tasks.template": "The pod that room is held for: its requests, and what decides where it may go.",
    "tasks.reservationNodeNames": "Nodes that are tried first, in this order. To insist on one, use nodeSelector or "
    "node affinity in the template.",
}
_RESERVATION_STATUS: Mapping[str, str] = {
    "": "What has become of it.",
    "state": "Its phase, and why.",
    "minAvailable": "How many seats have to be held at once.",
    "pending": "How many seats are not placed yet, or not to be relied on yet.",
    "available": "How many seats are held, and open.",
    "succeeded": "How many seats were taken.",
    "failed": "How many seats nobody had taken when it failed.",
    "conditions": "One for each phase that it has been in.",
    "currentOwner": "For whom the first seat was taken.",
    "currentOwners": "For whom seats were taken; of very many the first hundred.",
    "allocatable": "What its seats ask for together.",
    "allocated": "What those ask for that were taken.",
    "taskStatusCount": "How many seats of each task are in which phase.",
    "placements": "Where every seat is, and which pod took it (podRef).",
    "observedGeneration": "The generation of the spec that the rest speaks of.",
    "observedOwners": "Everybody who may have taken a seat that is not marked yet.",
    "observedRequests": "What a seat of each task was given.",
    "observedQueue": "The queue that its seats are charged to; left out, default.",
}
_JOB_SPEC: Mapping[str, str] = {
    "": "Which pod moves, and how.",
    "podRef": "The pod, by namespace and name; its uid is filled in before the job is admitted, and settled then.",
    "paused": "While true nothing happens, and the job's time stands still: for review.",
    "ttl": "How long it may take from admission to the end, such as 5m; 0s is no limit; left out, defaultJobTTL of the "
    "configuration. Waiting for admission has a limit of its own (waitingTTL).",
    "mode": "ReservationFirst: a seat is held for the pod's successor before it is evicted. EvictDirectly does "
    "without. Left out, defaultJobMode of the configuration.",
    "reservationOptions": "The seat of the pod's successor; left out, one is made from the pod.",
    "reservationOptions.reservationRef": "A reservation to use as it is, in the pod's namespace. Of one that is made "
    "for the job, its name is filled in.",
    "reservationOptions.template": "What the reservation that is made should say; it wins over what is made from the "
    "pod.",
    "reservationOptions.preemptionOptions": "Not used: nobody is preempted.",
    "deleteOptions": "How the pod is evicted; left out, defaultDeleteOptions of the configuration.",
    "deleteOptions.gracePeriodSeconds": "How long the pod has to stop; left out, what the pod says.",
    "deleteOptions.propagationPolicy": "Foreground, Background or Orphan.",
    "deleteOptions.preconditions": "The uid of the pod that is meant; no resourceVersion.",
    "deleteOptions.dryRun": "With All everything is done but creating a reservation and evicting.",
    "deleteOptions.orphanDependents": "Refused: propagationPolicy says it.",
    "deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential": "Refused: a pod is read to be moved.",
}
_JOB_STATUS: Mapping[str, str] = {
    "": "How far it is.",
    "phase": "Pending, Running, Succeed, Failed or Aborted. Write Aborted to end a job.",
    "status": "The condition that was written last.",
    "reason": "Why it waits or failed, in a word.",
    "message": "The same in a sentence, with the numbers.",
    "conditions": "Its steps, one condition for each.",
    "nodeName": "The node that the pod moves to.",
    "podRef": "The pod that took the seat.",
    "preemptedPodsRef": "Stays empty: nobody is preempted.",
    "preemptedPodsReservation": "Stays empty: nobody is preempted.",
}
_QUEUE_SPEC: Mapping[str, str] = {
    "": "What its jobs may have, and what is kept for them.",
    "weight": "Its share beside other queues, where it does not say what it deserves.",
    "capability": "What its pods and reservations may take at most.",
    "reclaimable": "Not used: nothing is taken back from a queue.",
    "guarantee": "What is kept for it: nodes that are locked for its pods.",
    "guarantee.policy": "Best-Effort (if left out) evicts nobody. Guaranteed moves the pods of others away.",
    "guarantee.percentage": "A share of the cluster's nodes.",
    "guarantee.percentage.value": "From 0 to 1, of the number of nodes.",
    "guarantee.percentage.dimensions": "The resources by which nodes are compared.",
    "guarantee.resource": "Amounts. If percentage is there, too, the one that is more counts.",
    "deserved": "What its share is measured by; no limit.",
    "priority": "Queues of higher priority are served first.",
    "parent": "Not supported: jobs of a queue with another parent than root wait.",
}
_GROUP_SPEC: Mapping[str, str] = {
    "": "Pods that start together.",
    "minMember": "How many pods have to fit at once.",
    "minTaskMember": "How many of each role (annotation volcano.sh/task-spec).",
    "queue": "The queue that it is charged to; left out, default.",
    "priorityClassName": "Its priority among others; left out, that of its most important pod.",
    "minResources": "What it needs to start: decides whether it is let in while the cluster is full.",
}
_QUEUE_STATUS: Mapping[str, str] = {
    "": "How it stands.",
    "state": "Open, or what somebody wrote: Closed lets nobody in (Closing until its jobs are over).",
    "pending": "How many of its jobs are not let in.",
    "inqueue": "How many are let in, and wait for room.",
    "running": "How many run.",
    "completed": "How many are over.",
    "unknown": "How many are in another phase.",
    "reservation": "Which nodes are locked for it, and what is idle on them.",
    "acceptedGuarantee": "Its guarantee, as it was when it was accepted.",
    "allocated": "What its pods take.",
    "conditions": "Whether its guarantee is satisfied, or why it was rejected.",
}
_GROUP_STATUS: Mapping[str, str] = {
    "": "How far it is.",
    "phase": "Pending, Inqueue (let in), Running or Completed.",
    "conditions": "Whether it was scheduled, or why not.",
    "running": "How many of its pods run.",
    "succeeded": "How many of its pods succeeded.",
    "failed": "How many of its pods failed.",
}
FIELDS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    RESERVATION.kind: {"spec": _RESERVATION_SPEC, "status": _RESERVATION_STATUS},
    POD_MIGRATION_JOB.kind: {"spec": _JOB_SPEC, "status": _JOB_STATUS},
    QUEUE.kind: {"spec": _QUEUE_SPEC, "status": _QUEUE_STATUS},
    POD_GROUP.kind: {"spec": _GROUP_SPEC, "status": _GROUP_STATUS},
}
"""By kind, section and path within it; "" is the section itself."""
