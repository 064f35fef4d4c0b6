"""A world to run in: virtual time, kubelets and controllers as small rules, faults at the port, generated clusters."""
