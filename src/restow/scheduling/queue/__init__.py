"""The scheduling queue: which pod is tried next, and when a pod that failed is tried again."""
