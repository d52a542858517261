"""Every exception that arcwise raises on purpose, and nothing else.

::

    ArcwiseError
    ├── ParameterError (ValueError)      an argument out of its bounds: epsilon, nodes, a window
    ├── DomainError (ValueError)         a value that its domain does not hold
    ├── CertificateError                 a kernel whose exact ratio exceeds e^epsilon
    ├── TaskError (ValueError)           a task that cannot be, or bytes that are no task
    ├── WireError (ValueError)           bytes that are no batch; never echoes what they hold
    ├── UnknownTaskError (KeyError)      a client was asked to report to a task it does not have
    ├── LedgerError                      a device's ledger cannot be opened or written
    ├── StoreError                       the server's store cannot be opened or used
    └── MissingExtraError (ImportError)  an optional part is not installed; names the command
"""

from __future__ import annotations

__all__ = [
    "ArcwiseError",
    "CertificateError",
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
    """Base of every exception that arcwise raises on purpose."""


class ParameterError(ArcwiseError, ValueError):
    """An argument is out of its bounds; the message gives its name, the bound and the value."""


class DomainError(ArcwiseError, ValueError):
    """A value is not in its domain; the message gives the value and the bound."""


class CertificateError(ArcwiseError):
    """A kernel's exact privacy loss is larger than what is claimed or allowed."""


class TaskError(ArcwiseError, ValueError):
    """A task contradicts itself, or bytes or a file do not hold a task."""


class WireError(ArcwiseError, ValueError):
    """A body is not a well-formed batch. The message never repeats what the body holds."""


class UnknownTaskError(ArcwiseError, KeyError):
    """The client has no task of this name."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument, which would put quotes around the sentence.
        return str(self.args[0])


class LedgerError(ArcwiseError):
    """A device's ledger cannot be made, opened or written, or is not what it was.

    Nothing can be reported without it: what a device has spent is not known.
    """


class StoreError(ArcwiseError):
    """The server's store cannot be opened, or does not hold what it must."""


class MissingExtraError(ArcwiseError, ImportError):
    """An optional part of arcwise is not installed; the message names the command to install it."""
