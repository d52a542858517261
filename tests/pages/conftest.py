"""One Chromium and one server of each kind for all tests of a process, and windows for each test."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support.machines.machine import find_program
from tests.support.page_stores import hostile_surveys, surveys
from tests.support.sites import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from playwright.sync_api import Browser

    from tests.support.chromium import Tab
    from tests.support.sites import Site


@pytest.fixture(scope="session")
def open_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server without keys, with a task of every kind."""
    with running(tmp_path_factory.mktemp("open"), surveys()) as site:
        yield site


@pytest.fixture(scope="session")
def keyed_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with keys and a few tasks, including hostile ones."""
    with running(tmp_path_factory.mktemp("keyed"), [*surveys()[:2], *hostile_surveys()], keys=True) as site:
        yield site


_THREAD = ThreadPoolExecutor(1, thread_name_prefix="browser")
"""Playwright keeps an event loop running in its thread, so other tests could not run one there."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser, if one is installed."""
    program = find_program("chromium")
    if program is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    from tests.support.chromium import launch

    started = launch(program)
    yield _THREAD.submit(started.__enter__).result()
    _THREAD.submit(started.__exit__, None, None, None).result()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Let tests with a browser run in the browser's thread."""
    if "browser" in pyfuncitem.fixturenames:
        function = pyfuncitem.obj
        pyfuncitem.obj = lambda **given: _THREAD.submit(function, **given).result()


@pytest.fixture
def tab(browser: Browser) -> Callable[..., AbstractContextManager[Tab]]:
    """Lend windows: a function that takes the arguments of `open_tab` after the browser."""
    from tests.support.chromium import open_tab

    return partial(open_tab, browser)
