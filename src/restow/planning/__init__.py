"""Planning: what may move and why not, where to, in which order; and whether a plan is valid. Pure decisions."""
