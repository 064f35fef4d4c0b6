"""The optimiser: plans that are provably close to the best. Start reading at `strategy`, then `search`."""
