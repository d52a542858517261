"""Designs on disk are found again, and never trusted."""

import json
import multiprocessing
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from arcwise.analysis.design import designer as module
from arcwise.analysis.design import minimax, worst_case
from arcwise.analysis.design.search import find_table
from arcwise.domains import Circle, Interval

SMALL: dict[str, Any] = {"outputs": 4, "nodes": 5}


solved = cache(partial(find_table, notify=lambda *_: None))


@pytest.fixture(autouse=True)
def _solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solve each program once; designs are still kept, read and checked as usual."""
    monkeypatch.setattr(module, "find_table", lambda goal, outputs, _: solved(goal, outputs))


def make() -> Any:
    return minimax(Interval(0, 1), 1.0, **SMALL)


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the file name and the content of one kept design."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARCWISE_CACHE", str(folder))
        make()
    (file,) = (folder / "designs").iterdir()
    return file.name, file.read_text()


@pytest.fixture
def kept(design: tuple[str, str], cache_folder: Path) -> Path:
    """Return the file of a kept design."""
    name, text = design
    cache_folder.mkdir(parents=True)
    (cache_folder / name).write_text(text)
    return cache_folder / name


def refuse(*_: object) -> None:
    raise AssertionError("the solver was asked")


@pytest.mark.slow
def test_a_kept_design_is_not_solved_again(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = minimax(Interval(0, 1), 1.0, cache=False, **SMALL)
    monkeypatch.setattr(module, "find_table", refuse)
    seen: list[float] = []
    again = minimax(Interval(-5, 5), 1.0, progress=lambda share, _: seen.append(share), **SMALL)
    assert again.kernel == first.kernel
    assert worst_case(again) == pytest.approx(100 * worst_case(first))
    assert seen == [1.0]
    with pytest.raises(AssertionError, match="solver was asked"):
        minimax(Interval(0, 1), 1.0, cache=False, **SMALL)


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": 1.0000001},
        {"outputs": 5},
        {"nodes": 6},
        {"goal": "value", "power": 2},
        pytest.param({"goal": "value"}, marks=pytest.mark.slow),
    ],
)
def test_another_request_is_another_design(kept: Path, other: dict[str, Any]) -> None:
    minimax(Interval(0, 1), **{"epsilon": 1.0, **SMALL, **other})
    assert len(list(kept.parent.iterdir())) == 2


def test_circles_are_kept_too(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = minimax(Circle(360), 1.0, goal="direction", outputs=12)
    monkeypatch.setattr(module, "find_row", refuse)
    assert minimax(Circle(24), 1.0, goal="direction", outputs=12).kernel == first.kernel
    assert len(list(cache_folder.iterdir())) == 1


def edit(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        stored = json.loads(path.read_text())
        change(stored)
        path.write_text(json.dumps(stored))

    return apply


def move_weight(stored: dict[str, Any], amount: int) -> None:
    """Move weight inside the first row, so that its sum stays and its ratios change."""
    row = [int(weight) for weight in stored["rows"][0]]
    least = min(range(len(row)), key=row.__getitem__)
    row[least] -= amount
    row[1 - min(least, 1)] += amount
    stored["rows"][0] = [str(weight) for weight in row]


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_text(""),
    "cut off": lambda path: path.write_text(path.read_text()[:200]),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "a list": lambda path: path.write_text("[1, 2]"),
    "null": lambda path: path.write_text("null"),
    "another key": edit(lambda stored: stored["key"].update(epsilon=8.0)),
    "another version": edit(lambda stored: stored["key"].update(version=-1)),
    "no rows": edit(lambda stored: stored.update(rows=[])),
    "a row less": edit(lambda stored: stored["rows"].pop()),
    "a sum that is off": edit(lambda stored: stored["rows"][2].__setitem__(0, "1")),
    "not private": edit(lambda stored: move_weight(stored, 2**61)),
    "biased": edit(lambda stored: stored["units"].__setitem__(0, stored["units"][0] - 1e-6)),
    "infinite": edit(lambda stored: stored["units"].__setitem__(0, float("inf"))),
    "a better worst case": edit(lambda stored: stored.update(worst=stored["worst"] * 0.9)),
    "a word": edit(lambda stored: stored.update(worst="small")),
    "a table of another epsilon": edit(
        lambda stored: stored.update(
            rows=[
                [str(w) for w in minimax(Interval(0, 1), 4.0, cache=False, **SMALL).kernel.row(s)]
                for s in range(5)
            ]
        )
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_or_foreign_file_is_replaced(kept: Path, damage: str) -> None:
    good = kept.read_text()
    DAMAGE[damage](kept)
    mechanism = make()
    mechanism.certificate()
    assert kept.read_text() == good
    assert list(kept.parent.iterdir()) == [kept]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ARCWISE_CACHE", str(blocked))
    assert make().kernel.nodes == 5
    assert blocked.read_text() == ""


def test_without_a_cache_nothing_is_written(cache_folder: Path) -> None:
    minimax(Interval(0, 1), 1.0, cache=False, **SMALL)
    assert not cache_folder.exists()


@pytest.mark.slow
def test_many_writers_leave_one_whole_file(cache_folder: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        kernels = [result.get(timeout=120) for result in [pool.apply_async(_kernel) for _ in range(6)]]
    assert all(kernel == kernels[0] for kernel in kernels)
    (file,) = cache_folder.iterdir()
    json.loads(file.read_text())


def _kernel() -> Any:
    return make().kernel
