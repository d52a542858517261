"""Sources of random bits: the operating system's CSPRNG and, for tests, a seeded replacement.

One report always uses one whole *draw* of 16 bytes, read as two little-endian unsigned 64-bit integers
``(r, u)``. ``r`` rounds the value to a node, and ``u`` picks the code. A scalar call and an array call take
the same bytes in the same order. Large arrays take their bytes from OpenSSL's generator. The operating
system's randomness is mixed into it before every block, see `SystemRandomness`.
"""

from __future__ import annotations

import os
import struct
from typing import Protocol

__all__ = ["SYSTEM", "InsecureSeededRandomness", "Randomness", "SystemRandomness"]

_DRAW_BYTES = 16
_DRAW = struct.Struct("<QQ")

_MANY = 4096
"""From this many draws on, OpenSSL is used. Fewer draws cost the operating system less than 0.2 ms."""

_MIXED_BYTES = 32
"""Bytes of the operating system's randomness mixed in before every block: the size of the generator's key."""


class Randomness(Protocol):
    """A source of draws.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> from arcwise.mechanisms import OptimalCircular
    >>> class Fixed:  # any object with these three members is a source
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
    """The operating system's CSPRNG, read again for every draw and for every block of draws.

    Nothing that was read is kept. A copy of a process's memory (a fork, a snapshot, a cloned virtual machine)
    would also copy kept bytes, and two reports with the same draw reveal how their values differ.

    From 4,096 draws on, `draws` returns a block of OpenSSL's CSPRNG if this Python has OpenSSL 3 or later. It
    mixes in 32 new bytes of the operating system before each block. This is ten times as fast as reading all
    bytes from the operating system.

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
        r, u = _DRAW.unpack(os.urandom(_DRAW_BYTES))
        return r, u

    def draws(self, count: int) -> bytes:
        """Return the bytes of `count` draws."""
        block = _mixed(_DRAW_BYTES * count) if count >= _MANY else None
        return os.urandom(_DRAW_BYTES * count) if block is None else block


def _mixed(size: int) -> bytes | None:
    """Return bytes of OpenSSL's CSPRNG after mixing in system randomness, or None if OpenSSL 3 is missing.

    OpenSSL's generator is in the process's memory, and it detects a fork by the process id alone. The bytes
    mixed in here make the blocks of two copies of a process differ. OpenSSL has a primary generator, which
    seeds the generators of the threads. From OpenSSL 3 on, ``RAND_add`` reseeds the primary generator with
    these bytes and with bytes that OpenSSL reads from the operating system itself, and it counts the
    reseeding. Each thread's generator compares this count before it returns anything, and reseeds itself from
    the primary generator if the count has changed. If reseeding fails, the primary generator is in an error
    state, which ``RAND_status`` returns. OpenSSL 1.1.1 mixes in such bytes without counting, and other
    libraries under Python's `ssl` ignore them, so these libraries are not used.
    """
    try:
        import ssl  # a device with single reports never needs it
    except ImportError:
        return None
    if not ssl.OPENSSL_VERSION.startswith("OpenSSL ") or ssl.OPENSSL_VERSION_INFO < (3,):
        return None
    ssl.RAND_add(os.urandom(_MIXED_BYTES), float(_MIXED_BYTES))
    if not ssl.RAND_status():
        return None
    try:
        return ssl.RAND_bytes(size)
    except (ssl.SSLError, OverflowError):  # OverflowError from 2 GiB on
        return None


class InsecureSeededRandomness:
    """A reproducible source for tests and simulations. Reports made with it are not private.

    Anyone with the seed, or with a good guess of it, can undo every report. The source must be passed
    explicitly each time, and a `Client` accepts it only for a server on this machine.

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
        r, u = _DRAW.unpack(self._generator.randbytes(_DRAW_BYTES))
        return r, u

    def draws(self, count: int) -> bytes:
        """Return the bytes of the next `count` draws, the same as `count` calls of `draw`."""
        return self._generator.randbytes(_DRAW_BYTES * count)


SYSTEM = SystemRandomness()
"""The default source."""
