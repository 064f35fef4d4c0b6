"""What may be evicted, and what it costs: the rules that planning and migration share, pure.

`protections` says which pods may move at all and why not, `budgets` how many of which pods may be missing, `workloads`
who belongs together, `costs` and `ranks` who goes first.
"""
