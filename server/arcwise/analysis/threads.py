"""One thread of linear algebra for all computations of the server and the command line.

The computations multiply small matrices hundreds of times. More threads would wait for one another, use ten
times the processor time, and take the other cores from processes that collect reports.
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
    """Limit linear algebra to one thread, in a with block or as the decorator ``@one_thread()``."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    # The limit does not reach libraries that are loaded later, and scipy loads its own linear algebra
    # library.
    import scipy.linalg  # noqa: F401

    # Finding the libraries takes most of a millisecond. They stay loaded, so they are searched only once.
    return ThreadpoolController()
