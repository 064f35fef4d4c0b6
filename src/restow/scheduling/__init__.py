"""Where pods go: decisions only. The loop that feeds it and carries the decisions out is `control/scheduler`."""
