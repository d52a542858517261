"""One thread of linear algebra for estimates: they multiply small matrices, hundreds of times.

More threads would wait for one another, and take the other cores from whoever collects reports meanwhile.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["one_thread"]


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which the linear algebra libraries take one thread."""
    limited: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limited


@cache
def _controller() -> ThreadpoolController:
    # Looking for the libraries takes most of a millisecond; once is enough, they stay loaded.
    return ThreadpoolController()
