"""Migration: which jobs may run now (arbitration), and the next step of each. Pure decisions over facts."""
