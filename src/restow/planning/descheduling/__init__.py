"""Descheduling: profiles of plugins, each of which says what should move; decided first, carried out by others."""
