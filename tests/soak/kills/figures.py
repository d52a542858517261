"""How a soak went."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.soak.kills.kinds import Kind

__all__ = ["Figures"]


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
