"""The plugins, one file each. `candidates` has what those share that only say which pods should leave their node."""
