"""What the tests of the page share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def chromium(request: pytest.FixtureRequest) -> Iterator[Browser]:
    from sparkstate_tools.parts import browser as browsers  # the other tests of this folder need no browser

    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # an installation shows its progress
        executable = browsers.chromium()
    with browsers.launched(executable) as running:
        yield running
