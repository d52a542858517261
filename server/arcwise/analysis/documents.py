"""The JSON objects of results: common first keys of estimates and series, and errors of reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from arcwise.digits import rounded_up
from arcwise.errors import ParameterError
from arcwise.tasks.fields import domain_from_fields, domain_from_json, domain_to_fields, domain_to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from arcwise.domains import Domain

    Read = TypeVar("Read")

_OPTIONAL = ("unit", "description")


def head_to_dict(result: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the first keys of an estimate's or a series' JSON object: its task and its domain."""
    head = {name: getattr(result, name) for name in names}
    if result.delta:
        head["delta"] = result.delta
    optional = {name: getattr(result, name) for name in _OPTIONAL}
    head |= {name: text for name, text in optional.items() if text is not None}
    return head | {"domain": domain_to_json(domain_to_fields(result.domain))}


def head_from_dict(document: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the attributes that `head_to_dict` wrote, by name."""
    return {
        **{name: document[name] for name in names},
        "delta": float(document.get("delta", 0.0)),
        **{name: document.get(name) for name in _OPTIONAL},
        "domain": domain_from_fields(domain_from_json(document["domain"])),
    }


def checked_document(kind: str, read: Callable[[], Read]) -> Read:
    """Return the result of `read` for a document; raise `ParameterError` if the document is malformed."""
    try:
        return read()
    except KeyError as error:
        raise ParameterError(
            f"document must be the JSON object of {kind}: it lacks the key {error}"
        ) from None
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ParameterError(f"document must be the JSON object of {kind}: {error}") from None


def words_of_domain(domain: Domain, unit: str | None) -> str:
    """Return a domain and the unit of its values in words."""
    return str(domain) if unit is None else f"{domain} {unit}"


def words_of_loss(epsilon: float, delta: float) -> str:
    """Return the privacy loss of a report in words, with its delta if it has one."""
    return f"epsilon {rounded_up(epsilon)}" + (f", delta {rounded_up(delta, 3)}" if delta else "")
