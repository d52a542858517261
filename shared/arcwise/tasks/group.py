"""Groups: several tasks that one device answers together, on one budget.

In a round, a device reports every task of the group, or it draws k of the d tasks and reports these k. With
sampling, the k drawn tasks share the whole budget, because the other tasks cost nothing. The draw does not
depend on the values, so a task's reports come from a simple random sample of the devices.

The id of a group is the SHA-256 of its canonical bytes: ``[1, "group", name, sample, caps, tasks]`` as one
msgpack array. The item ``tasks`` holds the canonical bytes of each task, in the order of the group.
"""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from arcwise.checks import explained
from arcwise.errors import TaskError
from arcwise.randomness import SYSTEM
from arcwise.tasks._document import Document
from arcwise.tasks.caps import DAY, Caps, Charge, check_caps
from arcwise.tasks.fields import caps_from_fields, caps_from_json, caps_to_fields, caps_to_json
from arcwise.tasks.files import load_json
from arcwise.tasks.group_budget import epsilon_shares
from arcwise.tasks.task import Task, checked_name

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from typing import Literal

    from numpy.typing import NDArray

    from arcwise.domains import Domain
    from arcwise.randomness import Randomness
    from arcwise.tasks.group_budget import Sample

_SCHEMA_VERSION: Final = 1
_MARK: Final = "group"
_MAX_TASKS: Final = 256


class Group(Document):
    """Several tasks that a device reports together on one budget.

    Parameters
    ----------
    name
        The name of the group for apps and people, with the same rules as the name of a task.
    tasks
        Two to 256 tasks with different names.
    sample
        The number of tasks that a device reports in a round, from 1 to d, the number of all tasks. The tasks
        are drawn again for each round. ``None`` (default) or d: every task is reported.
    caps
        The most that one device may spend on the whole group. The default is no cap. The caps of the single
        tasks apply as well.

    Attributes
    ----------
    charge
        The cost of a round, regardless of the drawn tasks and of missing values. It is the sum over all
        tasks, or with sampling the sum over the k most expensive tasks.
    id
        64 hex digits.

    Raises
    ------
    TaskError
        When the arguments are out of bounds, or a cap allows no round.

    Examples
    --------
    >>> from arcwise.domains import Circle, Interval
    >>> heading = Task("heading", Circle(360), epsilon=1.0)
    >>> speed = Task("speed", Interval(0, 180), epsilon=1.0)
    >>> group = Group("vehicle", [heading, speed], sample=1)
    >>> group.epsilon, group.share
    (1.0, 0.5)
    >>> Group("vehicle", [heading, speed]).epsilon
    2.0
    """

    __slots__ = ("sample", "tasks")

    _kind: ClassVar[str] = "group"

    tasks: tuple[Task, ...]
    sample: int | None

    @explained
    def __init__(
        self, name: str, tasks: Iterable[Task], *, sample: int | None = None, caps: Caps | None = None
    ) -> None:
        name = checked_name(name)
        tasks = _checked_tasks(tasks)
        sample = _checked_sample(sample, len(tasks))
        if not isinstance(caps, (Caps, NoneType)):
            raise TaskError(f"caps must be a Caps or None, got {caps!r}; for example Caps(lifetime=5.0)")
        caps = Caps() if caps is None else caps
        charge = _round_charge(tasks, sample)
        check_caps(caps, charge, "round")
        self._set(name=name, tasks=tasks, sample=sample, caps=caps, charge=charge)
        self._seal()

    @classmethod
    @explained
    def share_budget(
        cls,
        name: str,
        domains: Mapping[str, Domain],
        epsilon: float,
        *,
        sample: Sample = "auto",
        weights: Mapping[str, float] | None = None,
        goals: Mapping[str, str] | None = None,
        epoch_seconds: int = DAY,
        caps: Caps | None = None,
        descriptions: Mapping[str, str] | None = None,
        units: Mapping[str, str] | None = None,
    ) -> Group:
        """Return a group of new tasks that share one budget: a round costs at most `epsilon`.

        Parameters
        ----------
        name
            Name of the group.
        domains
            Domains by the name of the task.
        epsilon
            The most that a round costs. It is divided among the tasks in whole millionths, rounded down.
        sample
            The number of tasks that a device reports in a round, each with ``epsilon / sample``; ``None`` for
            all. "auto" (default) is the rule of Wang et al. (2019), ``max(1, min(d, floor(epsilon / 2.5)))``
            for d tasks; `arcwise.analysis.planning.best_sample` computes the best number for the actual
            mechanisms.
        weights
            Weights by name, if all tasks are reported: a task's share of epsilon is proportional to its
            weight.
        goals
            Goals by task name, as in `Task`; a task without an entry has the default goal.
        epoch_seconds
            The epoch length of every task, in seconds.
        caps
            The most that one device may spend on the whole group.
        descriptions, units
            By task name, as `description` and `unit` of `Task`; a task without an entry has none.

        Raises
        ------
        TaskError, ParameterError
            When the arguments or a task's epsilon are out of bounds.

        Examples
        --------
        >>> from arcwise.domains import Circle, Interval
        >>> domains = {"heading": Circle(360), "speed": Interval(0, 180)}
        >>> group = Group.share_budget("vehicle", domains, epsilon=2.0)
        >>> group.sample, [task.epsilon for task in group.tasks]
        (1, [2.0, 2.0])
        >>> group = Group.share_budget("vehicle", domains, epsilon=2.0, sample=None)
        >>> group.sample, [task.epsilon for task in group.tasks]
        (None, [1.0, 1.0])
        """
        k, shares = epsilon_shares(domains, epsilon, sample=sample, weights=weights)
        goals = _by_task("goals", goals, domains)
        descriptions = _by_task("descriptions", descriptions, domains)
        units = _by_task("units", units, domains)
        tasks = [
            Task(
                each,
                domain,
                shares[each],
                goal=goals.get(each),
                epoch_seconds=epoch_seconds,
                description=descriptions.get(each),
                unit=units.get(each),
            )
            for each, domain in domains.items()
        ]
        return cls(name, tasks, sample=k, caps=caps)

    def __repr__(self) -> str:
        names = ", ".join(repr(task.name) for task in self.tasks)
        return f"Group({self.name!r}, [{names}], sample={self.sample!r}, epsilon={self.epsilon!r})"

    @property
    def epsilon(self) -> float:
        """The epsilon of a round."""
        return self.charge.micro_epsilon / 1_000_000

    @property
    def share(self) -> float:
        """The probability that a task is reported in a round: k/d, 1 without sampling."""
        return 1.0 if self.sample is None else self.sample / len(self.tasks)

    def choose(self, randomness: Randomness) -> tuple[Task, ...]:
        """Return the tasks of one round, in the order of the group: all, or k drawn without replacement.

        Every set of k tasks has exactly the same probability for all values, since the draw does not use the
        values. A round keeps its draw even if a value is missing, because another draw would reveal that it
        is missing.

        Parameters
        ----------
        randomness
            The operating system's CSPRNG (`arcwise.randomness.SYSTEM`). Anything else is for tests.

        Notes
        -----
        The draw consists of the first k steps of a Fisher-Yates shuffle of the places 0 to d-1. Step i swaps
        place i with place ``i + u mod m``, where ``m = d - i`` and u is the second number of a draw (r, u),
        of which r is not used. A u of ``2**64 - (2**64 mod m)`` or more is discarded, and the next draw is
        taken.
        """
        if self.sample is None:
            return self.tasks
        places = list(range(len(self.tasks)))
        for i in range(self.sample):
            j = i + _below(len(places) - i, randomness)
            places[i], places[j] = places[j], places[i]
        return tuple(self.tasks[place] for place in sorted(places[: self.sample]))

    @explained
    def randomize(
        self, columns: Any, missing: Literal["error", "drop"] = "error", *, randomness: Randomness = SYSTEM
    ) -> dict[str, NDArray[Any]]:
        """Randomise one round for each row of a table, and return the codes by task name.

        The values of a task are randomised as in `Task.randomize`. With sampling, each row reports k of the d
        tasks, drawn as in `choose`.

        Parameters
        ----------
        columns
            A mapping or a frame (pandas, Polars, Arrow) with one column for each task, named like the task.
            All of these columns have the same length. Other columns are not read.
        missing
            "error" (default) or "drop", as in `Task.randomize`. With "drop", a row with a missing value still
            reports the other drawn tasks.
        randomness
            The operating system's CSPRNG. Anything else is for tests.

        Returns
        -------
        dict
            For each task, the codes of the rows that report it, shape (n,), in the order of the rows.

        Raises
        ------
        DomainError, ParameterError
            As in `Task.randomize`, and when a column is missing. In these cases nothing is randomised.

        Examples
        --------
        >>> from arcwise.domains import Circle, Interval
        >>> domains = {"heading": Circle(360), "speed": Interval(0, 180)}
        >>> group = Group.share_budget("vehicle", domains, epsilon=2.0, sample=None)
        >>> rows = {"heading": [12.0, 350.0, 7.5], "speed": [31.0, None, 48.0]}
        >>> codes = group.randomize(rows, missing="drop")
        >>> {name: len(found) for name, found in codes.items()}
        {'heading': 3, 'speed': 2}
        """
        from arcwise.tasks.batches import randomize_columns

        mechanisms = {task.name: task.mechanism for task in self.tasks}
        return randomize_columns(mechanisms, self.sample, columns, missing, randomness)

    def _fields(self) -> list[Any]:
        tasks = [task.to_bytes() for task in self.tasks]
        return [_SCHEMA_VERSION, _MARK, self.name, self.sample, caps_to_fields(self.caps), tasks]

    @classmethod
    def _from_fields(cls, fields: Any) -> Group:
        try:
            version, mark, name, sample, caps, tasks = fields
            if (version, mark) != (_SCHEMA_VERSION, _MARK):
                raise TaskError("not the bytes of a group of version 1, the only one that this arcwise knows")
            return cls(name, map(Task.from_bytes, tasks), sample=sample, caps=caps_from_fields(caps))
        except TaskError:
            raise
        except (ValueError, TypeError) as error:
            raise TaskError(f"not the bytes of a group: {error}") from None

    def to_json(self) -> dict[str, Any]:
        """Return the group, its tasks included, as a JSON object that people can read."""
        return {
            "arcwise_group": _SCHEMA_VERSION,
            "name": self.name,
            "id": self.id,
            "sample": self.sample,
            "caps": caps_to_json(caps_to_fields(self.caps)),
            "tasks": [task.to_json() for task in self.tasks],
        }

    @classmethod
    def _from_json(cls, data: Any) -> tuple[Group, Any]:
        if isinstance(data, dict) and "arcwise_task" in data:
            raise TaskError(
                "this is the file of a task, not of a group: read it with Task.load or `arcwise task`"
            )
        try:
            version, caps = data["arcwise_group"], caps_from_fields(caps_from_json(data["caps"]))
            if type(version) is not int or version != _SCHEMA_VERSION:
                raise TaskError(f"group schema version {version!r} is not known to this arcwise; it knows 1")
            tasks = [Task.from_json(task) for task in data["tasks"]]
            return cls(data["name"], tasks, sample=data["sample"], caps=caps), data["id"]
        except KeyError as error:
            raise TaskError(f"a group file needs the key {error}") from None
        except TypeError:
            raise TaskError("a group file holds one JSON object with objects inside") from None
        except OverflowError:
            raise TaskError("caps of a group file must be numbers that a float can hold") from None


def _by_task(name: str, texts: Mapping[str, str] | None, tasks: Iterable[str]) -> Mapping[str, str]:
    texts = {} if texts is None else texts
    for unknown in set(texts) - set(tasks):
        raise TaskError(f"{name} must name tasks of the group, got {unknown!r}")
    return texts


def _checked_tasks(tasks: Iterable[Task]) -> tuple[Task, ...]:
    try:
        tasks = tuple(tasks)
    except TypeError:
        raise TaskError(f"tasks must be an iterable of tasks, got {tasks!r}") from None
    for task in tasks:
        if not isinstance(task, Task):
            raise TaskError(f"tasks must be an iterable of tasks, got {task!r} among them")
    if not 2 <= len(tasks) <= _MAX_TASKS:
        raise TaskError(f"tasks must be 2 to {_MAX_TASKS}, got {len(tasks)}")
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise TaskError(f"tasks must have different names, got {name!r} twice")
    return tasks


def _checked_sample(sample: object, tasks: int) -> int | None:
    if sample is None:
        return None
    if type(sample) is not int or not 1 <= sample <= tasks:
        raise TaskError(f"sample must be None or an integer from 1 to {tasks}, the tasks; got {sample!r}")
    return None if sample == tasks else sample


def _round_charge(tasks: tuple[Task, ...], sample: int | None) -> Charge:
    """Return the cost of the most expensive round, separately for epsilon and delta."""
    count = len(tasks) if sample is None else sample
    epsilons, deltas = zip(*(task.charge for task in tasks), strict=True)
    return Charge(sum(sorted(epsilons)[-count:]), sum(sorted(deltas)[-count:]))


def _below(bound: int, randomness: Randomness) -> int:
    """Return a uniform integer in [0, bound)."""
    limit = 2**64 - 2**64 % bound
    while True:
        _, u = randomness.draw()
        if u < limit:
            return u % bound


def load_task_or_group(path: str | os.PathLike[str]) -> Task | Group:
    """Return the task or the group in a file; raises the same errors as `load_json`."""

    def read(data: Any) -> Task | Group:
        return (Group if isinstance(data, dict) and "arcwise_group" in data else Task).from_json(data)

    return load_json(path, read)
