"""The ledgers of many accounts in one PostgreSQL database, for an app that reports on behalf of its users.

One transaction makes a report: it locks the account's row, checks the caps, enters the charge, and draws and
queues the code. The database then holds all of these changes or none. Only a later transaction lets the
report leave.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from arcwise.checks import checked_bool, explained
from arcwise.client.accounts import Account, Contents, KeptAnswers
from arcwise.client.checks import checked_integer, checked_number
from arcwise.client.interruptions import holding
from arcwise.client.ledger import Ledger, QueueOwner
from arcwise.client.postgres.outbox import PostgresOutbox, count_dropped
from arcwise.client.postgres.schema import LOCK_QUEUE
from arcwise.errors import LedgerError, ParameterError
from arcwise.extras import check_extra

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from typing_extensions import Self

    from arcwise.client.accounts import Bill, Budget
    from arcwise.client.ledger import OpenTransaction, Outbox, OutboxOptions
    from arcwise.client.postgres.database import Database, Session
    from arcwise.tasks import Task


def to_json(contents: Contents) -> dict[str, Any]:
    """Return the contents as JSON data.

    All numbers except the time are integers: micro-epsilon, delta in units of 2**-64, seconds, nodes and
    codes. PostgreSQL's ``jsonb`` stores integers of any length exactly.
    """
    return {
        "now": None if contents.now == float("-inf") else contents.now,
        "accounts": {name: _account_to_json(account) for name, account in contents.accounts.items()},
        "memos": {
            task: {
                "draw": memo.draw,
                "paid": memo.paid,
                "answers": {str(node): code for node, code in memo.items()},
            }
            for task, memo in contents.memos.items()
        },
    }


def _account_to_json(account: Account) -> dict[str, Any]:
    balance = account.balance
    return {
        "epsilon": balance.epsilon,
        "delta": balance.delta,
        "window": balance.window,
        "recent_epsilon": balance.recent_epsilon,
        "recent_delta": balance.recent_delta,
        "entries": [list(entry) for entry in account.entries],
    }


def from_json(kept: Mapping[str, Any]) -> Contents:
    """Return the contents that `to_json` converted.

    Raises KeyError, TypeError or ValueError for other data.
    """
    contents = Contents()
    if kept["now"] is not None:
        contents.now = float(kept["now"])
    for name, there in kept["accounts"].items():
        account = contents.accounts[name] = Account()
        for attribute in ("epsilon", "delta", "window", "recent_epsilon", "recent_delta"):
            setattr(account.balance, attribute, _count(there[attribute]))
        account.entries.extend(
            (_integer(second), _count(epsilon), _count(delta)) for second, epsilon, delta in there["entries"]
        )
    for task, there in kept["memos"].items():
        memo = contents.memos[task] = KeptAnswers(_count(there["draw"]), _count(there["paid"]))
        memo.update((int(node), _count(code)) for node, code in there["answers"].items())
    return contents


def _integer(value: object) -> int:
    if type(value) is not int:
        raise ValueError("not an integer")
    return value


def _count(value: object) -> int:
    if _integer(value) < 0:
        raise ValueError("negative")
    return _integer(value)


class _PostgresTransaction:
    """The transaction of a `PostgresLedger`, open for one report. See `Transaction`."""

    def __init__(self, session: Session, account: str, outbox: PostgresOutbox, now: float) -> None:
        self._session = session
        self._outbox = outbox
        self._wall = now
        self._number, self._opted_out, self._kept = _row(session, account, lock=True)
        self._contents = _read(self._kept)
        self._contents.now = max(self._contents.now, now)
        self._charged = False
        self.wakes_sender = False
        self.noted: list[tuple[str, int]] = []

    def finish(self) -> None:
        """Write the changes."""
        if self._charged and (kept := to_json(self._contents)) != self._kept:
            _write(self._session, self._number, kept)

    @property
    def time(self) -> float:
        return self._contents.now

    def opted_out(self) -> bool:
        return self._opted_out

    def has_room(self, reports: int) -> bool:
        return self._outbox.has_room(self._session, reports)

    def charge(self, bill: Bill) -> bool:
        self._charged = True  # the ledger has seen this time, even if the charge is refused
        return self._contents.charge(bill)

    def memo(self, task: Task) -> KeptAnswers | None:
        self._charged = True  # a new answer may follow
        return self._contents.memos.get(task.id)

    def memoize(self, task: Task, draw: int, paid: int) -> KeptAnswers:
        return self._contents.memoize(task, draw, paid)

    def put(self, task: Task, epoch: int, code: int) -> None:
        self.noted.append((task.id, epoch))
        self.wakes_sender |= self._outbox.add(
            self._session, task, epoch, code, account=self._number, now=self._wall
        )


class PostgresLedger(Ledger):
    """The ledger of one account, which records its spending; `PostgresLedgers.account` returns it.

    Attributes
    ----------
    account
        The name of the account.

    Examples
    --------
    >>> ledgers = PostgresLedgers("postgresql:///app")  # doctest: +SKIP
    >>> with Uplink("https://reports.example", ledger=ledgers) as uplink:  # doctest: +SKIP
    ...     client = Client(uplink, tasks=[heading], ledger=ledgers.account("user-17"))
    ...     client.report("heading", 350.5)
    """

    __slots__ = ("_database", "account")

    @explained
    def __init__(self, database: Database, account: str) -> None:
        self._database = database
        self.account = account

    @property
    def _key(self) -> Hashable:
        return self._database, self.account

    def _open_outbox(self, options: OutboxOptions) -> PostgresOutbox:
        return PostgresOutbox(self._database, options)

    def _attach(self, outbox: Outbox) -> OpenTransaction:
        if not isinstance(outbox, PostgresOutbox) or outbox.database is not self._database:
            raise ParameterError(
                "the database holds the queue too: give an Uplink that was made with these PostgresLedgers"
            )
        return partial(self._transaction, outbox)

    @holding
    def _transaction(self, outbox: PostgresOutbox, now: float) -> Iterator[_PostgresTransaction]:
        try:
            with self._database.writing(durable=False, queue=False) as session:
                transaction = _PostgresTransaction(session, self.account, outbox, now)
                yield transaction
                transaction.finish()
            # The sender may have looked at the queue before this was committed.
            transaction.wakes_sender |= outbox.has_forgotten(transaction.noted)
        except BaseException:
            outbox.forget_seen()  # the reports it noted were not written
            raise

    def budget(self, bill: Bill, now: float) -> Budget:
        """Return the budget of a bill's first account."""
        with self._database.reading() as session:
            *_, kept = _row(session, self.account)
        return _read(kept).budget(bill, now)

    def opt_out(self) -> int:
        """Record that the account has opted out; drop its queue, and the nodes and answers of memoised tasks.

        Return the number of reports that were dropped from the queue. Codes in sealed batches are not
        dropped, because a batch does not show their accounts.
        """
        with self._database.writing(durable=True, queue=False) as session:
            session.execute(LOCK_QUEUE)
            number, _, kept = _row(session, self.account, lock=True)
            session.execute("UPDATE accounts SET opted_out = true WHERE number = ?", (number,))
            contents = _read(kept)
            contents.memos.clear()
            _write(session, number, to_json(contents))
            return _drop(session, number, "opted-out")

    def opt_in(self) -> None:
        """Record that the account reports again."""
        with self._database.writing(durable=True, queue=False) as session:
            number, *_ = _row(session, self.account, lock=True)
            session.execute("UPDATE accounts SET opted_out = false WHERE number = ?", (number,))

    def __repr__(self) -> str:
        return f"PostgresLedger(schema={self._database.schema!r})"  # the account's name must not reach logs


class PostgresLedgers(QueueOwner):
    """The ledgers of many accounts and their common queue in a PostgreSQL database, for a hosted app.

    Several threads, processes and machines can use it safely; a forked child opens new connections. The
    clocks of the machines should agree: delays, intervals and ages of reports are wrong by as much as the
    clocks differ.

    Parameters
    ----------
    url
        The database, as ``postgresql://user@host/database``.
    create
        Create the tables if they do not exist. This grants no budget: `create_account` makes each account.
    schema
        The schema of the database that holds these tables and nothing else: lower-case letters, digits and
        underscores.
    relaxed
        False (default): every report is on the database's disk before `Client.report` returns. True: a crash
        of the database can undo the last reports together with their charges, but never a report that was
        already sent.
    busy_timeout
        Longest wait, in seconds, for a connection, or while another transaction uses the same account.
    connections
        Largest number of connections of this process.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.
    LedgerError
        When the database cannot be reached, or its tables are missing or have another version.
    MissingExtraError
        Without psycopg: ``pip install 'arcwise[accounts]'``.

    Notes
    -----
    The tables hold account names, codes, charges and times, never a value. For memoised tasks they also hold
    the nodes that values were rounded to: protect them like the app's own data. A queued code is stored with
    its account until it is sealed into a batch, right before it is sent. A database that is restored from a
    backup has lost the later charges, and so has a standby that lagged behind when it took over. Either may
    also send recent reports again.

    If a connection breaks while a report is committed, `Client.report` returns `Outcome.FAILED`, but the
    report may have been made: then it was charged and will be sent. A report that is not charged is never
    sent, and no report is sent twice.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, Client, Task, Uplink
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=2.0))
    >>> ledgers = PostgresLedgers("postgresql:///app", create=True)  # doctest: +SKIP
    >>> uplink = Uplink("https://reports.example", ledger=ledgers)  # doctest: +SKIP
    >>> ledgers.create_account("user-17")  # once, when the user agrees # doctest: +SKIP
    True
    >>> client = Client(uplink, tasks=[heading], ledger=ledgers.account("user-17"))  # doctest: +SKIP
    >>> client.report("heading", 350.5)  # doctest: +SKIP
    <Outcome.ACCEPTED: 'accepted'>
    """

    __slots__ = ("_database",)

    @explained
    def __init__(
        self,
        url: str,
        *,
        create: bool = False,
        schema: str = "arcwise_ledger",
        relaxed: bool = False,
        busy_timeout: float = 5.0,
        connections: int = 8,
    ) -> None:
        if not isinstance(url, str):
            raise ParameterError(f"url must be a string, got {type(url).__name__}")
        if not isinstance(schema, str) or not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
            raise ParameterError(
                "schema must be 1 to 63 lower-case letters, digits and underscores, and begin with no digit, "
                f"got {schema!r}"
            )
        options: dict[str, Any] = {
            "create": checked_bool("create", create),
            "schema": schema,
            "relaxed": checked_bool("relaxed", relaxed),
            "busy_timeout": min(checked_number("busy_timeout", busy_timeout), 86_400.0),
            "connections": checked_integer("connections", connections, 1000),
        }
        check_extra("accounts", "psycopg", user="PostgresLedgers")
        from arcwise.client.postgres.database import Database

        self._database = Database(url, **options)

    def _open_outbox(self, options: OutboxOptions) -> PostgresOutbox:
        return PostgresOutbox(self._database, options)

    def account(self, account: str) -> PostgresLedger:
        """Return the ledger of an account, for a `Client`, without a request to the database.

        If the account does not exist, reports fail without a charge, and all other calls raise `LedgerError`.

        Parameters
        ----------
        account
            The account's name, 1 to 200 characters, such as ``str(user.pk)``.

        Raises
        ------
        ParameterError
            When the name is not valid.
        """
        return PostgresLedger(self._database, _checked(account))

    def create_account(self, account: str) -> bool:
        """Create an account; return False if it exists already. Call this once, when the user agrees.

        Raises
        ------
        ParameterError, LedgerError
            When the name is not valid; when the database cannot be written.
        """
        with self._database.writing(durable=True, queue=False) as session:
            made = session.execute(
                """INSERT INTO accounts (account, contents) VALUES (?, CAST(? AS jsonb))
                   ON CONFLICT (account) DO NOTHING""",
                (_checked(account), _dumped(to_json(Contents()))),
            )
            return made.rowcount == 1

    def delete_account(self, account: str) -> bool:
        """Delete all data of an account and its queued reports; return False if there is no such account.

        The account's spending is forgotten too: a new account with the same name has a whole budget, although
        reports of the deleted account may have been sent. So names should not be used again. Codes in sealed
        batches stay, because a batch does not show their accounts.

        Raises
        ------
        ParameterError, LedgerError
            When the name is not valid; when the database cannot be written.
        """
        with self._database.writing(durable=True, queue=False) as session:
            session.execute(LOCK_QUEUE)
            row = session.execute(
                "SELECT number FROM accounts WHERE account = ? FOR UPDATE", (_checked(account),)
            ).fetchone()
            if row is None:
                return False
            _drop(session, row[0], "deleted")
            session.execute("DELETE FROM accounts WHERE number = ?", row)
            return True

    def close(self) -> None:
        """Close the connections. Close the uplinks that use them first."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PostgresLedgers(schema={self._database.schema!r}, relaxed={self._database.relaxed!r})"


_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""Characters that a PostgreSQL text cannot hold."""


def _checked(account: object) -> str:
    if not isinstance(account, str) or not 1 <= len(account) <= 200 or _NO_TEXT.search(account):
        raise ParameterError(
            "account must be a string of 1 to 200 characters without NUL and surrogates, such as "
            f"str(user.pk), got a {type(account).__name__}"
            + (f" of {len(account)} characters" if isinstance(account, str) else "")
        )
    return account


def _row(session: Session, account: str, *, lock: bool = False) -> tuple[int, bool, dict[str, Any]]:
    query = "SELECT number, opted_out, contents FROM accounts WHERE account = ?"
    row: Any = session.execute(f"{query} FOR UPDATE" if lock else query, (account,)).fetchone()
    if row is None:
        raise LedgerError(
            "there is no such account: make it with create_account when its user agrees. If there was one, "
            "it was deleted, and its spending is unknown"
        )
    number, opted_out, contents = row
    return number, opted_out, contents


def _read(kept: dict[str, Any]) -> Contents:
    try:
        return from_json(kept)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise LedgerError("the ledger of this account is damaged: its spending is unknown") from None


def _dumped(kept: dict[str, Any]) -> str:
    import json

    return json.dumps(kept)


def _write(session: Session, number: int, kept: dict[str, Any]) -> None:
    session.execute(
        "UPDATE accounts SET contents = CAST(? AS jsonb) WHERE number = ?", (_dumped(kept), number)
    )


def _drop(session: Session, number: int, reason: str) -> int:
    dropped = session.execute("DELETE FROM reports WHERE account = ?", (number,)).rowcount
    count_dropped(session, reason, dropped)
    return dropped
