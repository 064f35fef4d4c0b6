"""Kubelets and controllers as small rules: what acts on a cluster apart from Restow itself.

A rule is facts in, writes out: it sees a `View` and returns a `Step`; `World` feeds the view and carries the steps out.
"""

from restow.sim.world.rule import Rule
from restow.sim.world.rules import default_rules
from restow.sim.world.settings import Settings
from restow.sim.world.step import Create, Delete, Patch, Record, Step
from restow.sim.world.view import View
from restow.sim.world.world import World

__all__ = [
    "Create",
    "Delete",
    "Patch",
    "Record",
    "Rule",
    "Settings",
    "Step",
    "View",
    "World",
    "default_rules",
]
