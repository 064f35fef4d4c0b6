"""A process of Restow: its configuration, its components and their runners, and commands that act on a cluster once."""
