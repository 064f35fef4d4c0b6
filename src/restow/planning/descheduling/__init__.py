"""The descheduler's decisions: profiles of plugins, each of which says which pods should move. `control.descheduler`
carries them out. Read `profile_cycle` first, then `framework`."""
