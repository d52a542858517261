"""Where random bits come from: the operating system's CSPRNG, and for tests a seeded stand-in.

One report uses one *draw*: 16 bytes, always all used, read as two little-endian unsigned 64-bit integers
``(r, u)``. ``r`` rounds the value to a node, ``u`` picks the code. A scalar call and an array call take the
same bytes in the same order.
"""

from __future__ import annotations

import os
import struct
from typing import Protocol

__all__ = ["SYSTEM", "InsecureSeededRandomness", "Randomness", "SystemRandomness"]

DRAW_BYTES = 16
_DRAW = struct.Struct("<QQ")


class Randomness(Protocol):
    """A source of draws.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> from arcwise.mechanisms import OptimalCircular
    >>> class Fixed:  # anything that has these three is a source
    ...     secure = False
    ...
    ...     def draw(self):
    ...         return 0, 2**63
    ...
    ...     def draws(self, count):
    ...         return (bytes(15) + bytes([128])) * count
    >>> OptimalCircular(Circle(360), epsilon=1.0).randomize(90.0, randomness=Fixed())
    105
    """

    @property
    def secure(self) -> bool:
        """Whether reports made with this source are private."""

    def draw(self) -> tuple[int, int]:
        """Return ``(r, u)``, two independent uniform integers in [0, 2**64)."""

    def draws(self, count: int) -> bytes:
        """Return the bytes of `count` draws."""


class SystemRandomness:
    """The operating system's CSPRNG, read anew for every draw.

    Nothing that was read is kept. Whatever copies a process's memory (a fork, a snapshot, a cloned virtual
    machine) would copy what is kept, and two reports with the same draw differ by what their values differ.

    Examples
    --------
    >>> r, u = SystemRandomness().draw()
    >>> 0 <= r < 2**64
    True
    >>> len(SystemRandomness().draws(1000))
    16000
    """

    __slots__ = ()
    secure = True

    def draw(self) -> tuple[int, int]:
        """Return ``(r, u)``, two independent uniform integers in [0, 2**64)."""
        r, u = _DRAW.unpack(os.urandom(DRAW_BYTES))
        return r, u

    def draws(self, count: int) -> bytes:
        """Return the bytes of `count` draws."""
        return os.urandom(DRAW_BYTES * count)


class InsecureSeededRandomness:
    """A reproducible source for tests and simulations. Reports made with it are not private.

    Whoever knows or guesses the seed can undo every report. It must be passed explicitly wherever it is used,
    and a `Client` takes it only for a server on this machine.

    Examples
    --------
    >>> InsecureSeededRandomness(seed=1).draw() == InsecureSeededRandomness(seed=1).draw()
    True
    """

    secure = False

    def __init__(self, seed: int) -> None:
        import random  # devices never need it

        self._generator = random.Random(seed)  # noqa: S311 (this class is the insecure one)

    def draw(self) -> tuple[int, int]:
        """Return the next ``(r, u)`` of the seeded stream."""
        r, u = _DRAW.unpack(self._generator.randbytes(DRAW_BYTES))
        return r, u

    def draws(self, count: int) -> bytes:
        """Return the bytes of the next `count` draws, the same as `count` calls of `draw`."""
        return self._generator.randbytes(DRAW_BYTES * count)


SYSTEM = SystemRandomness()
"""The source that everything uses unless told otherwise."""
