"""Queues: what a guarantee asks for, and which nodes are locked for it; pure."""
