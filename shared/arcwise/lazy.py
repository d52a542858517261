"""Packages that import their public names on first use (PEP 562), so that devices load little."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_names(package: str, places: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package that imports its public names on first use.

    `places` maps modules, named relative to the package, to their public names.
    """
    where = {name: module for module, names in places.items() for name in names}

    def load(name: str) -> Any:
        if name not in where:
            from difflib import get_close_matches

            near = get_close_matches(name, where, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}{hint}", name=name, obj=package
            )
        value = getattr(import_module(f".{where[name]}", package), name)
        setattr(sys.modules[package], name, value)  # skips this function next time
        return value

    return load
