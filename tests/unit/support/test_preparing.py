"""The steps before a cluster with real nodes starts."""

from __future__ import annotations

import build_images
import fetch_parts
import pytest

from sparkstate_tools.checkout import ROOT
from sparkstate_tools.operating import preparing


def test_every_step_is_a_script_that_takes_its_arguments() -> None:
    fetching, building = preparing.steps(build=True)
    assert [*preparing.steps(build=False)] == [fetching]
    for module, step in ((fetch_parts, fetching), (build_images, building)):
        assert str(ROOT / step[0]) == module.__file__
    assert set(fetching[1:]) <= set(fetch_parts.GROUPS)


def test_a_step_may_install_missing_tools() -> None:
    preparing.run(("-c", "import os, sys; sys.exit(os.environ['SPARKSTATE_INSTALL_TOOLS'] != '1')"))


def test_a_step_that_fails_is_named() -> None:
    with pytest.raises(preparing.PreparationFailed, match=r"^-c import sys; sys.exit\(3\) failed$"):
        preparing.run(("-c", "import sys; sys.exit(3)"))
