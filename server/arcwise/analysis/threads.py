"""One thread of linear algebra for all that the server and the command line compute.

They multiply small matrices, hundreds of times: more threads would wait for one another, taking ten times the
processor, and take the other cores from whoever collects reports meanwhile.
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
    """Let the linear algebra libraries take one thread: a context, and a decorator as ``@one_thread()``."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    # Those that are loaded later would not be limited, and scipy has one of its own.
    import scipy.linalg  # noqa: F401

    # Looking for the libraries takes most of a millisecond; once is enough, they stay loaded.
    return ThreadpoolController()
