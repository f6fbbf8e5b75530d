"""A stop that comes while the driver is still loading, and so ends it by its signal."""

import os
import signal
from pathlib import Path

import pytest
from support.drivers.supervised import World, in_background, wait_for

from sparkstate import settings


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("on_stop", "told"), [(False, "as it was\n"), (True, "as it was, and no savepoint was taken\n")]
)
def test_stopping_a_driver_that_still_loads_is_an_orderly_stop(
    world: World, on_stop: bool, told: str
) -> None:
    """It has claimed nothing yet, and SIGTERM ends it as it ends any process."""
    world.savepoints = settings.SavepointSettings(on_stop=on_stop)
    world.behaviour["loads_s"] = {"1": 60}
    in_background(lambda: (wait_for(lambda: begun(world, 1)), world.stop.ask()))
    assert world.run() == 0
    assert f"rotations stopped before it ran; its state is {told}" in world.output.getvalue()
    assert "error" not in world.output.getvalue()


def test_stopping_a_later_driver_that_still_loads_tells_what_the_earlier_one_left(world: World) -> None:
    world.savepoints = settings.SavepointSettings(on_stop=True)
    world.behaviour["loads_s"] = {"2": 60}

    def kill_then_stop() -> None:
        wait_for(lambda: "epoch" in world.output.getvalue())
        os.kill(world.started[0].pid, signal.SIGKILL)
        wait_for(lambda: begun(world, 2))
        world.stop.ask()

    in_background(kill_then_stop)
    assert world.run() == 1  # the epochs of the first one have no savepoint
    assert "rotations stopped without a savepoint while it was down; epoch " in world.output.getvalue()


def begun(world: World, attempt: int) -> bool:
    log = world.folder.log_file(attempt)
    return log.is_file() and f"attempt {attempt} begins" in log.read_text()
