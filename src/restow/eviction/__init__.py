"""What may be evicted, and what it costs: the rules that planning and migration share, pure.

`protections` says which pods may be evicted at all and why not, `budgets` how many pods may be disrupted, `workloads`
which pods are replicas of one workload, `costs` and `qos_and_priority` which pod goes first.
"""
