"""CEL and Python before the same random specs: whatever the schema accepts, both find the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from support.cluster import crd_judge
from support.faults import tried
from support.specs import accepted, near

from sparkstate.manifest import schema
from sparkstate_spec import rules


@given(name=accepted.NAMES, spec=accepted.objects(schema.spec()))
@settings(max_examples=tried(100))
def test_whatever_the_schema_accepts_both_judge_alike(name: str, spec: dict[str, Any]) -> None:
    agree(name, spec)


@given(
    configuration=accepted.CONFIGURATION,
    backend=accepted.objects(schema.spec()["properties"]["stateBackend"]),
)
@settings(max_examples=tried(100))
def test_flinks_keys_are_judged_alike(configuration: dict[str, str], backend: dict[str, Any]) -> None:
    agree("flights", {"module": "a", "configuration": configuration, "stateBackend": backend})


@given(configuration=near.CONFIGURATION | accepted.CONFIGURATION)
@settings(max_examples=tried(100))
def test_flinks_keys_are_judged_alike_in_both_spellings_of_their_map(configuration: dict[str, str]) -> None:
    job = {"module": "a", "deployment": "local", "state": "running", "upgradeMode": "savepoint"}
    wanted = rules.check({"metadata": {"name": "a"}, "spec": {**job, "configuration": configuration}})
    renamed = {
        (one.path.replace("configuration", "flinkConfiguration"),
         one.message.replace("configuration['", "flinkConfiguration['"))
        for one in wanted
    }  # fmt: skip
    for written in (configuration, near.sections(configuration)):
        document = {"metadata": {"name": "a"}, "spec": {**job, "flinkConfiguration": written}}
        assert {(one.path, one.message) for one in rules.check(document)} == renamed
        assert not crd_judge.violations(document, schema.root()), "the API server does not look into it"


def agree(name: str, spec: dict[str, Any]) -> None:
    document = {"metadata": {"name": name}, "spec": spec}
    assert schema.check(spec, schema.spec(), "spec") == [], "the strategy made what the schema refuses"
    by_cel = set(crd_judge.violations(document, schema.root()))
    found = rules.check(schema.with_defaults(document))
    assert by_cel == {("" if p.path == "metadata.name" else p.path, p.message) for p in found}
