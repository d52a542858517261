"""The tables of the reference that are written from the source, by ``python -m docs._site.tables``.

A table is between ``<!-- table: name -->`` and ``<!-- end -->`` in a page, where a forge shows it too.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import arcwise.errors
from arcwise.client.outcomes import _MESSAGES, _REPEATED
from arcwise.mechanisms.registry import MECHANISMS
from arcwise.server import create_app
from arcwise.server.settings import ProcessSettings, Settings, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["TABLES", "problems", "routes", "write"]

_ROOT = Path(__file__).parents[2]
_DOCS = _ROOT / "docs"
_SLOT = re.compile(r"(<!-- table: ([a-z-]+) -->\n\n)(.*?)(\n<!-- end -->)", re.DOTALL)
_SERVER = _ROOT / "server" / "arcwise" / "server"
_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def write(text: str) -> str:
    """Return the text of a page with all of its tables as the source has them now."""
    return _SLOT.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}{match[4]}", text)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (tuple(heads), *rows)]
    lines.insert(1, "|" + "---|" * len(tuple(heads)))
    return re.sub(r"\|  (?=\|)", "| ", "\n".join(lines)) + "\n"


def _settings(*, of_app: bool) -> str:
    rows = []
    for name, setting in settings_of(ProcessSettings).items():
        if (name in settings_of(Settings)) == of_app:
            default = f"`{setting.default}`" if setting.default else ""
            rows.append((f"`{name}`", default, setting.help))
    return _table(("setting", "default", "meaning"), rows)


def routes() -> dict[tuple[str, str], tuple[str, str]]:
    """Return summary and scopes of every route by method and path; of those for browsers "" and "page"."""
    with tempfile.TemporaryDirectory() as folder:
        app: Any = create_app(store=f"sqlite:///{folder}/arcwise.db")
        found = {}
        for path, methods in app.openapi()["paths"].items():
            for method, each in methods.items():
                scopes = [f"`{scope}`" for one in each.get("security", ()) for scope in one]
                found[method.upper(), path] = each["summary"], " or ".join(scopes)
        for route in _flat(app.routes):
            for method in sorted(set(route.methods) - {"HEAD"}):
                if not any(key == method and _same(path, route.path) for key, path in found):
                    found[method, route.path] = "", "page"
    return found


def _flat(routes: Iterable[Any]) -> Iterator[Any]:
    """Yield the routes, and those of the routers among them."""
    for route in routes:
        inner = getattr(route, "routes", None) or getattr(
            getattr(route, "original_router", None), "routes", ()
        )
        if inner:
            yield from _flat(inner)
        elif getattr(route, "methods", None):
            yield route


def _same(path: str, other: str) -> bool:
    return re.sub(r":\w+\}", "}", path) == re.sub(r":\w+\}", "}", other)


def _routes() -> str:
    rows = [
        (method, f"`{path}`", said, scopes)
        for (method, path), (said, scopes) in sorted(routes().items(), key=lambda item: item[0][::-1])
        if scopes != "page"
    ]
    return _table(("method", "path", "what it does", "key"), rows)


def problems() -> dict[str, tuple[int, str]]:
    """Return status and words of every kind of problem that the server names, from its source."""
    found = dict[str, tuple[int, str]]()
    for call in _calls(_SERVER, lambda function: isinstance(function, ast.Name)):
        assert isinstance(call.func, ast.Name)  # noqa: S101 (narrows the type for the checker)
        arguments = call.args
        if call.func.id == "_unauthorized":
            arguments = [ast.Constant(401), *arguments]
        elif call.func.id != "Problem":
            continue
        status, kind, detail = arguments[:3]
        if isinstance(status, ast.Constant) and isinstance(kind, ast.Constant):
            found.setdefault(str(kind.value), (int(str(status.value)), _words(detail)))
    for path in _SERVER.rglob("*.py"):  # documents that are written as bytes, without the class
        for kind, status in re.findall(
            r'urn:arcwise:problem:([a-z-]+)",.*?"status": (\d+)', path.read_text("utf-8")
        ):
            found.setdefault(kind, (int(status), ""))
    return {kind: (status, _SAID.get(kind, said)) for kind, (status, said) in found.items()}


_SAID = {
    "invalid-task": "The body is not the file of a valid task; `arcwise task verify FILE` says why.",
    "invalid-request": "A parameter is unknown, out of its bounds or given twice: the words name it.",
    "key-missing": "This takes a key of this scope; `arcwise key new` makes one.",
    "key-scope": "The key that was sent has another scope, or is for other tasks.",
    "media-type": "The Content-Type of the body must be that of the route.",
    "not-ready": "The store cannot be read or written, its queue is full, or the server is stopping.",
    "store-busy": "The store cannot be used at the moment; send the same bytes again later.",
    "too-large": "A body may have at most … bytes; send smaller batches.",
    "too-many-connections": "The server has reached its limit of connections; try again later.",
    "too-many-points": "A series has more points than one request may have: request longer or fewer points.",
    "unknown-task": "The server does not have this task; GET /v1/tasks lists its tasks.",
}
"""Words of those that say different things in different places."""


def _problems() -> str:
    rows = [
        (f"`{kind}`", str(status), said)
        for kind, (status, said) in sorted(problems().items(), key=lambda item: (item[1][0], item[0]))
    ]
    return _table(("kind", "status", "what it says"), rows)


def _log_lines() -> str:
    def logs(function: ast.expr) -> bool:
        return (
            isinstance(function, ast.Attribute)
            and function.attr in _LEVELS
            and ast.unparse(function.value) in {"_log", "self.logger"}
        )

    rows = set[tuple[str, str]]()
    for call in _calls(_SERVER, logs):
        assert isinstance(call.func, ast.Attribute)  # noqa: S101 (narrows the type for the checker)
        level = {"exception": "error"}.get(call.func.attr, call.func.attr)
        rows.add((level, re.sub(r"%[-,.\d]*[a-z]", "…", _words(call.args[0]))))
    order = ["info", "warning", "error"]
    ordered = sorted(rows, key=lambda row: (order.index(row[0]), row))
    return _table(("level", "line"), ordered)


def _calls(folder: Path, wanted: Callable[[ast.expr], bool]) -> Iterator[ast.Call]:
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and wanted(node.func):
                yield node


def _words(node: ast.expr) -> str:
    """Return a text of the source, with "…" for what is only known when it is said."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_words(part) for part in node.values)
    if isinstance(node, ast.Constant):
        return str(node.value).replace("|", "\\|")
    return "…" if isinstance(node, ast.FormattedValue) else ""


def _events() -> str:
    rows = []
    for kind, message in _MESSAGES.items():
        level = "debug" if kind == "sent" else "warning"
        again = ", then debug" if kind in _REPEATED else ""
        rows.append((f"`{kind}`", level + again, re.sub(r"\{\w+\}", "…", message)))
    return _table(("kind", "level in the log", "line"), rows)


def _errors() -> str:
    rows = []
    for name in sorted(arcwise.errors.__all__, key=lambda name: (name != "ArcwiseError", name)):
        error = getattr(arcwise.errors, name)
        bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
        rows.append((f"`{name}`", bases, _first_sentences(error)))
    return _table(("error", "is a", "when it is raised"), rows)


def _mechanisms() -> str:
    rows = []
    for (name, version), cls in MECHANISMS.items():
        domain = cls.domain_type.__name__.lower()
        privacy = "(ε, δ)" if cls.approximate else "ε"
        rows.append((f"`{name}`", str(version), f"`{cls.__name__}`", domain, privacy, _first_sentences(cls)))
    return _table(("name in a task", "version", "class", "domain", "privacy", "what it is"), rows)


def _first_sentences(cls: type) -> str:
    return (
        (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ").replace("``", "`").replace("|", "\\|")
    )


TABLES: dict[str, Callable[[], str]] = {
    "settings": partial(_settings, of_app=True),
    "process-settings": partial(_settings, of_app=False),
    "routes": _routes,
    "problems": _problems,
    "log-lines": _log_lines,
    "events": _events,
    "errors": _errors,
    "mechanisms": _mechanisms,
}
"""The function that writes each table, by its name in a page."""


def main() -> None:
    """Rewrite all tables."""
    for path in sorted(_DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if write(text) != text:
            path.write_text(write(text), encoding="utf-8")
            sys.stdout.write(f"wrote {path}\n")


if __name__ == "__main__":
    main()
