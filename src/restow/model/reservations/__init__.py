"""Reservations: what they are, how their seats live, and which pods may use them.

What a reservation asks for, read from the object:
    spec, observed_spec   seats, requests, schedulers, expiry; which of that the status was decided for
    validation            every problem of the spec
    owners, matching      which pods may use it: by owner, by template (`template_comparison`), by `task_sizes`

How its seats live, in the snapshot:
    seat                  a seat, and the diagram of its states
    seat_states           every transition between them
    placements            which seats there are
    consumer_rules        which pod is believed to have consumed a seat
    seat_consumers        which pod consumed each seat; `assigned_seats`: which pods are on their way
    reserved_pods         what seats take of nodes; `reserved_usage`: of namespaces and queues
    free_seats            which may be assigned; `owner_index`: to pods of which owners
    reservation_index     all of this together, as part of the Snapshot

What is written back:
    status                the next status, from an observation of the seats
    seat_fault            why a seat cannot be relied on; found by `scheduling.seat_checks`, which asks the filters
"""
