"""The API's models: frozen, strict, and every field says what a change of it means."""

from __future__ import annotations

from typing import Any, get_args

import pydantic
import pytest

from sparkstate_operator.model import StatefulSparkJob, StatefulSparkJobSpec, StatefulSparkJobStatus
from sparkstate_operator.model.base import ChangeKind, Model
from sparkstate_operator.model.entry import PodTemplate
from sparkstate_spec import fields as spec_fields

MINIMAL = {
    "apiVersion": "sparkstate.io/v1alpha1",
    "kind": "StatefulSparkJob",
    "metadata": {"name": "flights"},
    "spec": {"pythonFile": "job.py"},
}


def parts(model: type[Model]) -> set[type[Model]]:
    """The model and every model inside its fields."""
    found = {model}
    for field in model.model_fields.values():
        waiting = [field.annotation]
        while waiting:
            kind = waiting.pop()
            waiting += get_args(kind)
            if isinstance(kind, type) and issubclass(kind, Model):
                found |= parts(kind)
    return found


def fields() -> list[tuple[str, Any]]:
    return [
        (f"{model.__name__}.{name}", field)
        for model in sorted(parts(StatefulSparkJobSpec) - {PodTemplate}, key=lambda each: each.__name__)
        for name, field in model.model_fields.items()
    ]


@pytest.mark.parametrize(("name", "field"), fields(), ids=[name for name, _ in fields()])
def test_every_field_of_the_spec_says_what_its_change_means(name: str, field: Any) -> None:
    assert ChangeKind(field.json_schema_extra["x-change"])
    assert field.description


def test_the_kinds_of_change_are_used_as_meant() -> None:
    kinds = {name: field.json_schema_extra["x-change"] for name, field in fields()}
    assert kinds["StatefulSparkJobSpec.slots"] == "scale"
    assert (
        kinds["StatefulSparkJobSpec.max_parallelism"] == kinds["StatefulSparkJobSpec.shards"] == "immutable"
    )
    assert kinds["RestoreSource.uri"] == "savepoint"
    assert kinds["Deletion.policy"] == kinds["Savepoints.interval"] == "ignore"
    assert kinds["StateBackend.type"] == kinds["StatefulSparkJobSpec.image"] == "upgrade"


def test_flinks_keys_stand_in_the_description() -> None:
    for name, field in fields():
        path = field.json_schema_extra["x-path"]
        for key in spec_fields.BY_PATH[path].flink if path else ():
            assert key in field.description, name


def test_a_job_is_frozen_and_has_only_the_schemas_defaults() -> None:
    spec = StatefulSparkJob.model_validate(MINIMAL).spec
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        spec.slots = 3  # type: ignore[misc]
    assert spec.deployment == "local"
    assert spec.upgrade_mode == "last-state"
    assert spec.state == "running"
    assert spec.slots is None


def test_values_are_not_bent_into_their_types() -> None:
    with pytest.raises(pydantic.ValidationError):
        StatefulSparkJobSpec.model_validate({"slots": "3"})
    with pytest.raises(pydantic.ValidationError):
        StatefulSparkJobSpec.model_validate({"ui": 1})
    with pytest.raises(pydantic.ValidationError):
        StatefulSparkJobSpec.model_validate({"slotz": 3})


def test_lists_become_tuples_and_names_go_back_to_camel_case() -> None:
    spec = StatefulSparkJobSpec.model_validate({"stateBackend": {"storagePaths": ["/a", "/b"]}})
    assert spec.state_backend is not None
    assert spec.state_backend.storage_paths == ("/a", "/b")
    assert spec.model_dump(mode="json", by_alias=True, exclude_unset=True) == {
        "stateBackend": {"storagePaths": ["/a", "/b"]}
    }


def test_a_status_comes_back_as_it_was_written() -> None:
    written = {
        "phase": "Running",
        "observedGeneration": 3,
        "attempt": 2,
        "lastCheckpoint": {"id": 7, "epoch": 70, "time": "2026-11-01T10:00:00Z", "size": "12Mi"},
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "EpochsAdvance",
                "message": "",
                "lastTransitionTime": "2026-11-01T10:00:00Z",
            }
        ],
    }
    status = StatefulSparkJobStatus.model_validate(written)
    assert status.model_dump(mode="json", by_alias=True, exclude_unset=True) == written
    with pytest.raises(pydantic.ValidationError):
        StatefulSparkJobStatus.model_validate({"phase": "Runing"})
