"""The demo's devices: a real `Client` and an in-memory budget each, one uplink for a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.client import Client, MemoryLedger

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.cli.demo.data import Fleet
    from arcwise.client import Uplink
    from arcwise.randomness import Randomness

_STEP = 2_000


def report_fleet(
    fleet: Fleet, uplink: Uplink, *, randomness: Randomness, progress: Callable[[int], object]
) -> int:
    """Let every device of the fleet report its values once; return the number of reports made.

    Each device is a `Client` with a ledger of its own. They share the uplink, as devices behind one gateway
    do: it sees codes only, and sends them on in batches of many devices. `progress` is called with the number
    of devices that were served since the last call.
    """
    tasks = tuple(column.task for column in fleet.columns)
    names = [task.name for task in tasks]
    devices = zip(*(column.values.tolist() for column in fleet.columns), strict=True)
    reports = 0
    for number, values in enumerate(devices, 1):
        client = Client(uplink, tasks=tasks, ledger=MemoryLedger(), randomness=randomness)
        for name, value in zip(names, values, strict=True):
            if value == value:  # noqa: PLR0124 (NaN: the record has no value)
                reports += bool(client.report(name, value))
        if number % _STEP == 0:
            progress(_STEP)
    progress(len(fleet) % _STEP)
    return reports
