"""What stands behind the ports: real clusters, the embedded API server, and its HTTP face."""
