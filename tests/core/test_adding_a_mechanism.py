"""`docs/contributing/adding-a-mechanism.md`: its blocks run, both in our own file and in another package.

The contract suite takes the mechanisms that they define. Packages that name a mechanism badly are refused.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.domains import Interval
from arcwise.errors import CertificateError, ParameterError, TaskError
from arcwise.mechanisms import plugins
from arcwise.mechanisms.registry import MECHANISMS, PLACES
from arcwise.tasks import Task
from tests.core import test_contract as contract
from tests.support import strategies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "adding-a-mechanism.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SOURCE = BLOCKS[0]
PROJECT = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)[0]
NAME = re.findall(r'^name = "(.*)"', PROJECT, re.MULTILINE)[0]
POINTS = dict(re.findall(r'^"(.*)" = "(.*)"$', PROJECT, re.MULTILINE))
KEY = "exponential", 1


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Install a package as pip does: a module, and a folder of metadata with its entry points."""

    def installed(package: str, points: dict[str, str], source: str = "") -> None:
        module = package.replace("-", "_")
        folder = tmp_path / package
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{module}.py").write_text(source)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = "".join(f"{name} = {value}\n" for name, value in points.items())
        (info / "entry_points.txt").write_text(f"[{plugins.GROUP}]\n{lines}")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, module, raising=False)
        plugins.installed.cache_clear()

    yield installed
    monkeypatch.undo()
    for name in [name for name in sys.modules if name.startswith("arcwise_exponential")]:
        del sys.modules[name]
    plugins.installed.cache_clear()


def delay() -> Task:
    domain = Interval(0, 60)
    return Task("delay", domain, 1.0, mechanism=MECHANISMS[KEY](domain, 1.0))  # type: ignore[call-arg]


def install_example(install: Callable[..., None], package: str = "", source: str = SOURCE) -> None:
    assert f'[project.entry-points."{plugins.GROUP}"]' in PROJECT
    install(package or NAME, POINTS, source)


def test_a_task_of_the_pages_package_goes_round(install: Callable[..., None], tmp_path: Path) -> None:
    install_example(install)
    assert KEY in MECHANISMS
    assert KEY in set(MECHANISMS)
    assert "arcwise_exponential" not in sys.modules  # listed, and not loaded
    task = delay()
    path = tmp_path / "delay.json"
    task.save(path)
    again = Task.load(path)
    assert (again.id, again.mechanism.name) == (task.id, "exponential")
    assert again.count(again.randomize([1.0] * 100)).sum() == 100


def test_its_certificate_is_computed_from_its_integers(install: Callable[..., None]) -> None:
    honest = "domain, epsilon = check_interval(domain, type(self).__name__), check_epsilon(epsilon)"
    assert honest in SOURCE
    lies = SOURCE.replace(honest, honest.replace("check_epsilon", "2 * check_epsilon"))
    install_example(install, source=lies.replace("_init(domain, epsilon,", "_init(domain, epsilon / 2,"))
    with pytest.raises(CertificateError, match="largest ratio of weights"):
        delay()


def test_without_the_package_its_task_is_refused(install: Callable[..., None]) -> None:
    install_example(install)
    task = delay()
    plugins.installed.cache_clear()
    sys.path[:] = [entry for entry in sys.path if "arcwise-exponential" not in entry]
    with pytest.raises((TaskError, ParameterError), match=r"'exponential' version 1 .* is unknown"):
        Task.from_bytes(task.to_bytes())


def test_our_own_names_are_never_looked_up(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor can another package claim one of our names, even one that a later version will use."""
    install("arcwise-thief", {"laplace.1": "arcwise_thief:X", "laplace.2": "arcwise_thief:X"})
    assert MECHANISMS["laplace", 1].__module__ == "arcwise.mechanisms.additive.pure"
    assert ("laplace", 2) not in MECHANISMS
    assert len(MECHANISMS) == len(PLACES)
    monkeypatch.setattr(plugins, "installed", lambda: pytest.fail("looked up"))
    task = Task("delay", Interval(0, 60), 1.0)
    assert Task.from_bytes(task.to_bytes()).id == task.id


def test_two_packages_with_one_name_conflict(install: Callable[..., None]) -> None:
    install_example(install)
    install_example(install, "arcwise-exponential-too")
    with pytest.raises(ParameterError, match=r"offered by .* and .*: uninstall all but one"):
        MECHANISMS[KEY]


def method(signature: str) -> str:
    return f"\n    def {signature}:\n        return None\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('no license')", "cannot be loaded: RuntimeError: no license"),
        ("", "cannot be loaded: AttributeError"),
        ("Exponential = 7", "must be a class derived from one of CirculantMechanism"),
        ("class Exponential: pass", "must be a class derived from one of CirculantMechanism"),
        (SOURCE.replace('= "exponential"', '= "other"'), "calls itself 'other' version 1"),
        (SOURCE.replace("ClassVar[int] = 1", "ClassVar[int] = 2"), "calls itself 'exponential' version 2"),
        (SOURCE + method("randomize_at(self, position, *, randomness=None)"), "leave randomize_at"),
        (SOURCE + method("certificate(self)"), "leave certificate to arcwise"),
        (SOURCE + "\n    @classmethod" + method("from_fields(cls, *fields)"), "leave from_fields"),
    ],
    ids=range(9),
)
def test_a_broken_package_says_what_is_wrong(install: Callable[..., None], source: str, message: str) -> None:
    install_example(install, source=source)
    with pytest.raises(ParameterError, match=re.escape(message)) as caught:
        MECHANISMS[KEY]
    assert NAME in str(caught.value)


@pytest.mark.parametrize("name", ["exponential", "Exponential.1", "exponential.0", "exponential.01", "a b.1"])
def test_an_entry_point_of_another_form_is_not_listed(install: Callable[..., None], name: str) -> None:
    install("arcwise-exponential", {name: "arcwise_exponential:Exponential"}, SOURCE)
    assert len(MECHANISMS) == len(PLACES)
    assert (name, 0) not in MECHANISMS


MODULE = "arcwise.mechanisms.exponential"


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the blocks of the page in order, in one namespace, and undo their registrations."""
    file, line, example = BLOCKS
    monkeypatch.setattr("arcwise.mechanisms.registry.PLACES", dict(PLACES))
    monkeypatch.setattr(strategies, "EXAMPLES", dict(strategies.EXAMPLES))
    module = ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)
    exec(compile(file, "exponential.py", "exec"), module.__dict__)
    for block in (line, example):
        exec(block, module.__dict__)
    return "exponential"


def test_the_page_makes_a_mechanism_that_keeps_the_contract(added: str) -> None:
    assert (added, 1) in MECHANISMS
    examples = strategies.EXAMPLES[added, 1]
    assert [example.make(1.0).lattice is None for example in examples] == [True, False]
    run = 0
    for name, test in inspect.getmembers(contract, inspect.isfunction):
        arguments = list(inspect.signature(test).parameters)
        if not name.startswith("test_") or arguments not in (["mechanism"], ["at_one"]):
            continue
        for epsilon in (1.0,) if arguments == ["at_one"] else contract.EPSILONS:
            for example in examples:
                test(example.make(epsilon))
                run += 1
    assert run > 100


def test_the_suite_would_refuse_a_mechanism_that_breaks_its_promise(added: str) -> None:
    cls: Any = importlib.import_module(MODULE).Exponential
    stronger = cls(Interval(0, 1), 2.0)
    fields = stronger.kernel_fields()
    liar = cls.from_fields(Interval(0, 1), 1.0, "inset", fields)
    with pytest.raises(Exception, match="largest ratio of weights"):
        contract.test_the_certificate_holds_over_all_pairs_of_rows(liar)


def test_the_page_names_every_base_class() -> None:
    for name in ("WindowMechanism", "TableMechanism", "CirculantMechanism"):
        assert f"`{name}`" in TEXT
