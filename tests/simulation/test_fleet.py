"""A fleet of devices and a server, through all kinds of failures, compared with lists of required results.

No acknowledged report is lost, none is counted twice, none leaves with a charge that a loss of power could
still undo, and no cap is ever exceeded. Once all is well again, the queues arrive by themselves.

``ARCWISE_SIMULATIONS=10000 pytest tests/simulation`` runs this many instead, with new ones each time.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("resource")

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arcwise.errors import LedgerError
from arcwise.tasks import DAY
from tests.simulation.device import MOST_PROCESSES, Device, Model
from tests.simulation.network import FATES, Fate, Network, Server
from tests.simulation.world import GROUP, NUMBERS, SOLO, TASKS, World

MORE = int(os.environ.get("ARCWISE_SIMULATIONS", "0"))
HOUR = 3600
MODELS = (
    Model(relaxed=False, options={"batch_size": 4, "max_pending": 25}),
    Model(relaxed=True, options={"batch_size": 3, "max_pending": 1000}),
    Model(relaxed=True, options={"batch_size": 5, "max_pending": 1000, "delay": 300.0}),
)

devices = st.integers(0, len(MODELS) - 1)
processes = st.integers(0, MOST_PROCESSES - 1)


class Fleet(RuleBasedStateMachine):
    """Devices, their processes, the network and the server."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        memory = Path("/dev/shm")  # if there, a durable commit does not use a disk
        self.folder = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        folder = Path(self.folder.name)
        self.world = World(seed)
        self.world.install()
        self.server = Server(folder, TASKS.values(), self.world.server_clock())
        self.network = Network(self.world, self.server)
        self.devices = []
        for number, model in enumerate(MODELS):
            (folder / str(number)).mkdir()
            self.devices.append(Device(folder / str(number), self.world, self.network, model))
        for device in self.devices:
            device.start()
        self.number = 0

    def pick(self, device: int, which: int) -> tuple[Device, Any]:
        """Return a device and one of its processes, or None if none runs."""
        running = self.devices[device].processes
        return self.devices[device], running[which % len(running)] if running else None

    @rule(
        device=devices,
        which=processes,
        name=st.sampled_from((SOLO.name, GROUP.name)),
        times=st.integers(1, 8),
    )
    def report(self, device: int, which: int, name: str, times: int) -> None:
        if not self.devices[device].processes:
            self.devices[device].start()
        for _ in range(times):
            _, process = self.pick(device, which)
            if process is None or self.number == NUMBERS:
                return
            process.report(name, self.number)
            self.number += 1

    @rule(seconds=st.sampled_from((1, 20, 31, 120, 1800, HOUR, DAY, 3 * DAY)))
    def wait(self, seconds: int) -> None:
        until = self.world.now + seconds + self.world.chance.uniform(-1, 1)
        while True:
            due = [
                (process.uplink.due, device, process) for device in self.devices if (process := device.due())
            ]
            if not due:
                break
            time, device, process = min(due, key=lambda each: each[0])
            if time > until:
                break
            self.world.now = max(self.world.now, time)
            device.act(process, process.step)
        self.world.now = max(self.world.now, until)

    @rule(rounds=st.integers(1, 12))
    def work(self, rounds: int) -> None:
        """Let every device report again and again, at any time."""
        chance = self.world.chance
        for _ in range(rounds):
            for device in range(len(self.devices)):
                if chance.random() < 0.1:
                    self.start(device)
                name = chance.choice((SOLO.name, GROUP.name))
                self.report(device, chance.randrange(MOST_PROCESSES), name, chance.randint(0, 4))
            self.wait(chance.choice((1, 10, 40, 600, HOUR, 5 * HOUR)))

    @rule(fates=st.integers(1, 20))
    def storm(self, fates: int) -> None:
        """Make anything happen to the next requests of every device."""
        for device in self.devices:
            device.weather.extend(self.world.chance.choice(FATES) for _ in range(fates))
        self.work(2)

    @rule(device=devices, fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=6))
    def weather(self, device: int, fates: list[Fate]) -> None:
        self.devices[device].weather.extend(fates)
        self.work(2)

    @rule()
    def late_arrivals(self) -> None:
        self.network.arrive()

    @rule(device=devices)
    def start(self, device: int) -> None:
        """Start a process, unless there are enough."""
        if len(self.devices[device].processes) < MOST_PROCESSES:
            self.devices[device].start()

    @rule(device=devices, which=processes)
    def fork(self, device: int, which: int) -> None:
        chosen, process = self.pick(device, which)
        if process is not None and len(chosen.processes) < MOST_PROCESSES:
            chosen.fork(process)
        self.work(2)

    @rule(device=devices, which=processes)
    def stop(self, device: int, which: int) -> None:
        chosen, process = self.pick(device, which)
        if process is not None:
            chosen.stop(process)
        self.work(2)

    @rule(device=devices, which=processes)
    def kill(self, device: int, which: int) -> None:
        chosen, process = self.pick(device, which)
        if process is not None:
            chosen.kill(process)
        self.work(2)

    @rule(device=devices, statements=st.integers(1, 40))
    def kill_soon(self, device: int, statements: int) -> None:
        self.devices[device].fuse = statements
        self.work(2)

    @rule(device=devices)
    def lose_power(self, device: int) -> None:
        self.devices[device].lose_power()
        self.work(2)

    @rule(
        device=devices,
        seconds=st.sampled_from((-40 * DAY, -2 * DAY, -HOUR, -20, 0, 20, HOUR, 2 * DAY, 40 * DAY)),
    )
    def set_clock(self, device: int, seconds: int) -> None:
        self.devices[device].clock_error = seconds
        self.work(2)

    @rule(device=devices, pages=st.booleans(), room=st.one_of(st.none(), st.integers(0, 20_000)))
    def fill_disk(self, device: int, pages: bool, room: int | None) -> None:
        self.devices[device].fill(pages=pages, room=room)
        self.work(2)

    @rule(device=devices)
    def empty_disk(self, device: int) -> None:
        self.devices[device].fill(pages=False, room=None)
        self.work(2)

    @rule(device=devices, which=processes)
    def flush(self, device: int, which: int) -> None:
        chosen, process = self.pick(device, which)
        if process is not None:
            chosen.act(process, lambda: process.uplink.flush(0))
            process.uplink.due = 0.0  # a flush that waits wakes the thread

    @rule(device=devices, which=processes, out=st.booleans())
    def opt(self, device: int, which: int, out: bool) -> None:
        chosen, process = self.pick(device, which)
        if process is None:
            return
        client = process.clients[SOLO.name]
        try:
            done = chosen.act(process, lambda: (client.opt_out() if out else client.opt_in()) is None)
        except LedgerError:
            assert chosen.full
            return
        contents = chosen.check()
        if done and contents is not None:
            assert contents.opted_out == out
            assert not (out and contents.pending)

    @rule(known=st.sets(st.sampled_from(tuple(TASKS)), min_size=1), crash=st.booleans())
    def restart_server(self, known: set[str], crash: bool) -> None:
        self.server.crash() if crash else self.server.stop()
        self.server.start([TASKS[task] for task in sorted(known)])
        self.work(2)

    @rule()
    def stop_server(self) -> None:
        self.server.stop()
        self.work(2)

    @invariant()
    def check(self) -> None:
        assert self.network.acknowledged <= self.server.counted(), "acknowledged and lost"
        for device in self.devices:
            device.check()

    def teardown(self) -> None:
        if not hasattr(self, "number"):
            return
        try:
            self.check()
            self.heal()
        finally:
            for device in self.devices:
                for process in device.processes:
                    process.die()
            self.server.close()
            self.world.uninstall()
            self.folder.cleanup()

    def heal(self) -> None:
        """End all faults: the queues arrive by themselves, except for reports that are no longer accepted."""
        self.server.stop()
        self.server.start(TASKS.values())
        must_arrive = set()
        for device in self.devices:
            device.weather.clear()
            device.fuse = None
            device.fill(pages=False, room=None)
            device.clock_error = 0.0
            if device.orphaned or not device.processes:
                while len(device.processes) == MOST_PROCESSES:
                    device.kill(device.processes[0])
                assert device.start()
            contents = device.check()
            assert contents is not None
            recent = (self.world.now - 4 * DAY, self.world.now + DAY / 2)
            must_arrive |= {report for report, at in contents.queued.items() if recent[0] < at < recent[1]}
        self.wait(50 * HOUR)  # no wait that a server asks for is longer than two days
        self.network.arrive()
        self.check()
        assert must_arrive <= self.server.counted(), "queued and never sent"
        for device in self.devices:
            contents = device.check()
            assert contents is not None
            assert contents.pending == 0
            charged = {report for charge in device.books.charges for report in charge.reports}
            assert contents.sent <= len(charged & self.network.acknowledged)
            assert contents.sent + contents.dropped == len(charged)


def test_a_short_life() -> None:
    """A part of it, without a search, for runs without the slow tests."""
    fleet = Fleet()
    fleet.begin(seed=1)
    try:
        fleet.storm(3)
        fleet.stop_server()
        fleet.restart_server(set(TASKS), crash=True)
        fleet.lose_power(1)
        fleet.check()
    finally:
        fleet.teardown()


TestFleet = pytest.mark.slow(Fleet.TestCase)
TestFleet.settings = settings(
    max_examples=MORE or 15,
    stateful_step_count=40,
    derandomize=not MORE,
    deadline=None,
    report_multiple_bugs=False,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
