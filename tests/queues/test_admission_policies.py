"""The policies, as far as they can be seen without an API server; what they refuse is in e2e."""

from __future__ import annotations

from restow.queues.admission_policies import CEILINGS_NAME, admission_policy_documents


def test_ceilings_policy_reads_the_config_map_of_its_name() -> None:
    bindings = [one["spec"] for one in admission_policy_documents("home") if one["kind"].endswith("Binding")]
    reads = {"name": CEILINGS_NAME, "namespace": "home", "parameterNotFoundAction": "Allow"}
    assert [one.get("paramRef") for one in bindings] == [None, reads]
