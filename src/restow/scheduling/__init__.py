"""Scheduling decisions, pure: no clock, network, logging or randomness.

queue/            which pod is tried next: the scheduling queue
cluster_events    which events may make a refused pod schedulable
session           the pods and reservations that are decided about together; Session.run is the story
actions/          enqueue, reserve, allocate, backfill: what a session does with its jobs
node_search       the best node for a pod of a session
engine            one pod's scheduling cycle: PreFilter, Filter, Score, Reserve, Permit
ranking/          how the engine finds the best of thousands of nodes at the cost of the rows that changed
framework         the interface of plugins; accelerated: what the built-in ones offer beyond it
plugins/          one file each
statement         changes to the snapshot that stand or fall together
decisions         what comes out, as values; `control` carries them out
pod_group_cache   gangs, queues and priority classes as the API shows them
seat_checks/      whether the seats of a reservation can be relied on
registry          from the configuration to a profile: engine, actions, events
"""
