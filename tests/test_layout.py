"""The layout: three source roots under one namespace, imports that run one way, explicit public names.

It is read from the syntax trees, so an import inside a function or under TYPE_CHECKING counts too. Imports in
a method `plot` do not make a cycle.
"""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.interpreters import printed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

REPOSITORY = Path(__file__).parent.parent
ROOTS = ("shared", "client", "server")

RANKS = {
    "arcwise.checks": 1,
    "arcwise.columns": 2,
    "arcwise.digits": 0,
    "arcwise.errors": 0,
    "arcwise.extras": 1,
    "arcwise.lazy": 0,
    "arcwise.loopback": 0,
    "arcwise.urls": 2,
    "arcwise.connections": 3,
    "arcwise.notebook": 0,
    "arcwise.typing": 0,
    "arcwise.values": 0,
    "arcwise.version": 0,
    "arcwise.lattice": 1,
    "arcwise.domains": 2,
    "arcwise.randomness": 1,
    "arcwise.kernels": 2,
    "arcwise.noise": 3,
    "arcwise.mechanisms": 4,
    "arcwise.tasks": 5,
    "arcwise.oblivious": 2,
    "arcwise.wire": 1,
}
"""Within shared, a part imports only parts of lower rank, and itself."""

MAY_ONLY_IMPORT = {"arcwise.wire": {"arcwise.errors", "arcwise.values"}, "arcwise.errors": set[str]()}
"""Parts outside the ranks."""

PARTS = {
    "analysis": set[str](),
    "papers": {"analysis"},
    "server": {"analysis"},
    "cli": {"analysis", "client", "papers", "server"},
    "command": {"cli"},
    "__main__": {"command"},
}
"""The parts under the root `server`, and the parts that each may import besides shared and itself."""


def module_name(path: Path, root: Path) -> str:
    parts = list(path.relative_to(root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


DRAWING = ("plot", "_repr_html_")
"""The methods by which results show themselves."""


def imports(source: str, module: str, *, package: bool, plots: bool = True) -> Iterator[str]:
    """Yield the absolute names of all modules (or their members) that a source imports.

    With `plots` False, imports in methods that draw are left out, because pictures import what they draw.
    """
    for node in nodes(ast.parse(source), plots=plots):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")
                kept = len(parents) - node.level + package
                base = ".".join([*parents[:kept], *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def nodes(tree: ast.AST, *, plots: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if plots or not (isinstance(node, ast.FunctionDef) and node.name in DRAWING):
            yield node
            yield from nodes(node, plots=plots)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


@cache
def modules(root: str, *, plots: bool = True) -> dict[str, set[str]]:
    """Return the arcwise imports of every module under a source root; see `imports`."""
    found = {}
    folder = REPOSITORY / root
    for path in sorted(folder.rglob("*.py")):
        name = module_name(path, folder)
        package = path.name == "__init__.py"
        names = imports(path.read_text(encoding="utf-8"), name, package=package, plots=plots)
        found[name] = {imported for imported in names if within(imported, "arcwise")}
    return found


def part(name: str) -> str:
    """Return the part of shared that a name belongs to, such as "arcwise.kernels"."""
    return ".".join(name.split(".")[:2])


def test_the_reader_of_imports_sees_every_form() -> None:
    source = (
        "import arcwise.client\nfrom arcwise import server\n"
        "from . import a\nfrom .b import c\nfrom ..d import e\n"
        "def f():\n    from arcwise.server.app import g\n"
    )
    names = set(imports(source, "arcwise.x.y", package=False))
    expected = {
        "arcwise.client",
        "arcwise.server",
        "arcwise.x.a",
        "arcwise.x.b.c",
        "arcwise.d.e",
        "arcwise.server.app.g",
    }
    assert expected <= names
    assert "arcwise.x.y.a" in set(imports("from . import a", "arcwise.x.y", package=True))


def test_shared_imports_neither_side() -> None:
    assert len(modules("shared")) > 10
    for name, imported in modules("shared").items():
        for other in imported:
            assert not within(other, "arcwise.client"), f"{name} imports {other}"
            assert not within(other, "arcwise.server"), f"{name} imports {other}"


def test_the_client_imports_shared_only() -> None:
    for name, imported in modules("client").items():
        for other in imported - {"arcwise"}:
            assert within(other, "arcwise.client") or part(other) in RANKS, f"{name} imports {other}"


def test_the_parts_beside_the_client_import_one_way() -> None:
    for name, imported in modules("server").items():
        own = name.split(".")[1]
        assert own in PARTS, f"{own} is no part that this file knows"
        for other in imported - {"arcwise"}:
            target = other.split(".")[1]
            allowed = target == own or target in PARTS[own] or part(other) in RANKS
            assert allowed, f"{name} imports {other}"


def test_imports_within_shared_run_one_way() -> None:
    for name, imported in modules("shared").items():
        own = part(name)
        assert own in RANKS, f"{own} has no rank in this file: add it to RANKS"
        for other in imported - {"arcwise"}:
            target = part(other)
            assert target in RANKS, f"{name} imports {other}, which is no part of shared"
            if target == own:
                continue
            assert RANKS[target] < RANKS[own], f"{name} imports {other}"
            if own in MAY_ONLY_IMPORT:
                assert target in MAY_ONLY_IMPORT[own], f"{name} imports {other}"


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of nodes that can reach one another, of two nodes or more."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        reached[start], left = set(), list(graph[start])
        while left:
            if (node := left.pop()) not in reached[start]:
                reached[start].add(node)
                left.extend(graph[node])
    groups = {
        tuple(sorted({start} | {node for node in found if start in reached[node]}))
        for start, found in reached.items()
    }
    return sorted(list(group) for group in groups if len(group) > 1)


def resolved(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the imports as modules: a name that is not one belongs to the package that it is taken from."""

    def module(name: str) -> str:
        while name and name not in graph:
            name = name.rpartition(".")[0]
        return name

    # `imports` yields a package besides each of its submodules that are imported from it by name.
    taken = {
        own: {name for name in names if not any(other.startswith(f"{name}.") for other in names)}
        for own, names in graph.items()
    }
    return {own: {module(name) for name in names} - {own, ""} for own, names in taken.items()}


def folders(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return which folders of the analysis import which."""
    named = {name.split(".")[2] for name in graph if name.count(".") > 2 and within(name, "arcwise.analysis")}
    found: dict[str, set[str]] = {folder: set() for folder in named}
    for name, imported in graph.items():
        if within(name, "arcwise.analysis") and name.count(".") > 1 and (own := name.split(".")[2]) in named:
            found[own] |= {part for other in imported for part in other.split(".")[2:3]} & (named - {own})
    return found


def test_imports_are_resolved_to_modules() -> None:
    graph = {"a": {"a.b", "a.b.name"}, "a.b": {"a", "a.c"}, "a.c": {"a", "a.name"}}
    assert resolved(graph) == {"a": {"a.b"}, "a.b": {"a.c"}, "a.c": {"a"}}
    assert circles(resolved(graph)) == [["a", "a.b", "a.c"]]
    assert circles({"a": ["b"], "b": ["c"], "c": []}) == []


def test_no_modules_import_one_another() -> None:
    """Neither at run time nor for the type checker: to read one file of a cycle, one must read all."""
    graph = {name: found for root in ROOTS for name, found in modules(root, plots=False).items()}
    assert circles(resolved(graph)) == []


def test_no_folders_of_the_analysis_import_one_another() -> None:
    assert circles(folders(resolved(modules("server", plots=False)))) == []


@pytest.mark.parametrize("root", ROOTS)
def test_the_namespace_belongs_to_no_root(root: str) -> None:
    folder = REPOSITORY / root
    assert (folder / "arcwise").is_dir()
    assert not (folder / "arcwise" / "__init__.py").exists()
    assert not list(folder.glob("*.py"))
    folders = {path.name for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"}
    beside = {"javascript"} if root == "client" else set()  # a client in another language
    assert folders == {"arcwise"} | beside


@pytest.mark.parametrize(
    "path",
    [
        "shared/arcwise",
        "client/arcwise/client",
        *(f"server/arcwise/{part}" for part in PARTS if part != "__main__"),
    ],
)
def test_types_are_published(path: str) -> None:
    assert (REPOSITORY / path / "py.typed").is_file()


def packages() -> list[Path]:
    """Return every folder with Python files below the namespace, and the modules of shared itself."""
    found = {path.parent for root in ROOTS for path in (REPOSITORY / root / "arcwise").rglob("*.py")}
    found -= {REPOSITORY / root / "arcwise" for root in ("shared", "server")}  # which has only a __main__
    return sorted(found)


def public_names(path: Path) -> list[str] | None:
    """Return `__all__` as it is written, or None if a module has none."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            assert node.value is not None
            return list(ast.literal_eval(node.value))
    return None


def test_every_package_says_what_is_public() -> None:
    for package in packages():
        init = package / "__init__.py"
        assert init.is_file(), f"{package.relative_to(REPOSITORY)} has no __init__.py"
        assert public_names(init) is not None, f"{init.relative_to(REPOSITORY)} has no __all__"


def test_no_other_module_does() -> None:
    """Private names of a module begin with an underscore."""
    modules = [path for root in ROOTS for path in (REPOSITORY / root / "arcwise").rglob("*.py")]
    listing = {
        module.relative_to(REPOSITORY).as_posix()
        for module in modules
        if module.name != "__init__.py" and public_names(module) is not None
    }
    shared = {f"shared/arcwise/{name}.py" for name in ("domains", "errors", "randomness", "wire")}
    assert listing == {"client/arcwise/client/asgi.py"} | shared


@pytest.mark.parametrize(
    ("name", "names"),
    [
        (module_name(path, REPOSITORY / "shared"), names)
        for path in sorted((REPOSITORY / "shared").rglob("*.py"))
        if (names := public_names(path)) is not None
    ],
)
def test_public_names_of_shared_exist(name: str, names: list[str]) -> None:
    assert len(names) == len(set(names))
    module = importlib.import_module(name)
    assert list(module.__all__) == names
    for public in names:
        assert hasattr(module, public), f"{name}.__all__ names {public}, which is not there"


LIGHT = """
import sys
from arcwise.domains import Circle, Interval
from arcwise.tasks import Task
from arcwise.wire import Batch, encode_batch, pack_codes
for domain in (Circle(360), Interval(0, 1)):
    task = Task.from_bytes(Task("x", domain, 1.0).to_bytes())
    codes = [task.mechanism.randomize(0.5) for _ in range(10)]
    encode_batch(Batch(bytes.fromhex(task.id), bytes(16), task.epoch(1e9), pack_codes(codes, 1)))
print(sorted({"numpy", "scipy", "httpx", "fastapi"} & set(sys.modules)))
"""


def test_one_report_needs_no_heavy_library() -> None:
    assert printed(LIGHT) == "[]"


def test_a_server_loads_no_scipy_before_an_estimate() -> None:
    """It would cost a third of a second per start and 40 MB per worker, for work of another process."""
    assert printed("import sys, arcwise.server.app; print('scipy' in sys.modules)") == "False"


ANALYSIS = """
import importlib
import pkgutil
import sys
import arcwise.analysis as package
names = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
unwanted = {"fastapi", "starlette", "uvicorn", "httpx", "click", "matplotlib"}
for name in names:
    if not name.startswith("arcwise.analysis.plotting."):  # which have an extra of their own
        importlib.import_module(name)
print(len(names), sorted(unwanted & set(sys.modules)))
"""


def test_the_analysis_needs_no_server() -> None:
    """An array of counts is enough, in a notebook or with a data lake: no FastAPI, no command line.

    `.ci/wheel.py` checks it in an environment without these packages.
    """
    files = list((REPOSITORY / "server" / "arcwise" / "analysis").rglob("*.py"))
    assert printed(ANALYSIS) == f"{len(files) - 1} []"  # all but the package itself


@pytest.mark.parametrize("root", ["client", "server"])
def test_no_statement_of_sqlite_numbers_its_placeholders(root: str) -> None:
    """Python 3.12.0 to 3.12.3 take "?1" for a name, and warn."""
    numbered = [
        f"{path}: {node.value!r}"
        for path in sorted((REPOSITORY / root).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"\?\d", node.value)
    ]
    assert not numbered
