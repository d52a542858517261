"""The class `Task`, with its rules, its canonical bytes and its id.

The id of a task is the SHA-256 of its canonical bytes. These are its `fields` as one msgpack array: floats as
float64, integers in their shortest form, strings in NFC. They hold the *resolved* kernel, so two libraries
that agree on the id sample from the same integers. A task is immutable, and its certificate always holds.
"""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar

from arcwise.checks import checked_integer, checked_real, explained, shown
from arcwise.digits import rounded_up
from arcwise.domains import Circle, Interval
from arcwise.errors import CertificateError, TaskError
from arcwise.kernels.certificate import EPSILON_MIN, UNIT, check_epsilon
from arcwise.mechanisms.base import Mechanism
from arcwise.mechanisms.registry import mechanism_from_fields, mechanism_to_fields
from arcwise.randomness import SYSTEM
from arcwise.tasks._document import Document
from arcwise.tasks.caps import DAY, MAX_PERIOD, SECONDS, Caps, Charge, check_caps, micro_epsilon
from arcwise.tasks.fields import (
    SCHEMA_VERSION,
    caps_from_fields,
    caps_to_fields,
    domain_from_fields,
    domain_to_fields,
    fields_from_json,
    fields_to_json,
)
from arcwise.tasks.goals import checked_goal, mechanism_for, warn_if_coarse
from arcwise.tasks.optional import (
    MAX_NAME,
    OPTIONAL,
    check_known,
    checked_optional,
    checked_text,
    optional_from_fields,
    optional_to_fields,
)
from arcwise.tasks.words import caps_words, privacy_words, reader_words, release_words

if TYPE_CHECKING:
    from typing import Literal

    from numpy.typing import NDArray

    from arcwise.domains import Domain
    from arcwise.randomness import Randomness
    from arcwise.tasks.central import CentralStatement
    from arcwise.typing import IntArray

_FINE_BY_DEFAULT = 16.0
"""Up to this epsilon the default nodes are enough, so nothing is computed and numpy is not imported."""


class Task(Document):
    """One question to every device: its domain, its epsilon, its mechanism and its caps.

    Any change, even of a word of the description, makes another task with another id and its own budget.

    Parameters
    ----------
    name
        The name of the task for apps and people, 1 to 64 printable characters; normalised to NFC.
    domain
        `Interval` or `Circle`.
    epsilon
        The privacy loss of one report, from 0.01 to 20, or from 0 to 20 with a mechanism that spends a delta.
    goal
        The purpose of the reports, which selects the mechanism. Interval: "distribution" (default; gives the
        mean, quantiles and the distribution) or "value" (a small error of each single report). Circle:
        "direction" (default) or "distribution". The goal "mean" needs a mechanism designed by a solver:
        `arcwise task new --goal mean` writes such a task, and `arcwise.analysis.design.minimax` returns the
        mechanism.
    mechanism
        The mechanism to use instead of the goal's choice. Its domain and epsilon must equal the arguments
        `domain` and `epsilon`.
    expected_reports
        The expected number of reports in all, a positive integer. The goal "distribution" uses as many nodes
        as these reports can distinguish at this epsilon: 128, 256, 512, or on a circle 1,024. The default and
        minimum is 128 nodes below epsilon 3. From epsilon 3 on, the default and minimum is the number of
        nodes that gives one-byte codes: 209 to 255, or 256 on a circle. The argument has no effect on a
        lattice of at most 1,024 values, with another goal or with a given `mechanism`, and it is not part of
        the task. The goals "value" and "direction" use 128 nodes up to epsilon 6.2, and more nodes above 6.2.
    epoch_seconds
        Length of an epoch in seconds. The default is a day.
    caps
        The most that one device may spend on this task. The default is no cap.
    description
        The question in words for people: 1 to 200 printable characters, normalised to NFC. None (default): no
        description.
    unit
        The unit of the values, for people: 1 to 20 printable characters such as "min" or "km/h", normalised
        to NFC. It changes no number.
    central
        A promise about readers who see only released counts: a `CentralStatement`. None (default): no
        promise. The caps must make the promise true: a lifetime cap of at most `releases` reports, and a
        rolling cap of at most `reports_each` in a window that is at least as long as an epoch. A client
        refuses to memoise such a task.
    release
        "closed-epochs": a server shows an epoch only after it stops taking reports, and never changes it
        afterwards. None (default): the server's settings decide. A task with a central statement is always
        released this way.
    lateness_seconds
        The time after the end of an epoch in which a server still accepts batches of this epoch, from 0 to
        31,622,400 seconds. None (default): the server's settings decide.

    Attributes
    ----------
    charge
        The cost of one report for a device.
    id
        64 hex digits.

    Raises
    ------
    TaskError, ParameterError
        When the arguments are out of bounds or contradict one another.
    CertificateError
        When the mechanism's exact ratio exceeds e^epsilon.

    Warns
    -----
    CoarseGridWarning
        When a mechanism for a single value has too few nodes, so that its worst error is more than 2 % above
        the worst error without a grid. Reading a task does not warn.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> from arcwise.tasks import Caps, Task
    >>> task = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    >>> task.mechanism.name, task.goal, task.epoch(timestamp=1_700_000_000)
    ('optimal-circular', 'direction', 19675)
    >>> Task.from_bytes(task.to_bytes()).id == Task.from_json(task.to_json()).id == task.id
    True
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     task.save(f"{folder}/heading.json")
    ...     Task.load(f"{folder}/heading.json") == task
    True
    """

    __slots__ = (
        "central",
        "description",
        "domain",
        "epoch_seconds",
        "epsilon",
        "goal",
        "lateness_seconds",
        "mechanism",
        "release",
        "unit",
    )

    _kind: ClassVar[str] = "task"
    _max_bytes: ClassVar[int | None] = 1 << 20

    domain: Domain
    epsilon: float
    goal: str
    mechanism: Mechanism
    epoch_seconds: int
    central: CentralStatement | None
    description: str | None
    lateness_seconds: int | None
    release: str | None
    unit: str | None

    @explained
    def __init__(
        self,
        name: str,
        domain: Domain,
        epsilon: float,
        *,
        goal: str | None = None,
        mechanism: Mechanism | None = None,
        expected_reports: int | None = None,
        epoch_seconds: int = DAY,
        caps: Caps | None = None,
        description: str | None = None,
        unit: str | None = None,
        central: CentralStatement | None = None,
        release: Literal["closed-epochs"] | None = None,
        lateness_seconds: int | None = None,
    ) -> None:
        self._make(
            name,
            domain,
            epsilon,
            goal=goal,
            mechanism=mechanism,
            expected_reports=expected_reports,
            epoch_seconds=epoch_seconds,
            caps=caps,
            central=central,
            description=description,
            lateness_seconds=lateness_seconds,
            release=release,
            unit=unit,
        )
        check_known(name=self.name, description=self.description, unit=self.unit)
        if mechanism is not None or self.epsilon > _FINE_BY_DEFAULT:
            warn_if_coarse(self.mechanism, stacklevel=3)  # skips the frame of `explained`

    def _make(
        self,
        name: str,
        domain: Domain,
        epsilon: float,
        *,
        goal: str | None,
        mechanism: Mechanism | None,
        expected_reports: int | None = None,
        epoch_seconds: int,
        caps: Caps | None,
        **optional: Any,
    ) -> None:
        """Check and set the arguments of `Task`; reading a task calls this directly, without a grid check."""
        name = checked_name(name)
        if not isinstance(domain, (Interval, Circle)):
            raise TaskError(
                f"domain must be an Interval or a Circle, got {shown(domain)}; for example "
                "Interval(0, 180) or Circle(360)"
            )
        epsilon = check_epsilon(epsilon, least=_least_epsilon(mechanism))
        epoch_seconds = checked_integer(
            "epoch_seconds", epoch_seconds, 1, MAX_PERIOD, advice=SECONDS, error=TaskError
        )
        if not isinstance(mechanism, (Mechanism, NoneType)):
            raise TaskError(
                "mechanism must be None or an object of a class of arcwise.mechanisms, such as "
                f"SquareWave(domain, epsilon); got {mechanism!r}"
            )
        if not isinstance(caps, (Caps, NoneType)):
            raise TaskError(f"caps must be a Caps or None, got {caps!r}; for example Caps(lifetime=5.0)")
        if expected_reports is not None:
            expected_reports = checked_integer("expected_reports", expected_reports, 1, error=TaskError)
        optional = checked_optional(optional)
        goal = checked_goal(goal, domain, mechanism)
        if mechanism is None:
            mechanism = mechanism_for(goal, domain, epsilon, expected_reports)
        elif mechanism.domain != domain or mechanism.epsilon != epsilon:
            raise TaskError(
                f"mechanism must agree with the task: it has {mechanism.domain!r} and epsilon "
                f"{mechanism.epsilon!r}, the task {domain!r} and {epsilon!r}"
            )
        charge = Charge(micro_epsilon(epsilon), mechanism.certificate().delta)
        caps = Caps() if caps is None else caps
        check_caps(caps, charge, "report")
        if optional.get("central") is not None:
            optional["central"].check_caps(caps, charge, epoch_seconds)
        self._set(
            name=name,
            domain=domain,
            epsilon=epsilon,
            goal=goal,
            mechanism=mechanism,
            epoch_seconds=epoch_seconds,
            caps=caps,
            charge=charge,
            **optional,
        )
        self._seal()

    def __repr__(self) -> str:
        said = {"epsilon": self.epsilon, "goal": self.goal, **self._optional()}
        parts = (f", {name}={value!r}" for name, value in said.items() if value is not None)
        return f"Task({self.name!r}, {self.domain!r}{''.join(parts)})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the question, the privacy of a report, and the numbers behind it."""
        from arcwise.notebook import Form, Table

        kernel, delta = self.mechanism.kernel, self.charge.delta_units / UNIT
        rows = {
            "domain": self.domain_words,
            "goal": self.goal,
            "epsilon": f"{rounded_up(self.epsilon)} per report",
            "delta": f"{rounded_up(delta)} per report" if delta else "0",
            "caps": caps_words(self.caps, "report"),
            "mechanism": f"{self.mechanism.name}, {kernel.nodes} nodes, {kernel.codes} codes",
            "epoch": f"{self.epoch_seconds} s",
            "id": self.id,
        }
        if self.central is not None:
            rows |= self.readers
        if self.release_words:
            rows["release"] = self.release_words
        head = [self.name, *([] if self.description is None else [self.description]), self.privacy_words]
        return Form(head, [Table((), list(rows.items()))]).html()

    @property
    def privacy_words(self) -> str:
        """A sentence for people that says how much a report reveals."""
        return privacy_words(self.epsilon, self.charge.delta_units / UNIT)

    @property
    def readers(self) -> dict[str, str]:
        """The guarantees by reader, in words for people; the local epsilon comes first."""
        return reader_words(self.epsilon, self.charge.delta_units / UNIT, self.central)

    @property
    def release_words(self) -> str:
        """A sentence that says when a server shows the task's counts; "" if the server's settings decide."""
        least = self.least_reports if self.releases_closed_epochs else None
        return release_words(least, self.lateness_seconds)

    @property
    def domain_words(self) -> str:
        """The domain and the unit of its values in words, for people: "[0, 180] km/h"."""
        return str(self.domain) if self.unit is None else f"{self.domain} {self.unit}"

    @property
    def least_reports(self) -> int:
        """The number of reports that an epoch must hold to be released; 0 without a central statement."""
        return 0 if self.central is None else self.central.reports

    @property
    def releases_closed_epochs(self) -> bool:
        """Whether an epoch is always shown only after it stops taking reports, regardless of the server."""
        return self.release is not None or self.central is not None

    def epoch(self, timestamp: float) -> int:
        """Return the number of the epoch that holds a Unix time, counted from 1970-01-01 UTC.

        Raises
        ------
        ParameterError
            When the time is not a finite number of seconds.
        """
        timestamp = checked_real(
            "timestamp", timestamp, advice="; it is in Unix seconds, as time.time() gives"
        )
        return int(timestamp // self.epoch_seconds)

    @explained
    def randomize(
        self, values: Any, missing: Literal["error", "drop"] = "error", *, randomness: Randomness = SYSTEM
    ) -> NDArray[Any]:
        """Return one code for each value: a private report that may be stored or sent instead of the value.

        Use this method only where the values may be held: on a device with its own values, or in a pipeline
        that people trust with their values. Unlike `Client.report` on a device, it charges nothing and
        applies no cap. Randomising the same value again spends epsilon again.

        Parameters
        ----------
        values
            Numbers in the unit of the domain: one number, a sequence, a numpy array of any shape, or a column
            of integers or floats of pandas, Polars or Arrow.
        missing
            Treatment of None, NaN and null: "error" (default) raises `DomainError`; "drop" leaves them out.
            The number of codes then reveals how many values were missing.
        randomness
            The operating system's CSPRNG. Anything else is for tests.

        Returns
        -------
        numpy.ndarray
            Codes from 0 to K-1, uint8 if K is at most 256, else uint16. They have the shape of `values`; if
            values were dropped, the shape is (n,), with the codes of the n present values in their order.

        Raises
        ------
        DomainError
            When values are missing, outside the domain or not numbers (such as decimals, booleans and times).
            The message counts these values and gives the index of the first. In these cases nothing is
            randomised.
        ParameterError
            When `missing` is neither "error" nor "drop".

        Examples
        --------
        >>> from arcwise.domains import Interval
        >>> delay = Task("delay", Interval(0, 180), epsilon=1.0)
        >>> codes = delay.randomize([12.0, None, 47.5], missing="drop")
        >>> codes.shape, codes.dtype.name, delay.count(codes).shape
        ((2,), 'uint8', (204,))
        >>> delay.randomize([12.0, 200.0])
        Traceback (most recent call last):
        arcwise.errors.DomainError: values must be in [0, 180]; wrong at index 1: clip them, ...
        """
        from arcwise.tasks.batches import randomize_column

        return randomize_column(self.mechanism, values, missing, randomness)

    def count(self, codes: Any) -> IntArray:
        """Return how often each code occurs, shape (K,), for estimates.

        Parameters
        ----------
        codes
            Integers from 0 to K-1, of any shape: the result of `randomize`, or a column as `randomize`
            accepts it.

        Raises
        ------
        DomainError
            When a code is missing or not such an integer. The message counts these codes and gives the index
            of the first.

        Examples
        --------
        >>> from arcwise.domains import Circle
        >>> heading = Task("heading", Circle(360), epsilon=1.0)
        >>> heading.count([3, 127, 3])[[0, 3, 127]], heading.count([]).shape
        (array([0, 2, 1]), (128,))
        """
        from arcwise.tasks.batches import count_codes

        return count_codes(self.mechanism.kernel.codes, codes)

    def _optional(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in OPTIONAL}

    def _fields(self) -> list[Any]:
        return [
            SCHEMA_VERSION,
            self.name,
            domain_to_fields(self.domain),
            self.epsilon,
            self.goal,
            self.epoch_seconds,
            caps_to_fields(self.caps),
            mechanism_to_fields(self.mechanism),
            *optional_to_fields(self._optional()),
        ]

    @classmethod
    def _from_fields(cls, fields: Any) -> Task:
        if not isinstance(fields, list) or not fields or type(fields[0]) is not int:
            raise TaskError("a task is an array that starts with its schema version")
        if fields[0] != SCHEMA_VERSION:
            raise TaskError(f"task schema version {fields[0]} is not known to this arcwise; it knows 1")
        try:
            _, name, domain_fields, epsilon, goal, epoch_seconds, cap_fields, mechanism_fields, *rest = fields
            optional = optional_from_fields(rest)
            domain = domain_from_fields(domain_fields)
            caps = caps_from_fields(cap_fields)
            epsilon = check_epsilon(epsilon, least=0.0)  # the mechanism checks its own bounds
            mechanism = mechanism_from_fields(mechanism_fields, domain, epsilon)
            if not isinstance(goal, str):
                raise TaskError(f"goal must be a string, got {goal!r}")
            task = cls.__new__(cls)
            task._make(
                name,
                domain,
                epsilon,
                goal=goal,
                mechanism=mechanism,
                epoch_seconds=epoch_seconds,
                caps=caps,
                **optional,
            )
        except (TaskError, CertificateError):
            raise
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise TaskError(f"the fields do not describe a task: {error}") from error
        return task

    def to_json(self) -> dict[str, Any]:
        """Return the task as a JSON object that a person can read; 64-bit integers are decimal strings."""
        return fields_to_json(self._fields(), self.id)

    @classmethod
    def _from_json(cls, data: Any) -> tuple[Task, Any]:
        fields, stated = fields_from_json(data)
        return cls._from_fields(fields), stated


def _least_epsilon(mechanism: object) -> float:
    """Return the least allowed epsilon of a task: 0 for a mechanism that spends a delta."""
    return 0.0 if isinstance(mechanism, Mechanism) and mechanism.approximate else EPSILON_MIN


def checked_name(name: object) -> str:
    """Return a name in NFC; raise `TaskError` with the rule if it is invalid."""
    return checked_text(name, "name", most=MAX_NAME)
