"""Server-side apply: ownership, conflicts, removal, and the laws that hold whatever is applied."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.adapters.memory.documents.merge_types import merge_types
from restow.adapters.memory.documents.server_side_apply import LAST_APPLIED, server_side_apply, track_update
from restow.adapters.memory.documents.typed_documents import conform_to_kind
from restow.model.objects import Document
from restow.ports import Conflict, Invalid

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def deployment(*containers: Document, labels: Document | None = None, **spec: Any) -> Document:
    document: Document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": dict(spec)}
    if labels is not None:
        document["metadata"]["labels"] = labels
    if containers:
        document["spec"]["template"] = {"spec": {"containers": list(containers)}}
    return document


def apply(
    live: Document | None, applied: Document, manager: str = "one", *, force: bool = False, now: str = NOW
) -> Document:
    types = merge_types("apps", "Deployment")
    assert types is not None
    result = server_side_apply(live, applied, manager=manager, force=force, now=now, merge=types)
    return conform_to_kind(result, group="apps", kind="Deployment").document


def update(
    old: Document | None, new: Document, manager: str = "updater", *, now: str = NOW, subresource: str | None = None
) -> Document:
    types = merge_types("apps", "Deployment")
    assert types is not None
    new = conform_to_kind(new, group="apps", kind="Deployment").document
    return track_update(old, new, manager=manager, now=now, merge=types, subresource=subresource)


def owned(document: Document, manager: str, operation: str = "Apply") -> Any:
    for entry in document["metadata"].get("managedFields", []):
        if (entry["manager"], entry["operation"]) == (manager, operation):
            return entry["fieldsV1"]
    return None


def values(document: Document) -> Document:
    """The document without its bookkeeping."""
    document = copy.deepcopy(document)
    document["metadata"].pop("managedFields", None)
    return document


def test_applying_creates_and_claims_every_leaf() -> None:
    result = apply(None, deployment({"name": "c", "image": "i"}, replicas=2, labels={"a": "1"}))
    assert owned(result, "one") == {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:template": {"f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}, "f:image": {}}}}},
        },
    }


def test_create_owns_new_structs_and_lists_with_dot_entries() -> None:
    result = update(None, deployment({"name": "c", "ports": [{"containerPort": 80}]}, labels={"a": "1"}))
    fields = owned(result, "updater", "Update")
    assert fields["f:metadata"] == {"f:labels": {".": {}, "f:a": {}}}
    container = fields["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert container == {
        ".": {},
        "f:name": {},
        "f:ports": {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
        "f:resources": {},
    }


def test_a_field_not_applied_any_more_is_removed() -> None:
    live = apply(None, deployment(replicas=2, paused=True))
    assert "paused" not in apply(live, deployment(replicas=2))["spec"]


def test_a_list_item_not_applied_any_more_is_removed() -> None:
    live = apply(None, deployment({"name": "a"}, {"name": "b"}))
    result = apply(live, deployment({"name": "b"}))
    assert [each["name"] for each in result["spec"]["template"]["spec"]["containers"]] == ["b"]


def test_a_field_others_applied_too_stays() -> None:
    live = apply(apply(None, deployment(replicas=2, paused=True)), deployment(paused=True), "two")
    result = apply(live, deployment(replicas=2))
    assert result["spec"]["paused"] is True
    assert owned(result, "two") == {"f:spec": {"f:paused": {}}}


def test_a_different_value_of_an_owned_field_is_a_conflict() -> None:
    live = apply(None, deployment(replicas=2))
    with pytest.raises(Conflict) as refused:
        apply(live, deployment(replicas=3), "two")
    status = refused.value.status
    assert status.message == 'Apply failed with 1 conflict: conflict with "one": .spec.replicas'
    assert status.code == 409
    assert status.details is not None
    assert [(c.reason, c.message, c.field) for c in status.details.causes or ()] == [
        ("FieldManagerConflict", 'conflict with "one"', ".spec.replicas")
    ]


def test_conflicts_are_listed_by_manager() -> None:
    live = update(None, deployment({"name": "c", "image": "i"}, replicas=2))
    with pytest.raises(Conflict) as refused:
        apply(live, deployment({"name": "c", "image": "j"}, replicas=3))
    assert refused.value.status.message == (
        'Apply failed with 2 conflicts: conflicts with "updater" using apps/v1:\n'
        '- .spec.replicas\n- .spec.template.spec.containers[name="c"].image'
    )


def test_force_takes_the_field_over() -> None:
    live = apply(None, deployment(replicas=2, paused=True))
    result = apply(live, deployment(replicas=3), "two", force=True)
    assert result["spec"]["replicas"] == 3
    assert owned(result, "one") == {"f:spec": {"f:paused": {}}}


def test_appliers_of_equal_values_share_ownership() -> None:
    live = apply(apply(None, deployment(replicas=2)), deployment(replicas=2), "two")
    assert owned(live, "one") == owned(live, "two") == {"f:spec": {"f:replicas": {}}}


def test_an_update_takes_the_field_from_its_applier() -> None:
    live = apply(None, deployment(replicas=2, paused=True))
    scaled = copy.deepcopy(live)
    scaled["spec"]["replicas"] = 5
    result = update(live, scaled)
    assert owned(result, "one") == {"f:spec": {"f:paused": {}}}
    assert owned(result, "updater", "Update") == {"f:spec": {"f:replicas": {}}}


def test_an_update_that_changes_nothing_leaves_no_trace() -> None:
    live = apply(None, deployment(replicas=2))
    assert update(live, copy.deepcopy(live), now=LATER) == live


def test_a_status_write_is_an_entry_of_its_own() -> None:
    live = update(None, deployment(replicas=1))
    new = copy.deepcopy(live)
    new["status"] = {"replicas": 1}
    result = update(live, new, "updater", subresource="status")
    entries = [(each["manager"], each.get("subresource")) for each in result["metadata"]["managedFields"]]
    assert entries == [("updater", None), ("updater", "status")]


def test_a_document_never_tracked_belongs_to_before_first_apply() -> None:
    live = conform_to_kind(deployment(replicas=2), group="apps", kind="Deployment").document
    with pytest.raises(Conflict, match="before-first-apply"):
        apply(live, deployment(replicas=3))


def test_status_cannot_be_claimed_through_the_object() -> None:
    applied = {**deployment(replicas=1), "status": {"replicas": 9}}
    assert "f:status" not in owned(apply(None, applied), "one")


def test_managed_fields_in_the_request_replace_the_stored_ones() -> None:
    live = apply(None, deployment(replicas=2))
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"][0]["manager"] = "renamed"
    result = update(live, new)
    assert [each["manager"] for each in result["metadata"]["managedFields"]] == ["renamed"]


def test_an_empty_entry_clears_managed_fields() -> None:
    live = apply(None, deployment(replicas=2))
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"] = [{}]
    assert "managedFields" not in update(live, new)["metadata"]


def test_many_updaters_are_folded_into_ancient_changes() -> None:
    live = update(None, deployment(labels={"x": "0"}), "creator")
    for number in range(15):
        new = copy.deepcopy(live)
        new["metadata"]["labels"][f"k{number}"] = "v"
        live = update(live, new, f"m{number:02}", now=f"2026-01-01T00:00:{number:02}Z")
    managers = [each["manager"] for each in live["metadata"]["managedFields"]]
    assert len(managers) == 10 and "ancient-changes" in managers


@pytest.mark.parametrize(
    ("applied", "why"),
    [
        (deployment({"name": "a"}, {"name": "a"}), r'containers: duplicate entries for key \[name="a"\]'),
        (deployment(spam=1), r"\.spec\.spam: field not declared in schema"),
        (deployment(template=[1]), r"\.spec\.template: expected map"),
        ({**deployment(), "metadata": {"name": "d", "managedFields": []}}, "managedFields must be nil"),
    ],
    ids=["duplicate", "unknown field", "wrong form", "own managedFields"],
)
def test_malformed_apply_documents_are_refused(applied: Document, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        apply(None, applied)


def test_kubectl_takes_over_fields_of_its_last_applied_annotation() -> None:
    text = json.dumps(deployment(replicas=2))
    created = deployment(replicas=2)
    created["metadata"]["annotations"] = {LAST_APPLIED: text}
    live = update(None, created, "kubectl-client-side-apply")
    result = apply(live, deployment(replicas=3), "kubectl")
    assert result["spec"]["replicas"] == 3
    assert json.loads(result["metadata"]["annotations"][LAST_APPLIED])["spec"] == {"replicas": 3}
    with pytest.raises(Conflict):
        apply(live, deployment(replicas=3), "another")


# --- laws ---

variables = st.fixed_dictionaries({"name": st.sampled_from("XYZ"), "value": st.sampled_from("12")})
fields: dict[str, st.SearchStrategy[Any]] = {
    "image": st.sampled_from(["i", "j"]),
    "args": st.lists(st.sampled_from("xy"), max_size=2),
    "env": st.lists(variables, unique_by=lambda each: each["name"], max_size=3),
}
named: dict[str, st.SearchStrategy[Any]] = {"name": st.sampled_from("abc")}
containers = st.lists(
    st.fixed_dictionaries(named, optional=fields), unique_by=lambda each: str(each["name"]), max_size=3
)
labels = st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), min_size=1, max_size=2)
intents = st.builds(
    lambda template, extra, marks: deployment(*template, labels=marks, **extra),
    containers,
    st.fixed_dictionaries({}, optional={"replicas": st.integers(0, 3), "paused": st.just(True)}),
    st.none() | labels,
)


@given(intents)
def test_applying_twice_changes_nothing(intent: Document) -> None:
    once = apply(None, intent)
    assert apply(once, intent, now=LATER) == once


@given(intents, intents)
def test_sole_applier_gets_exactly_its_last_intent(first: Document, second: Document) -> None:
    assert values(apply(apply(None, first), second)) == values(apply(None, second))


@given(intents, intents)
def test_fields_of_another_applier_survive(mine: Document, theirs: Document) -> None:
    live = apply(apply(None, theirs, "two"), mine, "one", force=True)
    gone = apply(live, deployment(), "one")
    again = apply(gone, theirs, "two", force=True)
    assert values(again) == values(apply(None, theirs, "two"))


@given(intents, intents)
def test_conflict_free_applies_commute(first: Document, second: Document) -> None:
    try:
        one = apply(apply(None, first, "one"), second, "two")
    except Conflict:
        return
    other = apply(apply(None, second, "two"), first, "one")
    assert owned(one, "one") == owned(other, "one")
    assert _sorted(values(one)) == _sorted(values(other))


@given(intents, intents)
def test_a_refused_apply_changes_nothing(first: Document, second: Document) -> None:
    live = apply(None, first, "one")
    before = copy.deepcopy(live)
    with contextlib.suppress(Conflict):
        apply(live, second, "two")
    assert live == before


def _sorted(document: Document) -> Document:
    spec = document["spec"]["template"]["spec"]
    spec["containers"] = sorted(spec.get("containers") or [], key=lambda each: each["name"])
    for container in spec["containers"]:
        container["env"] = sorted(container.get("env") or [], key=lambda each: each["name"])
    return document
