"""Parts of the OpenAPI document that FastAPI cannot generate: the binary route, the keys and the problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arcwise.server.collect.ingest import GATEWAY_PATH, INGEST_PATH
from arcwise.wire import MAX_BODY_BYTES, MEDIA_TYPE

if TYPE_CHECKING:
    from fastapi import FastAPI

PROBLEM = {
    "type": "object",
    "description": "A problem document (RFC 9457). It never repeats what was sent.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {
            "type": "string",
            "pattern": "^(urn:arcwise:problem:[a-z0-9-]+|https://iana.org/assignments/http-problem-types#ohttp-key)$",
        },
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
    },
}

_PROBLEMS = {
    "description": "A problem document; docs/reference/protocol.md lists them",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}

_TASK_ID = {
    "name": "task_id",
    "in": "path",
    "required": True,
    "description": "The task's id: SHA-256 of its canonical bytes, in hex.",
    "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
}

_INGEST: dict[str, Any] = {
    "post": {
        "tags": ["reports"],
        "summary": "Take a batch of reports",
        "description": (
            "204 after a durable commit, also if the batch was counted before. The body is one msgpack "
            "array: `[1, task_id (bin, 32 bytes), batch_id (bin, 16 random bytes), epoch (uint below "
            "2**32), codes (bin)]`. Codes are little-endian unsigned integers below K, the number of codes "
            "of the task's kernel: one byte each if K <= 256, else two. See docs/reference/protocol.md."
        ),
        "operationId": "take_reports",
        "security": [{"ingest": []}, {}],
        "parameters": [_TASK_ID],
        "requestBody": {
            "required": True,
            "content": {
                MEDIA_TYPE: {"schema": {"type": "string", "format": "binary", "maxLength": MAX_BODY_BYTES}}
            },
        },
        "responses": {"204": {"description": "Counted, now or earlier"}, "default": _PROBLEMS},
    }
}

_GATEWAY: dict[str, Any] = {
    "tags": ["reports"],
    "summary": "Take a request from a relay",
    "description": (
        "Oblivious HTTP (RFC 9458): 200 with an encrypted answer, which contains the answer of "
        f"`POST {INGEST_PATH}`; a problem document if the request cannot be opened, and 404 if the server "
        "is not a gateway. See docs/reference/protocol.md."
    ),
    "operationId": "take_oblivious_request",
    "security": [{}],
    "requestBody": {
        "required": True,
        "content": {"message/ohttp-req": {"schema": {"type": "string", "format": "binary"}}},
    },
    "responses": {
        "200": {
            "description": "The encrypted answer",
            "content": {"message/ohttp-res": {"schema": {"type": "string", "format": "binary"}}},
        },
        "default": _PROBLEMS,
    },
}

_SCHEMES = {
    "ingest": "Sends reports",
    "read": "Reads tasks and estimates",
    "metrics": "Reads the metrics",
    "admin": "Makes, closes and opens tasks, and reads tasks, estimates and metrics",
}


_READING: list[dict[str, list[str]]] = [{"read": []}, {"admin": []}, {}]


def describe(app: FastAPI) -> None:
    """Complete the OpenAPI document, which FastAPI generates for its own routes only."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        if INGEST_PATH in document["paths"]:  # FastAPI caches the document
            return document
        document["paths"][INGEST_PATH] = _INGEST
        gateway = document["paths"][GATEWAY_PATH]
        gateway["post"] = _GATEWAY
        gateway["get"]["security"] = [{}]
        components = document.setdefault("components", {})
        components.setdefault("schemas", {})["Problem"] = PROBLEM
        components["securitySchemes"] = {
            scope: {
                "type": "http",
                "scheme": "bearer",
                "description": f"{what}: `arcwise key new --scope {scope}`",
            }
            for scope, what in _SCHEMES.items()
        }
        for path, operations in document["paths"].items():
            for operation in operations.values():
                _complete(path, operation)
        # Answers to invalid requests are problem documents too.
        for name in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(name, None)
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(path: str, operation: dict[str, Any]) -> None:
    operation["responses"].pop("422", None)
    operation["responses"]["default"] = _PROBLEMS
    if "health" not in path and "security" not in operation:
        if "tasks:admin" in operation.get("tags", ()):
            operation["security"] = [{"admin": []}]
        else:
            operation["security"] = [{"metrics": []}, {"admin": []}, {}] if path == "/metrics" else _READING
