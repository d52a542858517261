"""One SQLite file with what a device has spent and what it has not sent yet.

A report is one transaction: caps are checked, the charge is entered, the code is drawn and queued, and either
all of it is in the file or nothing. Only a later transaction, durable on the disk, lets it leave.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from arcwise.checks import checked_bool, explained
from arcwise.client.accounts import budget
from arcwise.client.checks import checked_number
from arcwise.client.file.database import Database
from arcwise.client.file.opening import checked_path, create_file
from arcwise.client.file.outbox import FileOutbox, drop
from arcwise.client.file.transaction import FileTransaction, read_balances
from arcwise.client.holding import holding
from arcwise.client.ledger import Ledger
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Self

    from arcwise.client.accounts import Bill, Budget
    from arcwise.client.ledger import OpenTransaction
    from arcwise.client.outbox import Outbox, OutboxOptions


class FileLedger(Ledger):
    """A device's spending and its queue in one SQLite file, which outlive the process.

    Safe to use from several threads, from several clients and from several processes; a forked child opens
    the file anew. Clients that send to other servers, or in other ways, need ledgers of their own, see
    docs/howto/embed-a-client.md.

    Parameters
    ----------
    path
        The file, or a symbolic link to it; SQLite keeps two more beside the file while it is open (``-wal``
        and ``-shm``). It must have no second name (hard link).
    create
        Make the file, which must not exist: once in the life of a device, such as when somebody agrees to
        telemetry. Without it (default) the file must exist. Whoever creates a ledger because there is none
        hands out the whole budget again.
    relaxed
        False (default): every report is on the disk before `Client.report` returns, which takes as long as
        the disk takes. True: a loss of power can undo the last reports together with their charges, as long
        as nothing of them has left; what a report costs is then one write to the file system's cache.
        A crash of the process loses nothing either way.
    busy_timeout
        For how many seconds to wait while another process writes.

    Raises
    ------
    ParameterError
        When `create` or `relaxed` is not a bool, or `busy_timeout` is not a finite number of at least 0.
    LedgerError
        When there is no file (or, with `create`, when there is one), when it is damaged, or no ledger.

    Notes
    -----
    The file holds codes, charges and times, never a value. For memoised tasks it holds the nodes that values
    were rounded to: protect it as the app's own data. A copy of a ledger is a copy of its budget: keep it out
    of backups and of what is synchronised between devices.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, Client, Task
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=2.0))
    >>> with FileLedger("telemetry.db", create=True) as ledger:
    ...     client = Client("http://127.0.0.1:8000", tasks=[heading], ledger=ledger)
    ...     accepted = client.report("heading", 350.5)
    ...     client.close(0)  # what is not sent stays in the file
    False
    >>> with FileLedger("telemetry.db") as ledger:
    ...     client = Client("http://127.0.0.1:8000", tasks=[heading], ledger=ledger)
    ...     client.budget("heading").reports_left, client.pending
    ...     client.close(0)
    (1, 1)
    False
    """

    @explained
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = False,
        relaxed: bool = False,
        busy_timeout: float = 5.0,
    ) -> None:
        file = checked_path(path)
        busy_timeout = min(checked_number("busy_timeout", busy_timeout), 86_400.0)
        relaxed = checked_bool("relaxed", relaxed)
        if checked_bool("create", create):
            create_file(file)
        self._database = Database(file, relaxed=relaxed, busy_timeout=busy_timeout)

    @property
    def path(self) -> Path:
        """The absolute path of the file."""
        return self._database.path

    @property
    def relaxed(self) -> bool:
        """Whether a loss of power can undo the last reports."""
        return self._database.relaxed

    def _open_outbox(self, options: OutboxOptions) -> FileOutbox:
        return FileOutbox(self._database, options)

    def _attach(self, outbox: Outbox) -> OpenTransaction:
        if not isinstance(outbox, FileOutbox) or outbox.database is not self._database:
            raise ParameterError(
                "a FileLedger holds the queue too: give a URL, or an Uplink that was made with this ledger"
            )
        return partial(self._transaction, outbox)

    @holding
    def _transaction(self, outbox: FileOutbox, now: float) -> Iterator[FileTransaction]:
        try:
            with self._database.writing(durable=False) as connection:
                transaction = FileTransaction(connection, outbox, now)
                yield transaction
                transaction.finish()
        except BaseException:
            outbox.forget_seen()  # what it took note of was not written
            raise

    def budget(self, bill: Bill, now: float) -> Budget:
        """Return the budget of the first account of a bill."""
        with self._database.reading() as connection:
            return budget(read_balances(connection, bill, now))

    def opt_out(self) -> int:
        """Remember that the device has opted out, and drop what is queued and what values were rounded to.

        Return how many reports were queued.
        """
        with self._database.writing(durable=True) as connection:
            connection.execute("UPDATE state SET opted_out = 1")
            dropped = drop(connection, "opted-out")
            # With both: answers that are given anew must be paid for anew.
            connection.execute("DELETE FROM answers")
            connection.execute("DELETE FROM memos")
        self._database.empty_log()  # what was deleted is in it, too
        return dropped

    def opt_in(self) -> None:
        """Remember that the device reports again."""
        with self._database.writing(durable=True) as connection:
            connection.execute("UPDATE state SET opted_out = 0")

    def close(self) -> None:
        """Close the file. Clients that use it must be closed first: their reports fail from here on."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"FileLedger({str(self.path)!r}, relaxed={self.relaxed!r})"
