"""What people look at: text, JSON, bars per node, a table that changes, a page."""
