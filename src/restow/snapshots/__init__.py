"""A cluster that is written down: looked at once, made nameless, and asked what would become of its pods."""
