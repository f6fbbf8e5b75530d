"""The life of a job's storage through a shaky connection, by seed: nothing that was reported is ever lost."""

from __future__ import annotations

import functools
import random
import re
import secrets
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import botocore.endpoint
import pytest
from support.storage.judge import Judge
from support.storage.life import ImpatientClock, Killed, Place
from support.storage.life_driver import LifeDriver

from sparkstate import errors
from sparkstate.driver import claimed_lineage, leftovers
from sparkstate.log import entries, log, records
from sparkstate.settings import S3Settings
from sparkstate.storage import opening
from sparkstate.storage import s3 as s3_store
from sparkstate_tools.servers import fault_proxy
from sparkstate_tools.servers.fault_proxy import FaultProxy, Schedule
from sparkstate_tools.servers.http_wire import Message

STEPS = 8
RATES = (0.02, 0.05, 0.1, 0.2)
KINDS = (
    fault_proxy.KINDS,
    fault_proxy.LOST,
    ("cut-before", "cut-request", "cut-after", "torn"),
    ("late", "cut-after", "lost-412"),
    ("412", "409", "500", "503", "slow"),
)

pytestmark = [pytest.mark.fault_on("S3; hashmap, rocksdb"), pytest.mark.s3]


@pytest.fixture(scope="module")
def proxy(s3_server):
    with FaultProxy(s3_server.port) as running:
        yield running


@pytest.fixture(scope="module")
def clients():
    """Clients of S3 by what they were made for; to make one takes longer than many requests."""
    return {}


@pytest.fixture
def quick(monkeypatch, clients, s3):
    """The same code, but its waits are a fiftieth, and connections are kept from one driver to the next."""
    make = s3_store._client

    def kept(session, settings, attempts, connections):
        key = (settings, attempts)
        if key not in clients:
            clients[key] = make(session, settings, attempts, connections)
        return clients[key]

    monkeypatch.setattr(s3_store, "_client", kept)
    monkeypatch.setattr(opening, "SystemClock", ImpatientClock)
    monkeypatch.setattr(entries, "READ_AHEAD", 4)
    # In the driver's own thread: a seed is to give the same requests in the same order.
    monkeypatch.setattr(leftovers.Lane, "put", lambda lane, work: leftovers.carry_out(work))
    monkeypatch.setattr(claimed_lineage, "LineageLog", functools.partial(log.LineageLog, base_every=7))
    monkeypatch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=lambda seconds: None))


class World:
    """One seed: its schedule, its drivers, and what the proxy saw of them."""

    def __init__(self, seed: int, proxy: FaultProxy, server, folder: Path) -> None:
        self.rng = random.Random(f"life {seed}")
        self.proxy, self.server, self.folder = proxy, server, folder
        name = secrets.token_hex(6)
        through = S3Settings(endpoint=proxy.endpoint, region="us-east-1", path_style=True)
        self.place = Place(f"s3://state/{name}/jobs", f"s3://state/{name}/sink", folder, through)
        self.data = server.folder / "data" / "state" / name / "jobs"
        self.deleted: list[tuple[str, int]] = []
        self.archive: dict[str, bytes] = {}
        self.drivers: list[LifeDriver] = []
        self.attempt = 0
        self.backend = "hashmap"
        self.story: list[str] = []
        self.names = iter(f"s{number}" for number in range(1000))
        proxy.use(Schedule(seed, self.rng.choice(RATES), self.rng.choice(KINDS)))
        proxy.watch = self.note_deletes

    def note_deletes(self, request: Message) -> None:
        """Remember what is deleted, and how far the log was then."""
        if request.words[0] != "POST" or not re.search(r"[?&]delete", request.words[1]):
            return
        keys = [
            node.text or ""
            for node in ElementTree.fromstring(request.body).iter()
            if node.tag.endswith("Key")
        ]
        for key in keys:
            _, _, path = key.partition("/jobs/")
            lineage, _, inner = path.partition("/")
            if inner and lineage not in ("_probe", "by-name"):
                entries = sorted((self.data / lineage / "log").glob("0*")) if lineage != "savepoints" else []
                self.deleted.append((path, int(entries[-1].name) if entries else -1))
                self.keep(self.data / lineage, inner)

    def keep(self, folder: Path, key: str) -> None:
        """An entry of the log that is about to go; what comes under its number later is none."""
        if key.startswith("log/0") and (folder / key).is_file():
            data = (folder / key).read_bytes()
            if data != records.COMPACTED:
                self.archive.setdefault(key, data)

    def live(self) -> None:
        self.start(new_attempt=True)
        for _ in range(STEPS):
            self.step()
        for driver in self.drivers:
            driver.close()

    def start(self, *, new_attempt: bool) -> None:
        """The next driver: of a new attempt, or the next life of the same; the one before may live on."""
        self.attempt += new_attempt
        if self.rng.random() < 0.5:
            self.backend = "rocksdb"  # which restores what HashMap stored; the other way takes a savepoint
        if not new_attempt:
            self.drivers.pop().close()
        driver = LifeDriver(self.place, self.attempt, self.rng.randint(1, 2), self.backend)
        self.drivers = [*self.drivers[-1:], driver]

    def step(self) -> None:
        name = self.rng.choices(
            ["checkpoint", "savepoint", "delete_a_savepoint", "kill", "restart", "rival", "stop"],
            [10, 3, 2, 4, 1, 2, 1],
        )[0]
        older = len(self.drivers) > 1 and self.rng.random() < 0.4
        self.story.append(name + (" of the older driver" if older else ""))
        driver = self.drivers[0 if older else -1]
        try:
            getattr(self, name)(driver)
        except errors.Fenced:
            assert older, "the newest driver was fenced"
            self.drivers.pop(0).close()

    def checkpoint(self, driver: LifeDriver) -> None:
        driver.epoch(self.rng.randint(1, 40))
        driver.checkpoint()

    def savepoint(self, driver: LifeDriver) -> None:
        driver.epoch(self.rng.randint(1, 10))
        driver.checkpoint(next(self.names))

    def delete_a_savepoint(self, driver: LifeDriver) -> None:
        if driver.savepoints:
            driver.delete_savepoint(driver.savepoints.pop(0))

    def restart(self, driver: LifeDriver) -> None:
        driver.restore()

    def rival(self, driver: LifeDriver) -> None:
        self.start(new_attempt=True)

    def kill(self, driver: LifeDriver) -> None:
        """SIGKILL somewhere in a checkpoint: from then on nothing of it reaches the storage."""
        driver.epoch(self.rng.randint(1, 40))
        driver.clock._dead = lambda: self.proxy.cut_off
        self.proxy.cut_off_after(self.rng.randint(0, 30))
        died = False
        try:
            driver.checkpoint(next(self.names) if self.rng.random() < 0.3 else "")
        except Killed:
            died = True
        finally:
            self.proxy.heal()
        if driver is self.drivers[-1]:
            new_attempt = self.rng.random() < 0.5
            if died and new_attempt:  # else it lives on as a rival
                self.drivers.pop().close()
            self.start(new_attempt=new_attempt)
        else:
            self.drivers.pop(0).close()

    def stop(self, driver: LifeDriver) -> None:
        """Stop with a savepoint; the attempt then never runs again, the next one does."""
        driver.epoch(1)
        driver.checkpoint(next(self.names), stop=True)
        if driver.closed and driver is self.drivers[-1]:
            with pytest.raises(errors.Fenced):
                self.start(new_attempt=False)
            self.drivers = []
            self.start(new_attempt=True)


@pytest.mark.fault(
    broken="S3: answers 409, 412, 500, 503 (some after carrying out the request), torn bodies, cut and late requests",
    when="by seed, over a life of checkpoints, savepoints, retention, sweeps, restores, kills, two drivers",
    expected="log without gaps, each commit once; what was reported restores exactly; output exact; nothing left over",
)
@pytest.mark.usefixtures("quick")
def test_a_life_on_a_shaky_storage_loses_nothing_and_leaves_nothing(fault_seed, proxy, s3_server, tmp_path):
    world = World(fault_seed, proxy, s3_server, tmp_path)
    try:
        world.live()
        proxy.use(Schedule())
        Judge(world.place, world.deleted, world.archive).judge()
    except BaseException:
        print(f"seed {fault_seed}: {world.story}\n" + "\n".join(proxy.happened))
        raise
