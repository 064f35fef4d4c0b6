"""Actions: what a session does with its jobs, each a function of the session, in the order of the configuration."""
