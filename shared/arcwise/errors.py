"""All exceptions that arcwise raises on purpose, and its one warning.

::

    ArcwiseError
    ├── ParameterError (ValueError)      an argument out of its bounds: epsilon, nodes, a window
    ├── DomainError (ValueError)         a value outside its domain
    ├── CertificateError                 a kernel whose exact ratio exceeds e^epsilon
    ├── TaskError (ValueError)           a contradictory task, or bytes that are not a task
    ├── WireError (ValueError)           bytes that are not a batch; no message repeats them
    ├── UnknownTaskError (KeyError)      a client was asked to report to a task it does not have
    ├── LedgerError                      a device's ledger cannot be opened or written
    ├── StoreError                       the server's store cannot be opened or used
    ├── AnswerError                      a server refuses a request, or does not answer as an arcwise server
    └── MissingExtraError (ImportError)  an optional part is not installed; shows the command

    CoarseGridWarning (UserWarning)      a task whose grid adds more than 2 % to the error of its mechanism
"""

from __future__ import annotations

__all__ = [
    "AnswerError",
    "ArcwiseError",
    "CertificateError",
    "CoarseGridWarning",
    "DomainError",
    "LedgerError",
    "MissingExtraError",
    "ParameterError",
    "StoreError",
    "TaskError",
    "UnknownTaskError",
    "WireError",
]


class ArcwiseError(Exception):
    """Base class of every exception that arcwise raises on purpose.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> try:
    ...     Circle(0)
    ... except ArcwiseError as error:
    ...     print(error)
    period must be positive and finite, got 0.0
    """


class ParameterError(ArcwiseError, ValueError):
    """An argument is out of its bounds; the message gives its name, the bound and the value.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> Interval(180, 0)
    Traceback (most recent call last):
    arcwise.errors.ParameterError: low and high must be finite with low < high, got 180.0 and 0.0
    """


class DomainError(ArcwiseError, ValueError):
    """A value is not in its domain; the message gives the bound, but never the value.

    The value is left out because errors end up in logs; a `Client` with ``show_values=True`` adds it. For an
    array the message gives the indices.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> Interval(0, 180).to_unit(200.0)
    Traceback (most recent call last):
    arcwise.errors.DomainError: value must be in [0, 180]: clip it, ...
    """


class CertificateError(ArcwiseError):
    """A kernel's exact privacy loss is larger than claimed or allowed.

    Examples
    --------
    >>> from arcwise.kernels.certificate import certify
    >>> certify(3, epsilon=1.0)  # e is less
    Traceback (most recent call last):
    arcwise.errors.CertificateError: the kernel's largest ratio of weights is 3.0, more than e^epsilon = ...
    """


class TaskError(ArcwiseError, ValueError):
    """A task contradicts itself, or bytes or a file do not contain a task.

    Examples
    --------
    >>> from arcwise.tasks import Task
    >>> Task.from_bytes(b"heading")
    Traceback (most recent call last):
    arcwise.errors.TaskError: not the bytes of a task: ...
    """


class WireError(ArcwiseError, ValueError):
    """A body is not a well-formed batch. The message never repeats its content.

    Examples
    --------
    >>> from arcwise.wire import decode_batch
    >>> decode_batch(b"heading")
    Traceback (most recent call last):
    arcwise.errors.WireError: the body is not one msgpack array of a batch's five fields
    """


class UnknownTaskError(ArcwiseError, KeyError):
    """The client has no task of this name.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, Client, MemoryLedger, Task
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    >>> client = Client("http://127.0.0.1:8000", tasks=[heading], ledger=MemoryLedger())
    >>> client.report("hedding", 350.5)
    Traceback (most recent call last):
    arcwise.errors.UnknownTaskError: ...'hedding'...
    """

    def __str__(self) -> str:
        # KeyError shows the repr of its argument, which would put quotes around the sentence.
        return str(self.args[0])


class LedgerError(ArcwiseError):
    """A device's ledger cannot be created, opened or written, or its content has changed unexpectedly.

    Without a ledger the device's spending is unknown, so nothing can be reported.

    Examples
    --------
    >>> from arcwise.client import FileLedger
    >>> FileLedger("no-such-folder/telemetry.db")
    Traceback (most recent call last):
    arcwise.errors.LedgerError: ...
    """


class StoreError(ArcwiseError):
    """The server's store cannot be opened, or its content is not as required.

    Examples
    --------
    >>> from arcwise.server.store import open_store
    >>> open_store("sqlite:///no/such/folder/arcwise.db")
    Traceback (most recent call last):
    arcwise.errors.StoreError: ...
    """


class AnswerError(ArcwiseError):
    """A server refuses a request, or does not answer as an arcwise server does.

    Parameters
    ----------
    detail
        The problem, in the server's words if it gave any.
    status
        HTTP status; None if there was no answer.
    kind
        The server's name of the problem (docs/reference/protocol.md), such as "unknown-task"; "" if
        unknown.

    Examples
    --------
    >>> raise AnswerError("The server does not have this task.", status=404, kind="unknown-task")
    Traceback (most recent call last):
    arcwise.errors.AnswerError: The server does not have this task.
    """

    def __init__(self, detail: str, *, status: int | None = None, kind: str = "") -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind


class MissingExtraError(ArcwiseError, ImportError):
    """An optional part of arcwise is not installed; the message names the command to install it.

    Examples
    --------
    >>> try:
    ...     import arcwise.server
    ... except MissingExtraError as error:
    ...     print(error)  # not where the extra is installed
    """


class CoarseGridWarning(UserWarning):
    """The grid of a task made in Python adds more than 2 % to the worst error of its mechanism.

    The warning concerns the optimal piecewise mechanisms for a single value: with few nodes at a large
    epsilon, their ideal window is narrower than the distance between two codes. Reading a task from bytes or
    a file does not warn.

    Examples
    --------
    >>> import warnings
    >>> from arcwise.domains import Circle
    >>> from arcwise.mechanisms import OptimalCircular
    >>> from arcwise.tasks import Task
    >>> turn = Circle(360)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     task = Task("heading", turn, 12.0, mechanism=OptimalCircular(turn, 12.0, nodes=128))
    >>> print(caught[0].message)
    the grid of 128 nodes is coarse for epsilon 12: the worst error is 3.32 times that of ...
    """
