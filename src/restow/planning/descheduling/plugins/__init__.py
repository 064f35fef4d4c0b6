"""The plugins, one file each. `departing` is what those share that only say which pods should leave their node."""
