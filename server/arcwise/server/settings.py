"""The settings of a server, each declared once: its name, type, default, bounds and help.

The options of `arcwise serve`, the environment variables, the keys of its file and the table in
docs/reference/settings.md are derived from these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from ipaddress import ip_address, ip_network
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from arcwise.checks import explained
from arcwise.errors import ParameterError, TaskError
from arcwise.server.access.origins import checked_origins, checked_public_url
from arcwise.server.access.rates import plain_address
from arcwise.server.store import check_store_url
from arcwise.server.store.writer import batch_bytes
from arcwise.tasks import Group, Task
from arcwise.tasks.group import load_task_or_group
from arcwise.wire import MAX_BODY_BYTES


class _Stored(tuple[Task, ...]):
    """The type of `STORED_TASKS`, to be compared by identity, so that an empty list stays an error."""

    __slots__ = ()


STORED_TASKS: Final = _Stored()
"""The value of `tasks` to serve the tasks in the store, and tasks that are added over HTTP."""


def load_tasks(directory: str | PathLike[str]) -> tuple[Task, ...]:
    """Read every ``*.json`` in a directory as a task or the tasks of a group, in the order of file names.

    A task that is in several files, such as its own and that of its group, is returned once. Raises
    `TaskError` when there is no such directory, no task in it, or a file that is neither a task nor a group.
    """
    folder = Path(directory)
    if folder.is_file():
        raise TaskError(f"{folder} is a file: give the directory that contains it")
    if not folder.is_dir():
        raise TaskError(f"{folder} is not a directory of task files; make one with `arcwise task new`")
    paths = sorted(folder.glob("*.json"))
    for path in paths:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise TaskError(f"{path} is not a regular file, so it is not read")  # a pipe may never end
    found = [load_task_or_group(path) for path in paths]
    tasks = tuple(
        dict.fromkeys(task for each in found for task in (each.tasks if isinstance(each, Group) else (each,)))
    )
    if not tasks:
        raise TaskError(f"{folder} contains no task file (*.json); make one with `arcwise task new`")
    return tasks


class Setting(NamedTuple):
    """The declaration of a setting, without its name and its type.

    `read_as` is the type of the values in options, the environment and a file. `help` appears in the
    command's help and in docs/reference/settings.md. `default` is the default as a file would state it, or ""
    where it cannot be stated. `allows` checks a value, and `must_be` describes valid values for messages.
    `option` is the command-line option if its name differs from the setting's, as for lists, and `metavar` is
    the word for its value.
    """

    read_as: Any
    help: str
    default: str
    must_be: str
    allows: Callable[[Any], bool]
    option: str
    metavar: str | None


def settings_of(settings: type[Settings]) -> dict[str, Setting]:
    """Return the declarations of a class of settings by name, in order."""
    return {each.name: each.metadata["setting"] for each in fields(settings) if each.init}


def _declared(
    default: Any,
    read_as: Any,
    text: str,
    must_be: str = "",
    allows: Callable[[Any], bool] = lambda _value: True,
    *,
    stated: str | None = None,
    option: str = "",
    metavar: str | None = None,
    may_be_secret: bool = False,
) -> Any:
    stated = str(default) if stated is None else stated
    setting = Setting(read_as, text, stated, must_be, allows, option, metavar)
    return field(default=default, metadata={"setting": setting}, repr=not may_be_secret)


def _whole(default: int, least: int, most: int, text: str) -> Any:
    words = f"an integer from {least} to {most}"
    return _declared(default, int, text, words, lambda n: type(n) is int and least <= n <= most)


def _seconds(default: float, most: int, text: str, *, above: bool = True) -> Any:
    words = f"{'above' if above else 'at least'} 0 and at most {most}"

    def allows(n: Any) -> bool:
        return type(n) in (int, float) and 0 <= n <= most and (n > 0 or not above)

    return _declared(default, float, text, words, allows)


def _choice(default: str, choices: Any, text: str) -> Any:
    known = get_args(choices)
    return _declared(default, choices, text, f"one of {', '.join(known)}", known.__contains__)


def _is_bool(value: object) -> bool:
    return type(value) is bool


def _are_proxies(value: object) -> bool:
    """Return whether these texts are addresses or networks, or * alone; other texts would match no proxy."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return False
    try:
        for each in () if list(value) == ["*"] else value:
            (ip_network if "/" in each else ip_address)(each)
    except (TypeError, ValueError):
        return False
    return True


_APART = "Compute estimates in a separate process, so that readers cannot starve ingestion."


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a server.

    Parameters
    ----------
    tasks
        The tasks to serve, or the directory that holds their files. Tasks that are already in the store, and
        tasks added over HTTP, are served too. With `STORED_TASKS`, the default, only these are served.
    store
        Where counts are kept: ``sqlite:///arcwise.db`` (relative to the working directory) or
        ``sqlite:////var/lib/arcwise/arcwise.db`` (absolute), or ``postgresql://user@host/database``.
    retention_days
        Days after its epoch for which a batch is still accepted and its id remembered; later batches get 410.
        Batches are accepted for at least one epoch, even if an epoch is longer. A task can state its own
        lateness instead.
    max_body_bytes
        Largest request body that is read, at most 1 MiB.
    max_waiting_bytes
        Bytes of batches that may wait for the store, enough for the largest batch; beyond that the server
        answers 503.
    allow_origins
        Origins such as "https://app.example" whose pages may report from a browser, ``["*"]`` for all; by
        default no origin is allowed. Clients that are not browsers may report in any case.
    open
        True: everybody may report and read, without a key. False: everybody needs a key. None, the default:
        requests without a key are allowed only from this machine to itself, and only while the store has
        never had a key. Managing tasks always takes an admin key. ``arcwise key new`` makes keys.
    requests_per_minute_per_key, requests_per_minute_per_address
        Requests a minute that a key, or an address (a /64 of IPv6), may make; more get 429. 0, the default:
        no limit. Behind a proxy all requests have its address, unless `arcwise serve` trusts the proxy.
    public_url
        The origin at which browsers find the pages, such as "https://reports.example". "", the default: the
        origin that the Host header names. The server accepts forms from this origin only.
    session_seconds, session_idle_seconds
        Seconds after the login, and seconds after the last opened page, at which a session ends. The user
        must then log in again.
    audit_retention_days
        Days for which the store keeps the log of who made, closed and revoked tasks and keys.
    max_batch_codes
        Largest number of codes in a batch.
    release
        "live", the default: readers see counts as they grow. "closed-epochs": readers of all tasks see an
        epoch once it takes no more reports, and it never changes after that. A task that asks for this
        itself, or has a central statement, is always shown this way.
    min_reports
        Least number of reports in every estimate that is shown, and in the difference of any two. 0, the
        default: any number. Each report is private by itself, so this is not needed for privacy; intervals
        show how uncertain an estimate from few reports is.
    min_reports_days
        With `min_reports`: the length, in days, of the blocks of epochs that are shown together, counted from
        a Monday. A block with fewer than `min_reports` reports is withheld. With 7, the default, a task with
        few reports a day still has estimates; with 1, each day that has enough reports is shown.
    max_reading_bytes
        Bytes of bodies that may be arriving at the same time; beyond that the server answers 503.
    estimates_apart
        Compute estimates in a separate process, so that readers cannot starve ingestion. The process is
        spawned: a program that sets this must not start a server when it is merely imported. `arcwise serve`
        sets it.
    body_seconds
        Seconds within which a body must arrive.
    archive
        A folder that accepted batches are written to as Parquet; it is created if needed. It takes pyarrow
        (the extra ``lake``). "", the default: no archive.
    archive_seconds, archive_retention_days, archive_max_staged_bytes
        Seconds for which batches are gathered in the store before they are written to the archive; days after
        their epoch for which their files are kept (0: for ever); and bytes of batches that may wait in the
        store.

    gateway_keys
        A file made by `arcwise key gateway`: the server is then also a gateway of Oblivious HTTP. It takes
        the extra ``oblivious``. "", the default: no gateway.
    relays
        Addresses of relays, which requests_per_minute_per_address does not limit at the gateway, because a
        relay brings reports of many devices. All other addresses are limited as usual.

    Attributes
    ----------
    served
        The tasks, read from their files if a directory was given.
    origins
        The allowed origins.
    known_relays
        The addresses of the relays.

    Raises
    ------
    ParameterError
        When a value is out of its bounds, an origin is not valid, or two tasks share a name.
    TaskError, CertificateError
        When a directory of tasks does not hold valid task files.
    """

    tasks: Iterable[Task] | str | PathLike[str] = _declared(  # noqa: RUF009 (it is a tuple)
        STORED_TASKS,
        Path,
        "Directory of task and group files (*.json), made with `arcwise task new` and `arcwise group new`. "
        "Tasks of the store are served too; without a directory, only those.",
        stated="",
    )
    store: str = _declared(
        "sqlite:///arcwise.db", str, "URL of the store that keeps the counts.", may_be_secret=True
    )
    open: bool | None = _declared(
        None,
        bool,
        "Let everybody who reaches the server report and read, without a key.",
        "True, False or None",
        lambda value: value is None or _is_bool(value),
        stated="false",
    )
    allow_origins: Iterable[str] = _declared(
        (),
        list[str],
        "Origins such as https://app.example whose pages may report from a browser; * for all.",
        stated="[]",
        option="--allow-origin",
        metavar="ORIGIN",
    )
    retention_days: int = _whole(30, 1, 36_500, "Days after its epoch for which a batch is still accepted.")
    max_body_bytes: int = _whole(MAX_BODY_BYTES, 1, MAX_BODY_BYTES, "Largest request body, at most 1 MiB.")
    max_batch_codes: int = _whole(MAX_BODY_BYTES, 1, MAX_BODY_BYTES, "Largest number of codes in a batch.")
    max_reading_bytes: int = _whole(
        64 << 20,
        1 << 20,
        1 << 40,
        "Bytes of bodies being received, without 16 KiB of each; beyond that, 503.",
    )
    max_waiting_bytes: int = _whole(
        64 << 20, 1, 1 << 40, "Bytes of batches waiting for the store; beyond that, 503."
    )
    body_seconds: float = _seconds(30.0, 3600, "Seconds within which the body of a request must arrive.")
    requests_per_minute_per_key: int = _whole(
        0, 0, 10**9, "Requests a minute with one key; beyond that, 429. 0: no limit."
    )
    requests_per_minute_per_address: int = _whole(
        0,
        0,
        10**9,
        "Requests a minute from one address; beyond that, 429. 0: no limit. "
        "Behind a proxy, name it in trusted_proxies first.",
    )
    public_url: str = _declared(
        "",
        str,
        "Origin at which browsers find the pages, such as https://reports.example; by default that of the "
        "Host header.",
    )
    session_seconds: float = _seconds(
        43_200.0, 30 * 86_400, "Seconds after a login at which the session ends."
    )
    session_idle_seconds: float = _seconds(
        3600.0, 30 * 86_400, "Seconds after the last opened page at which a session ends."
    )
    audit_retention_days: int = _whole(
        365, 1, 36_500, "Days for which the audit log keeps who changed tasks and keys."
    )
    release: str = _choice(
        "live",
        Literal["live", "closed-epochs"],
        "Counts that readers see: live, or closed-epochs, those of epochs that take no more reports. "
        "A task can require the latter.",
    )
    min_reports: int = _whole(
        0,
        0,
        1 << 53,
        "Least number of reports in everything that is shown, and in the difference of any two. 0: no limit.",
    )
    min_reports_days: int = _whole(
        7,
        1,
        36_500,
        "With min_reports: days, counted from a Monday, whose epochs are shown together or not at all.",
    )
    archive: str | PathLike[str] = _declared(  # noqa: RUF009 (it is a text)
        "",
        str,
        "Directory that accepted batches are written to as Parquet; without it, no archive.",
        metavar="DIRECTORY",
    )
    archive_seconds: float = _seconds(
        600.0, 86_400, "Seconds for which accepted batches are gathered before the archive receives them."
    )
    archive_retention_days: int = _whole(
        0, 0, 36_500, "Days after its epoch for which a file of the archive is kept. 0: for ever."
    )
    archive_max_staged_bytes: int = _whole(
        1 << 30, 1 << 20, 1 << 50, "Bytes of batches waiting for the archive in the store; beyond that, 503."
    )
    gateway_keys: str | PathLike[str] = _declared(  # noqa: RUF009 (it is a text)
        "",
        str,
        "File of keys made by `arcwise key gateway`; with it, reports are also accepted from relays "
        "(Oblivious HTTP).",
        metavar="FILE",
    )
    relays: Iterable[str] = _declared(
        (),
        list[str],
        "Addresses of relays, which requests_per_minute_per_address does not limit at the gateway.",
        stated="[]",
        option="--relay",
        metavar="ADDRESS",
    )
    estimates_apart: bool = _declared(False, bool, _APART, "True or False", _is_bool, stated="false")
    served: tuple[Task, ...] = field(init=False, repr=False)
    origins: tuple[str, ...] = field(init=False, repr=False)
    known_relays: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, setting in settings_of(type(self)).items():
            value = getattr(self, name)
            if not setting.allows(value):
                raise ParameterError(f"{name} must be {setting.must_be}, got {value!r}")
        if self.max_waiting_bytes < batch_bytes(self.max_body_bytes):
            raise ParameterError(
                f"max_waiting_bytes must be at least max_body_bytes + {batch_bytes(0)}, here "
                f"{batch_bytes(self.max_body_bytes)}, or a batch of that size is never accepted; "
                f"got {self.max_waiting_bytes}"
            )
        check_store_url(self.store)
        tasks = self.tasks
        if not isinstance(tasks, (str, PathLike, Iterable)):
            raise ParameterError(
                f"tasks must be Task objects or a directory, got {tasks!r}; for one task, give [task]"
            )
        served = load_tasks(tasks) if isinstance(tasks, (str, PathLike)) else tuple(tasks)
        for task in served:
            if not isinstance(task, Task):
                raise ParameterError(
                    f"tasks must be Task objects or a directory, got {task!r} among them: "
                    "Task.load(FILE) reads a task"
                )
        names = [task.name for task in served]
        if (not names and tasks is not STORED_TASKS) or len(set(names)) < len(names):
            raise ParameterError(
                f"tasks must hold at least one task, each with a different name; got {names}. Give a new "
                "version of a task its own name, or leave out the older version: a store that has it still "
                "serves it"
            )
        object.__setattr__(self, "served", served)
        object.__setattr__(self, "origins", checked_origins(self.allow_origins))
        object.__setattr__(self, "known_relays", _checked_relays(self.relays))
        checked_public_url(self.public_url)


def _checked_relays(relays: object) -> tuple[str, ...]:
    """Return the addresses of relays; raise `ParameterError` unless each is an IP address."""
    found: list[Any] = [relays] if isinstance(relays, str) or not isinstance(relays, Iterable) else [*relays]
    try:
        return tuple(plain_address(str(relay)) for relay in found)
    except ValueError:
        raise ParameterError(f"relays must be a list of IP addresses, got {relays!r}") from None


Settings.__init__ = explained(Settings.__init__)  # type: ignore[method-assign]  # it is generated


@dataclass(frozen=True, slots=True)
class ProcessSettings(Settings):
    """The settings of `arcwise serve`: those of the app, and those of its process.

    docs/reference/settings.md lists all settings; `Settings` documents the settings of the app.
    """

    estimates_apart: bool = _declared(True, bool, _APART, "True or False", _is_bool, stated="true")
    host: str = _declared("127.0.0.1", str, "Address to listen on.")
    port: int = _whole(8000, 0, 65_535, "Port to listen on; 0 picks a free one.")
    trusted_proxies: Sequence[str] = _declared(
        (),
        list[str],
        "Addresses of proxies whose X-Forwarded-For names the sender; * for all.",
        "a list of addresses or networks such as 10.0.0.0/8, or of * alone",
        _are_proxies,
        stated="[]",
        option="--trusted-proxy",
        metavar="ADDRESS",
    )
    max_connections: int = _whole(
        4096, 1, 10**6, "Connections open at the same time; beyond that, the longest idle one is closed."
    )
    header_seconds: float = _seconds(10.0, 3600, "Seconds within which the head of a request must arrive.")
    answer_seconds: float = _seconds(
        30.0,
        3600,
        "Seconds within which a client must read its answer; the same time again for every 512 KiB of it.",
    )
    max_unread_bytes: int = _whole(
        64 << 20,
        1 << 20,
        1 << 40,
        "Bytes of answers that clients have not read; "
        "beyond that, the connections that have waited longest are closed.",
    )
    drain_seconds: float = _seconds(
        0.0,
        600,
        "Seconds after SIGTERM in which requests are still accepted while /health/ready returns 503.",
        above=False,
    )
    log_format: str = _choice(
        "text", Literal["json", "text"], "Format of the log on standard error: text or json."
    )
    log_level: str = _choice(
        "info",
        Literal["debug", "info", "warning", "error"],
        "Lowest level that is logged: debug, info, warning or error.",
    )
