"""A process of Restow: configuration, parts and their posts, in a cluster of others or of its own."""
