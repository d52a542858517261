"""Oblivious HTTP between JavaScript and Python, both ways, and by the relay of examples/ to a real server."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.domains import Circle
from arcwise.oblivious.binary_http import (
    Request,
    Response,
    decode_request,
    encode_request,
    encode_response,
    padded,
)
from arcwise.oblivious.messages import GatewayKey, encapsulate, encode_key_configs, open_request
from arcwise.server.gateway_keys import GatewayKeyFile
from arcwise.tasks import Task
from tests.examples.test_javascript_ohttp import ask
from tests.examples.test_javascript_server import counts, sent
from tests.oblivious.conftest import relaying
from tests.support import server_processes
from tests.support.nodejs import drive

if TYPE_CHECKING:
    from pathlib import Path

HEADING = Task("heading", Circle(360), 2.0)
LENGTHS = [0, 1, 15, 16, 17, 62, 63, 64, 512, 16_383, 16_384, 70_000]
"""Of messages, among them those at which Binary HTTP writes a length in more bytes."""


def test_nodejs_opens_what_python_seals_and_python_the_answer() -> None:
    key = GatewayKey.generate(7)
    generator = random.Random(1)
    messages = [generator.randbytes(length) for length in LENGTHS]
    requests = [encapsulate(key.config, message) for message in messages]
    answers = ask(
        *[
            ["unseal", key.private_key.hex(), request.message.hex(), message[::-1].hex()]
            for request, message in zip(requests, messages, strict=True)
        ]
    )
    for (opened, answer), request, message in zip(answers, requests, messages, strict=True):
        assert bytes.fromhex(opened) == message
        assert request.open_answer(bytes.fromhex(answer)) == message[::-1]


def test_python_opens_what_nodejs_seals_and_nodejs_the_answer() -> None:
    """Pairs are given, so that a second process can open the answers."""
    key = GatewayKey.generate(255)
    keys = encode_key_configs([key.config]).hex()
    generator = random.Random(2)
    given = [(generator.randbytes(length), generator.randbytes(32)) for length in LENGTHS]
    sealed = ask(*[["seal", keys, message.hex(), pair.hex()] for message, pair in given])
    opened = [open_request([key], bytes.fromhex(body)) for body, _ in sealed]
    assert [each.message for each in opened] == [message for message, _ in given]
    answers = [each.seal_answer(each.message[::-1]) for each in opened]
    again = ask(
        *[
            ["seal", keys, message.hex(), pair.hex(), answer.hex()]
            for (message, pair), answer in zip(given, answers, strict=True)
        ]
    )
    assert again == [
        [body, message[::-1].hex()] for (body, _), (message, _) in zip(sealed, given, strict=True)
    ]


def test_both_write_and_read_the_same_binary_http() -> None:
    fields = [["content-type", "x" * 70], ["a", ""], ["retry-after", "5"]]
    means = {"method": "POST", "scheme": "https", "authority": "a.example:8000", "fields": fields}
    paths = ["/", f"/{'p' * 100}/reports"]
    contents = [bytes(length) for length in LENGTHS]
    lines = tuple((name.encode(), value.encode()) for name, value in fields)
    cases = [(path, content) for path in paths for content in contents]
    written = ask(*[["request", {**means, "path": path}, content.hex()] for path, content in cases])
    for text, (path, content) in zip(written, cases, strict=True):
        request = Request(b"POST", b"https", b"a.example:8000", path.encode(), lines, content)
        assert text == encode_request(request).hex()
        assert decode_request(padded(bytes.fromhex(text))) == request
    responses = [Response(status, lines[2:], content) for status in (200, 204, 599) for content in contents]
    read = ask(*[["response", padded(encode_response(response)).hex()] for response in responses])
    for told, response in zip(read, responses, strict=True):
        assert told == {
            "status": response.status,
            "fields": fields[2:],
            "content": response.content.hex(),
        }


@pytest.mark.slow
def test_reports_pass_the_relay_to_the_store_of_a_server(tmp_path: Path) -> None:
    """With a key that the gateway does not have, nothing is counted and nothing is dropped."""
    HEADING.save(tmp_path / "heading.json")
    file = GatewayKeyFile(tmp_path / "gateway.keys")
    keys = encode_key_configs([file.make().config])
    steps: list[Any] = [["reportAll", "heading", list(range(0, 360, 3))], ["flush", 30], ["counters"]]
    options = ("--open", "--gateway-keys", str(file.path))
    with server_processes.serving(tmp_path, *options) as (url, _), relaying(url) as relay:
        given: dict[str, Any] = {"relay": relay, "keys": keys.hex(), "options": {"batchSize": 50}}
        result = drive("https://reports.example", [HEADING], *steps, **given)
        assert result["results"] == [120, True, {"sent": 120, "dropped": {}, "refused": {}, "pending": 0}]
        assert result["troubles"] == []
        assert len(result["sent"][HEADING.id]) == 3
        steps[1] = ["flush", 0.5]
        given["keys"] = encode_key_configs([GatewayKey.generate(9).config]).hex()
        lost = drive("https://reports.example", [HEADING], *steps, **given)
        assert lost["results"][1:] == [False, {"sent": 0, "dropped": {}, "refused": {}, "pending": 120}]
        assert set(lost["troubles"]) == {"status 400 of the relay: retry"}
    counted = counts(tmp_path, HEADING)
    assert counted.tolist() == sent(result, HEADING).tolist()
    assert counted.sum() == 120
