"""In which ways processes are killed, and how that went."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

__all__ = ["Figures", "Kind", "kinds"]


class Kind(Enum):
    """A way to end processes."""

    RUNNING = "serving"
    STARTING = "starting"
    DRAINING = "draining"
    PAIR = "two at once"
    ALL = "all at once"
    RELAY = "of its relay"
    """The relay before a worker is killed, and not the worker."""
    DATABASE = "with the database"
    """The database crashes, by either of two signals, and in half of the cases a worker is killed too."""
    REPLIES = "replies lost"
    """Nothing is killed: every worker loses a reply of the database, and its connection."""


_SHARES = {Kind.RUNNING: 9, Kind.STARTING: 4, Kind.DRAINING: 4, Kind.PAIR: 3, Kind.ALL: 2, Kind.RELAY: 4}


def kinds(
    kills: int, workers: int, faults: int, generator: random.Random, *, oblivious: bool = False
) -> list[Kind]:
    """Return so many kills of workers, or few more, and faults of the database of both kinds, mixed.

    Kills of relays are among them on the `oblivious` path only.
    """
    among = [
        kind
        for kind in _SHARES
        if (kind is not Kind.PAIR or workers > 1) and (kind is not Kind.RELAY or oblivious)
    ]
    weights = [_SHARES[kind] for kind in among]
    killed = {Kind.PAIR: 2, Kind.ALL: workers}
    chosen: list[Kind] = []
    while kills > 0:
        kind = generator.choices(among, weights)[0]
        chosen.append(kind)
        kills -= killed.get(kind, 1)
    chosen += [Kind.DATABASE, Kind.REPLIES] * faults
    generator.shuffle(chosen)
    return chosen


@dataclass
class Figures:
    """How it went: numbers of kills by kind, of batches and of requests."""

    kills: Counter[Kind] = field(default_factory=Counter)
    """SIGKILLs of workers."""
    drained: int = 0
    """Workers that ended by SIGTERM before the SIGKILL came."""
    crashes: Counter[str] = field(default_factory=Counter)
    """Of the database, by signal."""
    replies_lost: int = 0
    """Of the database to workers that lived on."""
    in_flight: list[int] = field(default_factory=list)
    """Requests without an answer at each kill of a worker that took requests."""
    in_flight_at_crashes: list[int] = field(default_factory=list)
    """The same at each crash of the database, of all workers."""
    looks: int = 0
    """How often the store was compared with what was sent."""
    unanswered: int = 0
    """Batches not acknowledged when all workers were dead, in all."""
    counted: int = 0
    """How many of them were counted nevertheless: their commit came before the kill, their answer did not."""
    archived: int = 0
    """Batches in the archive at the end, each of them once; 0 without an archive."""
    waiting: int = 0
    """Batches that waited for the archive when all workers were dead, in all."""
    begun: int = 0
    """Files of the archive that were begun then, in all."""
    batches: int = 0
    replays: int = 0
    """Batches that were acknowledged again; these and those below as in `Number`."""
    twins: int = 0
    busy: int = 0
    lost: int = 0
    seconds: float = 0.0
