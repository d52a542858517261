"""Draws: how bytes become numbers, and that no two reports ever share a draw."""

from __future__ import annotations

import os
import ssl
import struct
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.randomness import _MANY, SYSTEM, InsecureSeededRandomness, SystemRandomness
from tests.support.interpreters import printed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from _typeshed import TraceFunction


@pytest.fixture
def known_bytes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Replace the operating system's randomness by a seeded stream; return a list of the bytes it gave."""
    stream = InsecureSeededRandomness(5)
    given: list[bytes] = []

    def urandom(size: int) -> bytes:
        block = stream.draws(-(-size // 16))[:size]
        given.append(block)
        return block

    monkeypatch.setattr(os, "urandom", urandom)
    return given


def test_a_draw_is_16_bytes_little_endian_r_then_u(known_bytes: list[bytes]) -> None:
    source = SystemRandomness()
    draws = [source.draw() for _ in range(300)]
    assert {len(block) for block in known_bytes} == {16}
    assert draws == [
        (int.from_bytes(block[:8], "little"), int.from_bytes(block[8:], "little")) for block in known_bytes
    ]
    assert len(set(draws)) == 300


def test_draws_are_fresh_bytes_in_order(known_bytes: list[bytes]) -> None:
    source = SystemRandomness()
    assert source.draws(3) == known_bytes[0]
    assert source.draws(2) == known_bytes[1]
    assert [len(block) for block in known_bytes] == [48, 32]
    assert source.draws(0) == b""


def test_nothing_that_was_read_outlives_its_draw(known_bytes: list[bytes]) -> None:
    """A copy of the process (a fork, a snapshot, a cloned machine) then has nothing to share."""
    source = SystemRandomness()
    for reads in range(1, 5):
        source.draw()
        assert [len(block) for block in known_bytes] == [16] * reads
    assert not hasattr(source, "__dict__")


mixing = pytest.mark.skipif(
    not ssl.OPENSSL_VERSION.startswith("OpenSSL ") or ssl.OPENSSL_VERSION_INFO < (3,),
    reason=f"blocks are not taken from {ssl.OPENSSL_VERSION}",
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Return a list of the calls to OpenSSL's generator and their results, in order, as they happen."""
    made: list[tuple[str, Any]] = []
    add, give = ssl.RAND_add, ssl.RAND_bytes

    def mix(block: bytes, entropy: float) -> None:
        made.append(("add", block))
        add(block, entropy)

    def take(size: int) -> bytes:
        made.append(("bytes", size))
        return give(size)

    monkeypatch.setattr(ssl, "RAND_add", mix)
    monkeypatch.setattr(ssl, "RAND_bytes", take)
    return made


@mixing
def test_new_bytes_of_the_system_are_mixed_in_before_every_block(
    known_bytes: list[bytes], calls: list[tuple[str, Any]]
) -> None:
    source = SystemRandomness()
    blocks = [source.draws(count) for count in (_MANY, _MANY, 3 * _MANY + 1)]
    assert [len(block) for block in known_bytes] == [32, 32, 32]
    assert calls == [
        ("add", known_bytes[0]),
        ("bytes", 16 * _MANY),
        ("add", known_bytes[1]),
        ("bytes", 16 * _MANY),
        ("add", known_bytes[2]),
        ("bytes", 16 * (3 * _MANY + 1)),
    ]
    assert [len(block) for block in blocks] == [16 * _MANY, 16 * _MANY, 16 * (3 * _MANY + 1)]
    draws = [draw for block in blocks for draw in struct.iter_unpack("<QQ", block)]
    assert len(set(draws)) == len(draws) == 5 * _MANY + 1


def test_fewer_draws_are_the_systems_own(known_bytes: list[bytes], calls: list[tuple[str, Any]]) -> None:
    assert SystemRandomness().draws(_MANY - 1) == known_bytes[0]
    assert len(known_bytes[0]) == 16 * (_MANY - 1)
    assert calls == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENSSL_VERSION", "LibreSSL 3.8.2"),
        ("OPENSSL_VERSION", "AWS-LC 1.40.0"),
        ("OPENSSL_VERSION", "BoringSSL"),
        ("OPENSSL_VERSION_INFO", (1, 1, 1, 23, 15)),
    ],
)
def test_another_library_is_not_asked(
    known_bytes: list[bytes],
    calls: list[tuple[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: object,
) -> None:
    """Such libraries ignore the mixed-in bytes, or repeat earlier output."""
    monkeypatch.setattr(ssl, name, value)
    assert SystemRandomness().draws(_MANY) == known_bytes[0]
    assert calls == []


def failing(*_: object) -> bytes:
    raise ssl.SSLError("no randomness")


def too_large(*_: object) -> bytes:
    raise OverflowError("a C int has 31 bits")


@mixing
@pytest.mark.parametrize(
    ("name", "replaced"), [("RAND_status", lambda: False), ("RAND_bytes", failing), ("RAND_bytes", too_large)]
)
def test_where_openssl_fails_the_system_gives_the_block(
    known_bytes: list[bytes], monkeypatch: pytest.MonkeyPatch, name: str, replaced: Any
) -> None:
    """After a failed reseeding, `RAND_bytes` would give bytes without the mixed-in input."""
    monkeypatch.setattr(ssl, name, replaced)
    assert SystemRandomness().draws(_MANY) == known_bytes[1]
    assert [len(block) for block in known_bytes] == [32, 16 * _MANY]


def test_without_ssl_the_system_gives_the_block(
    known_bytes: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ssl", None)
    assert SystemRandomness().draws(_MANY) == known_bytes[0]


@pytest.mark.parametrize("seed", [0, 1, 2**70, -3])
def test_seeded_draw_is_draws(seed: int) -> None:
    one_by_one, at_once = InsecureSeededRandomness(seed), InsecureSeededRandomness(seed)
    singles = [one_by_one.draw() for _ in range(50)]
    assert list(struct.iter_unpack("<QQ", at_once.draws(50))) == singles
    assert at_once.draws(0) == b""
    # Mixed calls continue the same stream.
    assert at_once.draw() == one_by_one.draw()
    assert struct.unpack("<QQ", at_once.draws(1)) == one_by_one.draw()
    assert len(set(singles)) == 50


def test_seeds_differ_and_only_the_system_is_secure() -> None:
    assert InsecureSeededRandomness(1).draws(4) != InsecureSeededRandomness(2).draws(4)
    assert SystemRandomness().secure is True
    assert SYSTEM.secure is True
    assert isinstance(SYSTEM, SystemRandomness)
    assert InsecureSeededRandomness(1).secure is False


@pytest.fixture
def switching_inside_draw() -> Iterator[None]:
    """Let threads switch between any two instructions of `draw`, by sleeping there."""
    code = SystemRandomness.draw.__code__

    def trace(frame: FrameType, event: str, arg: Any) -> TraceFunction | None:
        if frame.f_code is not code:
            return None
        frame.f_trace_opcodes = True
        time.sleep(1e-6)
        return trace

    before = threading.gettrace()
    threading.settrace(trace)
    yield
    threading.settrace(before)


def taken_at_once(take: Callable[[], list[Any]]) -> list[Any]:
    """Return the draws of eight threads that start together."""
    start = threading.Barrier(8)

    def work() -> list[Any]:
        start.wait()
        return take()

    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(work) for _ in range(8)]
    return [each for one in done for each in one.result()]


@pytest.mark.usefixtures("switching_inside_draw")
def test_threads_never_get_the_same_draw() -> None:
    source = SystemRandomness()
    draws = taken_at_once(lambda: [source.draw() for _ in range(150)])
    assert len(set(draws)) == len(draws) == 1200


def test_threads_never_get_the_same_block() -> None:
    source = SystemRandomness()
    blocks = taken_at_once(lambda: [source.draws(_MANY) for _ in range(4)])
    draws = [block[i : i + 16] for block in blocks for i in range(0, len(block), 16)]
    assert len(set(draws)) == len(draws) == 8 * 4 * _MANY


FORK = """
import json, os, struct, sys
from arcwise.randomness import _MANY, SYSTEM, SystemRandomness

if sys.argv[1] == "same":  # as the first process of a container that forks into a new PID namespace
    os.getpid = lambda: 1
sources = [SYSTEM, SystemRandomness()]
for source in sources:
    source.draw()  # whatever this leaves behind, a child inherits
    source.draws(_MANY)


def drawn():
    singles = [source.draw() for source in sources for _ in range(400)]
    blocks = [draw for source in sources for draw in struct.iter_unpack("<QQ", source.draws(_MANY))]
    return singles + blocks


children = []
for _ in range(3):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            json.dump(drawn(), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        children.append(json.load(pipe))
    os.waitpid(pid, 0)
children.append(drawn())
draws = [tuple(draw) for child in children for draw in child]
print(len(draws), len(set(draws)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.parametrize("ids", ["different", "same"])
def test_children_share_no_draw_with_their_parent(ids: str) -> None:
    """In a separate process, because a fork is not safe while threads of other tests run."""
    count = str(4 * 2 * (400 + _MANY))
    assert printed(FORK, ids).split() == [count, count]


COPIES = """
import ctypes, os, ssl, sys
from arcwise.randomness import _MANY, SYSTEM

NEW_USER, NEW_PID = 0x10000000, 0x20000000
libc = ctypes.CDLL(None)


def fork_into_new_namespace():  # a process there has the id 1, for OpenSSL too
    if libc.unshare(NEW_PID) and libc.unshare(NEW_USER | NEW_PID):
        print("not allowed")
        os._exit(0)
    return os.fork()


first = fork_into_new_namespace()
if first:
    os.waitpid(first, 0)
    os._exit(0)
SYSTEM.draws(_MANY)  # the generators are seeded here, under the id 1
ssl.RAND_bytes(16)
read, write = os.pipe()
copy = fork_into_new_namespace()
mine = [str(os.getpid()), ssl.RAND_bytes(16).hex(), SYSTEM.draws(_MANY).hex(), SYSTEM.draws(_MANY).hex()]
if copy:
    os.close(write)
    with os.fdopen(read) as pipe:
        print(" ".join(mine), pipe.read(), sep="\\n")
    os.waitpid(copy, 0)
else:
    with os.fdopen(write, "w") as pipe:
        pipe.write(" ".join(mine))
"""


@mixing
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has PID namespaces")
def test_a_copy_that_openssl_takes_for_the_same_process_shares_no_block() -> None:
    """The generator gives both processes the same bytes, so the only difference is the mixed-in input."""
    found = printed(COPIES)
    if found == "not allowed":
        pytest.skip("this user may not make PID namespaces")
    one, other = (line.split() for line in found.splitlines())
    assert one[0] == other[0] == "1"
    assert one[1] == other[1]
    blocks = one[2:] + other[2:]
    draws = [block[i : i + 32] for block in blocks for i in range(0, len(block), 32)]
    assert len(set(draws)) == len(draws) == 4 * _MANY
