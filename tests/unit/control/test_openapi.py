"""The reference is made from the code, is valid, and tells the truth about a running endpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from fastapi.openapi.models import OpenAPI

from sparkstate.control import examples, openapi
from sparkstate_tools.drivers import control_job

DOCS = Path(__file__).parents[3] / "docs"
SCHEMA = openapi.schema()
OPEN_PATHS = {"/livez", "/readyz"}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in SCHEMA["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def validator(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({**schema, "components": SCHEMA["components"]})


@pytest.mark.parametrize("name", ["openapi.json", "rest-api.md", "metrics.md"])
def test_the_written_reference_is_what_the_code_says(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == openapi.render()[name], "stale: run `python -m sparkstate.control.openapi docs`"


def test_the_document_is_valid_openapi_and_its_schemas_are_valid_json_schema() -> None:
    OpenAPI.model_validate(SCHEMA)
    assert SCHEMA["openapi"].startswith("3.1")
    for model in SCHEMA["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(model)


def test_every_reference_inside_the_document_leads_somewhere() -> None:
    def references(node: object) -> Iterator[str]:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for child in node.values():
                yield from references(child)
        elif isinstance(node, list):
            for child in node:
                yield from references(child)

    found = set(references(SCHEMA))
    assert found
    for reference in found:
        target: Any = SCHEMA
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


def test_every_link_within_the_readable_form_leads_to_a_section() -> None:
    page = openapi.render()["rest-api.md"]
    links = set(re.findall(r"\]\(#([^)]*)\)", page))
    assert links
    assert links <= {heading.lower() for heading in re.findall(r"^### (\w+)$", page, re.MULTILINE)}


def test_all_operations_but_the_probes_ask_for_the_bearer_token_and_tell_401() -> None:
    assert SCHEMA["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert SCHEMA["security"] == [{"token": []}]
    for method, path, operation in operations():
        if path in OPEN_PATHS:
            assert operation["security"] == []
        else:
            assert "security" not in operation, (method, path)
            assert "401" in operation["responses"], (method, path)


def test_every_described_error_has_our_form() -> None:
    for method, path, operation in operations():
        for status, response in operation["responses"].items():
            if path in OPEN_PATHS or status == "401" or status.startswith("2"):
                continue
            schema = response["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Problem"}, (method, path, status)


def test_operation_ids_and_summaries_are_there_and_unique() -> None:
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(ids) == len(set(ids)) == 15
    assert all(operation["summary"] for _, _, operation in operations())


def test_examples_in_the_document_fit_their_schemas() -> None:
    seen = 0
    for _, _, operation in operations():
        for response in operation["responses"].values():
            for media in response.get("content", {}).values():
                if "example" in media:
                    validator(media["schema"]).validate(media["example"])
                    seen += 1
    assert seen == 4


def test_real_answers_fit_the_described_schemas(caller: httpx.Client, job: control_job.InMemoryJob) -> None:
    job.current = examples.JOB_STATUS
    job.history = [control_job.checkpoint(1)]
    job.values = {("op", "s", "1"): 5}
    job.drawn = examples.JOB_GRAPH
    job.points = {"rows_per_s": (1.0, None, 3.5)}
    job.logs = {"driver": ("a line",)}
    asked = {
        ("get", "/v1/status"): caller.get("/v1/status"),
        ("get", "/v1/checkpoints"): caller.get("/v1/checkpoints"),
        ("post", "/v1/checkpoints"): caller.post("/v1/checkpoints"),
        ("get", "/v1/checkpoints/{checkpoint_id}"): caller.get("/v1/checkpoints/1"),
        ("post", "/v1/savepoints"): caller.post("/v1/savepoints", json={"trigger_id": "t"}),
        ("get", "/v1/savepoints/{trigger_id}"): caller.get("/v1/savepoints/t"),
        ("get", "/v1/state"): caller.get("/v1/state?operator=op&state=s&key=1"),
        ("get", "/v1/graph"): caller.get("/v1/graph"),
        ("get", "/v1/series"): caller.get("/v1/series?after=1"),
        ("get", "/v1/logs/{source}"): caller.get("/v1/logs/driver"),
        ("post", "/v1/cancel"): caller.post("/v1/cancel"),
        ("post", "/v1/claim"): caller.post("/v1/claim"),
        ("get", "/metrics"): caller.get("/metrics"),
        ("get", "/livez"): caller.get("/livez"),
        ("get", "/readyz"): caller.get("/readyz"),
    }
    assert {(method, path) for method, path, _ in operations()} == set(asked)
    for method, path, operation in operations():
        answer = asked[method, path]
        described = operation["responses"][str(answer.status_code)]
        if "application/json" in described.get("content", {}):
            validator(described["content"]["application/json"]["schema"]).validate(answer.json())


def test_the_endpoint_serves_the_same_paths_to_those_who_have_the_token(caller: httpx.Client) -> None:
    assert set(caller.get("/openapi.json").json()["paths"]) == set(SCHEMA["paths"]) - OPEN_PATHS
