"""The public names and their parameters, in `public_surface.txt`, so that reviews show every change.

``python -m tests.test_public_surface`` writes the file again.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from enum import Enum
from pathlib import Path
from typing import Any

FACADES = (
    "arcwise.analysis",
    "arcwise.client",
    "arcwise.client.asgi",
    "arcwise.domains",
    "arcwise.errors",
    "arcwise.mechanisms",
    "arcwise.noise",
    "arcwise.server",
    "arcwise.server.store",
    "arcwise.tasks",
    "arcwise.wire",
)
FILE = Path(__file__).with_suffix("").with_name("public_surface.txt")


def parameters(function: Any) -> str:
    """Return the parameters of a function with their defaults, without annotations."""
    signature = inspect.signature(function)
    shown = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    if shown and shown[0].name in {"self", "cls"}:
        shown = shown[1:]
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.Signature(shown)))


def members(cls: type, listed: set[type]) -> dict[str, Any]:
    """Return the public attributes and methods of a class, except those of a base that is listed itself."""
    found = {}
    for name in sorted(dir(cls)):
        owner = next((base for base in cls.__mro__ if name in vars(base)), None)
        if (
            name.startswith("_")
            or owner is None
            or not arcwise(owner)
            or (owner in listed and owner is not cls)
        ):
            continue
        value = vars(owner)[name]
        found[name] = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
    return found


def home(cls: type, facade: str) -> str:
    """Return the facade of the package that defines a class, or this one if none does."""
    module = cls.__module__
    return max((each for each in FACADES if f"{module}.".startswith(f"{each}.")), key=len, default=facade)


def surface() -> str:
    lines: list[str] = []
    for facade in FACADES:
        module = importlib.import_module(facade)
        lines.append(facade)
        public = {name: getattr(module, name) for name in sorted(module.__all__)}
        listed = {value for value in public.values() if inspect.isclass(value)}
        for name, value in public.items():
            if inspect.isclass(value) and home(value, facade) != facade:
                lines.append(f"  {name}, see {home(value, facade)}")
            elif inspect.isclass(value):
                lines.append(f"  {name}{constructor(value)}")
                for each, member in members(value, listed).items():
                    lines.append(f"    .{each}{parameters(member) if inspect.isfunction(member) else ''}")
            else:
                lines.append(f"  {name}{parameters(value) if callable(value) else ''}")
    return "\n".join(lines) + "\n"


def constructor(cls: type) -> str:
    """Return the parameters of a class, "" for one that only inherits them, for errors and for enumerations.

    Those of an enumeration are not the same on every Python.
    """
    own = any("__init__" in vars(base) or "__new__" in vars(base) for base in cls.__mro__ if arcwise(base))
    return parameters(cls) if own and not issubclass(cls, (BaseException, Enum)) else ""


def arcwise(cls: type) -> bool:
    return cls.__module__.startswith("arcwise")


def test_the_public_surface_is_the_one_that_was_reviewed() -> None:
    assert surface() == FILE.read_text(encoding="utf-8"), (
        "public names or parameters changed: if that is meant, run python -m tests.test_public_surface"
    )


if __name__ == "__main__":
    sys.stdout.write(f"wrote {FILE}\n" if FILE.write_text(surface(), encoding="utf-8") else "")
