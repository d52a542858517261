"""Who got in, and what they changed: sessions and the audit log. None of it leaves a store with an export."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arcwise.server.store.records import StoredAction, StoredSession

MOST_SESSIONS = 100
"""Sessions of one key at the same time; a further one ends the oldest."""


class Access(ABC):
    """Sessions, the audit log, and a few numbers that a store remembers of the server that ran last.

    Every method raises `StoreError` when the store cannot do its work, and may be called from any thread.
    """

    @abstractmethod
    def add_session(self, session: StoredSession) -> None:
        """Keep a session. Of one key the newest `MOST_SESSIONS` are kept; earlier ones end."""

    @abstractmethod
    def session(self, digest: bytes) -> StoredSession | None:
        """Return the session with the digest, however old it is; None where there is none. Cheap."""

    @abstractmethod
    def see_session(self, digest: bytes, now: int) -> None:
        """Note that a session was used at `now`, in Unix seconds; a later time that is known stays.

        Nothing happens where there is no such session: one that was ended does not come back.
        """

    @abstractmethod
    def end_session(self, digest: bytes) -> bool:
        """Forget a session; return False where there is none."""

    @abstractmethod
    def prune_sessions(self, now: int, idle_seconds: int) -> int:
        """Forget the sessions that are over at `now`: return how many.

        They are those past their absolute end, and those not used for `idle_seconds`.
        """

    @abstractmethod
    def begin_action(self, action: StoredAction) -> int:
        """Write an entry into the audit log before what it is about is done; return the entry's number.

        So no change is without an entry: a process that dies in between leaves one whose outcome says that
        it is not known.
        """

    @abstractmethod
    def end_action(self, number: int, outcome: str) -> None:
        """Note what became of an action."""

    @abstractmethod
    def actions(self, most: int, before: int | None = None) -> list[tuple[int, StoredAction]]:
        """Return entries of the audit log with their numbers, the newest first.

        Parameters
        ----------
        most
            How many at most.
        before
            Only those with a lower number; None: from the newest on.
        """

    @abstractmethod
    def prune_actions(self, before: int) -> int:
        """Forget the entries from before a time, in Unix seconds; return how many."""

    @abstractmethod
    def remember(self, name: str, value: int) -> None:
        """Remember a number under a name, instead of the earlier one."""

    @abstractmethod
    def recall(self, name: str) -> int | None:
        """Return the number that is remembered under a name; None where there is none."""
