"""In which ways processes are killed."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

__all__ = ["Kind", "kinds"]


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
