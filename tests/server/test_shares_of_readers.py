"""Readers share the computing: heavy users wait for themselves, and for the first request of each other."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.server.estimates.service import Estimates
from arcwise.server.pages.later import Later, Wanted
from arcwise.server.problems import Problem

if TYPE_CHECKING:
    from arcwise.server.store import Store


def no_store() -> Store:
    raise AssertionError("nothing is read")


def test_a_page_waits_for_one_result_of_a_visitor_who_wants_hundreds() -> None:
    made: list[str] = []

    def wanted(name: str, rank: int = 1) -> Wanted:
        async def make() -> str:
            await asyncio.sleep(0)
            made.append(name)
            return name

        return Wanted(name, make, rank)

    async def main() -> None:
        later = Later()
        asking = asyncio.create_task(later.get([wanted(f"a{n}") for n in range(256)], 60, "a"))
        await asyncio.sleep(0)
        assert await later.get([wanted("b0"), wanted("a9"), wanted("b1")], 60, "b") == ["b0", "a9", "b1"]
        assert len(made) < 12  # in turns: a0 a1 b0 a2 a9 ...
        found = await asking
        assert found == [f"a{n}" for n in range(64)] + [None] * 192
        assert await later.get([wanted("a64")], 60, "a") == ["a64"]  # and may ask for more when that is done
        later.close()

    asyncio.run(asyncio.wait_for(main(), 120))


def test_visitors_with_four_addresses_do_not_keep_a_fifth_from_results() -> None:
    async def make() -> str:
        await asyncio.sleep(0)
        return "made"

    async def main() -> None:
        later = Later()
        hogs = [
            asyncio.create_task(later.get([Wanted((name, n), make, 1) for n in range(64)], 60, name))
            for name in "abcd"
        ]
        await asyncio.sleep(0)
        assert await later.get([Wanted(("e", n), make) for n in range(8)], 60, "e") == ["made"] * 8
        found = [each for hog in hogs for each in await hog]
        assert found.count("made") == 256 - 8  # the last of each made room, and are asked for again
        later.close()

    asyncio.run(asyncio.wait_for(main(), 120))


def test_an_estimate_waits_for_one_of_a_reader_who_asks_for_many() -> None:
    made: list[str] = []
    go_on = threading.Event()

    def compute(name: str) -> str:
        go_on.wait(60)
        made.append(name)
        return name

    async def main() -> None:
        estimates = Estimates(no_store)
        estimates.start()
        asked: list[asyncio.Task[Any]] = [
            asyncio.create_task(estimates.run(lambda name=f"a{n}": compute(name), "a"))  # type: ignore[misc]
            for n in range(18)
        ]
        await asyncio.sleep(0)
        late = asyncio.create_task(estimates.run(lambda: compute("b"), "b"))
        gone = asyncio.create_task(estimates.run(lambda: compute("gone"), "c"))
        await asyncio.sleep(0)
        gone.cancel()
        go_on.set()
        assert await late == "b"
        assert made.index("b") <= 2
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert outcomes[:12] == [f"a{n}" for n in range(12)]
        assert [each.kind for each in outcomes[12:] if isinstance(each, Problem)] == ["estimates-busy"] * 6
        assert await estimates.run(lambda: compute("c"), "a") == "c"
        assert "gone" not in made
        estimates.close()
        with pytest.raises(Problem):
            await estimates.run(lambda: compute("d"), "a")

    asyncio.run(asyncio.wait_for(main(), 120))


def test_whoever_has_most_in_a_full_line_makes_room() -> None:
    go_on = threading.Event()

    async def main() -> None:
        estimates = Estimates(no_store)
        estimates.start()

        def ask(reader: str, count: int) -> list[asyncio.Task[object]]:
            return [asyncio.create_task(estimates.run(lambda: go_on.wait(60), reader)) for _ in range(count)]

        hogs = {
            name: ask(name, count) for name, count in zip("abcdef", (12, 11, 11, 10, 10, 10), strict=True)
        }
        await asyncio.sleep(0)
        late = ask("late", 12)
        await asyncio.sleep(0)
        go_on.set()
        served = {
            name: [isinstance(each, bool) for each in await asyncio.gather(*asked, return_exceptions=True)]
            for name, asked in (*hogs.items(), ("late", late))
        }
        estimates.close()
        # 64 in total; nobody has many more than the last one to come, and the first of each are served.
        assert sorted(sum(found) for found in served.values()) == [9] * 6 + [10]
        assert all(found == sorted(found, reverse=True) for found in served.values())

    asyncio.run(asyncio.wait_for(main(), 120))
