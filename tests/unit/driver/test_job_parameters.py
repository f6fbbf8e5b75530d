"""The parameters of a job: a name that the manifest lacks is told with those that it has."""

from __future__ import annotations

import copy
import json
import pickle

import cloudpickle
import pytest

from sparkstate import errors
from sparkstate.driver.job_parameters import JobParameters
from sparkstate.spark import graph

PARAMS = JobParameters({"input": "/in", "output": "/out"})


def test_an_unknown_name_ends_the_job_with_the_names_that_there_are() -> None:
    def job(spark: object, params: dict[str, str]) -> None:
        print(params["inputs"])

    told = r"no 'inputs'; it has input, output: correct the name, .* \([\w/]*test_job_parameters\.py:\d+ in job\)$"
    with pytest.raises(errors.DeclarationError, match=told):
        graph.declare(job, None, PARAMS)
    with pytest.raises(errors.DeclarationError, match=r"no 'inputs'; it is empty: "):
        graph.declare(job, None, JobParameters())


def test_code_that_has_a_default_gets_it() -> None:
    assert PARAMS.get("inputs", "none") == "none"
    with pytest.raises(KeyError):
        PARAMS["inputs"]


@pytest.mark.parametrize("library", [pickle, cloudpickle])
def test_params_travel_to_slots_as_a_dict(library: object) -> None:
    assert isinstance(PARAMS, dict)
    there = pickle.loads(library.dumps({"of a function": PARAMS}))["of a function"]  # type: ignore[attr-defined]
    assert (type(there), there) == (dict, {"input": "/in", "output": "/out"})


def test_params_are_written_and_copied_as_a_dict() -> None:
    assert json.loads(json.dumps(PARAMS)) == PARAMS == copy.deepcopy(PARAMS) == {**PARAMS}
