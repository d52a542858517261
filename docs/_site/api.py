"""The pages of the API: one for each facade, with all of its public names."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from tests.test_public_surface import FACADES, home, members

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["pages"]


def pages(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the place and the text of each page."""
    for facade in FACADES:
        yield folder / f"{facade}.rst", "\n".join(_page(facade))
    yield folder / "types.rst", "\n".join(_others())


def _page(facade: str) -> Iterator[str]:
    module = importlib.import_module(facade)
    public = {name: getattr(module, name) for name in sorted(module.__all__)}
    listed = {value for value in public.values() if inspect.isclass(value)}
    elsewhere = {
        name: place
        for name, value in public.items()
        if inspect.isclass(value) and (place := home(value, facade)) != facade
    }
    own = {name: value for name, value in public.items() if name not in elsewhere}
    yield from (_title(facade), f".. automodule:: {facade}", "   :no-members:", "")
    if elsewhere:
        yield "Also here: " + ", ".join(
            f":py:obj:`{name} <{place}.{name}>` of ``{place}``" for name, place in elsewhere.items()
        )
        yield ""
    kinds: dict[str, list[str]] = {"Classes": [], "Functions": [], "Errors": [], "Constants": []}
    for name, value in own.items():
        kinds[_kind(value)].append(name)
    for kind, names in kinds.items():
        if names:
            yield from (_title(kind, "-"), f".. currentmodule:: {facade}", "", ".. autosummary::", "")
            yield from (*(f"   {name}" for name in names), "")
            for name in names:
                yield from _documented(name, own[name], listed)


def _kind(value: Any) -> str:
    if inspect.isclass(value):
        return "Errors" if issubclass(value, BaseException) else "Classes"
    return "Functions" if inspect.isroutine(value) else "Constants"


def _documented(name: str, value: Any, listed: set[type]) -> Iterator[str]:
    if not inspect.isclass(value):
        yield from (f".. auto{'function' if inspect.isroutine(value) else 'data'}:: {name}", "")
        return
    shown = [each for each, member in members(value, listed).items() if _is_described(member)]
    yield f".. autoclass:: {name}"
    if shown:
        yield from (f"   :members: {', '.join(shown)}", "   :inherited-members:")
    yield ""


def _is_described(member: Any) -> bool:
    return (inspect.isroutine(member) or isinstance(member, property)) and bool(inspect.getdoc(member))


def _others() -> Iterator[str]:
    """Yield the page of types that public functions take or return, and that nobody imports."""
    yield _title("Types of arguments and results")
    for name in _SEEN:
        module, _, cls = name.rpartition(".")
        yield from (f".. currentmodule:: {module}", "", f".. autoclass:: {cls}", "   :members:", "")


_SEEN = (
    "arcwise.analysis.auditing.result.Finding",
    "arcwise.analysis.estimators.groups.TaskReports",
    "arcwise.analysis.planning.result.PlannedMechanism",
    "arcwise.client.file.inspection.Account",
    "arcwise.client.file.inspection.Queue",
    "arcwise.kernels.base.Kernel",
    "arcwise.kernels.certificate.Certificate",
    "arcwise.kernels.table.TableKernel",
    "arcwise.randomness.Randomness",
    "arcwise.server.store.writer.Adds",
    "arcwise.server.store.writer.Watcher",
)
"""Complete, since a signature that names another one fails the build."""


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n"
