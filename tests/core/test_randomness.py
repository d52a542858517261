"""Draws: how bytes become numbers, and that no two reports ever share one."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.randomness import SYSTEM, InsecureSeededRandomness, SystemRandomness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from _typeshed import TraceFunction


@pytest.fixture
def known_bytes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Replace the operating system's randomness by a seeded stream, and return what was handed out."""
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
    """Let threads change places between any two instructions of `draw`, by sleeping there."""
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


@pytest.mark.usefixtures("switching_inside_draw")
def test_threads_never_get_the_same_draw() -> None:
    source = SystemRandomness()
    results: list[list[tuple[int, int]]] = [[] for _ in range(8)]
    start = threading.Barrier(len(results))

    def work(into: list[tuple[int, int]]) -> None:
        start.wait()
        into.extend(source.draw() for _ in range(150))

    threads = [threading.Thread(target=work, args=(into,)) for into in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    draws = [draw for result in results for draw in result]
    assert len(draws) == 1200
    assert len(set(draws)) == len(draws)


FORK = """
import json, os, sys
from arcwise.randomness import SYSTEM, SystemRandomness

if sys.argv[1] == "same":  # as the first process of a container that forks into a new PID namespace
    os.getpid = lambda: 1
sources = [SYSTEM, SystemRandomness()]
for source in sources:
    source.draw()  # whatever this leaves behind, a child inherits
children = []
for _ in range(3):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            json.dump([source.draw() for source in sources for _ in range(400)], pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        children.append(json.load(pipe))
    os.waitpid(pid, 0)
children.append([source.draw() for source in sources for _ in range(400)])
draws = [tuple(draw) for child in children for draw in child]
print(len(draws), len(set(draws)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.parametrize("ids", ["different", "same"])
def test_children_share_no_draw_with_their_parent(ids: str) -> None:
    """In a process of its own, because a fork beside threads of other tests is not safe."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK, ids],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["3200", "3200"]
