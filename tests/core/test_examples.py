"""The examples of docstrings run, and every public name of an app's API has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

import pytest

FOLDERS = [str(Path(__file__).parents[2] / root / "arcwise") for root in ("shared", "client")]
ALL_MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(FOLDERS, "arcwise.")
    if not module.name.endswith("__main__")
)

MODULES = (
    "arcwise.client",
    "arcwise.domains",
    "arcwise.errors",
    "arcwise.kernels",
    "arcwise.mechanisms",
    "arcwise.randomness",
    "arcwise.tasks",
    "arcwise.wire",
)
"""The modules that an app's developer imports from."""

FINDER = doctest.DocTestFinder(exclude_empty=True)
OPTIONS = doctest.ELLIPSIS


def examples_of(module: str) -> list[doctest.DocTest]:
    """Return the docstrings of a module that hold examples."""
    return [test for test in FINDER.find(importlib.import_module(module)) if test.examples]


def public_names() -> list[tuple[str, Any]]:
    """Return every public class and function of the modules, with its name."""
    modules = [importlib.import_module(name) for name in MODULES]
    names = [(module, public) for module in modules for public in module.__all__]
    things = [(f"{module.__name__}.{public}", getattr(module, public)) for module, public in names]
    return [(name, thing) for name, thing in things if callable(thing)]


PUBLIC = public_names()


@pytest.mark.parametrize("module", ALL_MODULES)
def test_the_examples_of_a_module_hold(
    module: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    told: list[str] = []
    for test in examples_of(module):
        monkeypatch.chdir(tmp_path_factory.mktemp("example"))  # examples do not see each other's files
        runner.run(test, out=told.append)
    assert not runner.failures, "".join(told)


@pytest.mark.parametrize(("name", "thing"), PUBLIC, ids=[name for name, _ in PUBLIC])
def test_a_public_name_has_an_example(name: str, thing: Any) -> None:
    """It is in the docstring, where `help` shows it; `test_the_examples_of_a_module_hold` runs it there."""
    run = {test.name for test in examples_of(thing.__module__)}
    assert f"{thing.__module__}.{thing.__qualname__}" in run, f"{name} has no example in its docstring"


@pytest.mark.parametrize(("name", "thing"), PUBLIC, ids=[name for name, _ in PUBLIC])
def test_public_methods_and_properties_say_what_they_do(name: str, thing: Any) -> None:
    if inspect.isclass(thing):
        for method in dir(thing):  # those of base classes too
            value = inspect.getattr_static(thing, method)
            described = isinstance(value, (property, classmethod, staticmethod)) or inspect.isfunction(value)
            if described and not method.startswith("_"):
                assert value.__doc__, f"{name}.{method} has no docstring"


def test_a_wrong_example_is_noticed() -> None:
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(test, out=lambda _: None)
    assert runner.failures == 1


def test_the_modules_hold_what_is_known_to_be_public() -> None:
    names = {name for name, _ in PUBLIC}
    known = {
        "client.Client",
        "tasks.Task",
        "kernels.exp_lower_bound",
        "mechanisms.half_window",
        "errors.TaskError",
    }
    assert {f"arcwise.{name}" for name in known} <= names
