"""Mechanisms of other packages: an installed package that names one, and packages that do so badly."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arcwise.domains import Interval
from arcwise.errors import CertificateError, ParameterError, TaskError
from arcwise.mechanisms import plugins
from arcwise.mechanisms.registry import MECHANISMS, PLACES
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "adding-a-mechanism.md"
TEXT = PAGE.read_text(encoding="utf-8")
SOURCE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0]
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
    """Nor can another package take one over, in a version that is still to come either."""
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
