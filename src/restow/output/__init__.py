"""Results and progress for people and programs: tables, JSON, bars for nodes, an HTML report."""
