"""The store against a model that keeps every state it ever had: the same answers at every version."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from restow.adapters.memory.resources import selectable_field
from restow.adapters.memory.store import Store, Stored

NAMESPACES = st.sampled_from(["", "a", "a-b", "b"])
NAMES = st.sampled_from(["x", "y", "z"])
NODES = st.sampled_from(["", "n1", "n2"])
State = dict[tuple[str, str], tuple[int, str]]  # (namespace, name) -> (version, node)

HISTORY = 4


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = Store(history=HISTORY)
        self.pods = self.store.open("pods", (selectable_field("spec.nodeName"),), index="spec.nodeName")
        self.other = self.store.open("others", ())
        self.states: dict[int, State] = {self.store.version: {}}
        self.uids = 0

    @rule(namespace=NAMESPACES, name=NAMES, node=NODES)
    def put(self, namespace: str, name: str, node: str) -> None:
        self.uids += 1
        stored = self.store.put(self.pods, _pod(namespace, name, node, f"uid-{self.uids}"))
        self._now(self._state() | {(namespace, name): (stored.version, node)})

    @rule(namespace=NAMESPACES, name=NAMES)
    def remove(self, namespace: str, name: str) -> None:
        stored = self.pods.get(namespace, name)
        if stored is not None:
            self.store.remove(self.pods, stored)
            self._now({key: value for key, value in self._state().items() if key != (namespace, name)})

    @rule()
    def write_elsewhere(self) -> None:
        self.store.put(self.other, _pod("", "unrelated", "", "other"))
        self._now(self._state())

    @rule()
    def compact(self) -> None:
        self.store.compact()
        self._now(self._state())

    def _state(self) -> State:
        return self.states[max(self.states)]

    def _now(self, state: State) -> None:
        assert self.store.version == max(self.states) + 1
        self.states[self.store.version] = state

    def _known(self) -> list[int]:
        return [version for version in self.states if version >= self.pods.log.floor]

    @invariant()
    def reads_agree(self) -> None:
        assert _facts(self.pods.within(None)) == _ordered(self._state())
        for namespace in ("", "a", "a-b", "b", "none"):
            mine = {key: value for key, value in self._state().items() if key[0] == namespace}
            assert _facts(self.pods.within(namespace)) == _ordered(mine)

    @invariant()
    def the_index_is_a_filter(self) -> None:
        for node in ("", "n1", "n2", "n3"):
            there = {key: value for key, value in self._state().items() if value[1] == node}
            assert _facts(self.pods.with_index_value(node)) == _ordered(there)

    @invariant()
    def every_known_version_can_be_listed(self) -> None:
        for version in self._known():
            then = self.pods.within_at(version, None)
            assert len(then) == len(self.states[version])
            assert _facts(then) == _ordered(self.states[version])

    @invariant()
    def every_page_continues_its_snapshot(self) -> None:
        for version in self._known():
            whole = _ordered(self.states[version])
            for count, ((namespace, name), _) in enumerate(whole, start=1):
                assert _facts(self.pods.within_at(version, None, after=f"{namespace}/{name}")) == whole[count:]

    @invariant()
    def a_watch_from_any_known_version_ends_at_the_present(self) -> None:
        for version in self._known():
            state = dict(self.states[version])
            for change in self.pods.log.after(version):
                key = (change.new.namespace, change.new.name)
                assert (state.get(key) is None) == (change.old is None)
                if change.removed:
                    del state[key]
                else:
                    state[key] = (change.version, change.new.fields[0])
            assert state == self._state()

    @invariant()
    def history_is_bounded_and_long_enough(self) -> None:
        assert self.pods.log.end - self.pods.log.first < 2 * HISTORY


def _pod(namespace: str, name: str, node: str, uid: str) -> dict[str, Any]:
    metadata = {"name": name, "uid": uid} | ({"namespace": namespace} if namespace else {})
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}}


def _facts(objects: Any) -> list[tuple[tuple[str, str], tuple[int, str]]]:
    listed: list[Stored] = list(objects)
    assert all(each.document()["metadata"]["resourceVersion"] == str(each.version) for each in listed)
    return [((each.namespace, each.name), (each.version, each.fields[0])) for each in listed]


def _ordered(state: State) -> list[tuple[tuple[str, str], tuple[int, str]]]:
    return sorted(state.items(), key=lambda item: "/".join(item[0]))


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
