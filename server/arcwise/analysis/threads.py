"""One thread of linear algebra for all computations of the server and the command line.

They multiply small matrices hundreds of times. More threads would wait for one another, use ten times the
processor time, and take the other cores from processes that collect reports.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit the linear algebra libraries to one thread: a context, or a decorator as ``@one_thread()``."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    # Libraries that are loaded later would not be limited, and scipy has its own.
    import scipy.linalg  # noqa: F401

    # Finding the libraries takes most of a millisecond; once is enough because they stay loaded.
    return ThreadpoolController()
