"""Queues: what a guarantee asks for, which nodes are locked for it, and what an API server can check by itself.

Read `node_locks` first: the decision about all queues. `node_selection` decides about one of them, by a search in
`min_cost_cover`. `admission_policies` and `admission_parameters` are what the API server checks before.
"""
