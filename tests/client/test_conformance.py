"""The conformance kit: it passes the Python client, fails wrong clients, and explains what is wrong."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from arcwise.client.conformance import OPTIONAL, Report, all_cases, check
from arcwise.client.conformance.__main__ import main
from arcwise.client.conformance.deliveries import Delivery, Request, deliveries
from arcwise.errors import ParameterError
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE, Batch, encode_batch
from tests.vectors.make import FOLDER


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))


REFERENCE = [sys.executable, "-m", "arcwise.client.conformance.reference"]
QUIET = {case.kind for case in all_cases()} - {"deliver"}

# The first answer of each kind is wrong: a number is one too large, or a refused value is accepted.
WRONG_ONCE = """
import json, sys
from arcwise.client.conformance.reference import answer
def spoiled(value):
    if isinstance(value, dict):
        return {name: spoiled(part) for name, part in value.items()}
    return [] if isinstance(value, list) else "no" if isinstance(value, str) else value + 1
seen = set()
for line in sys.stdin:
    request = json.loads(line)
    told = answer(request)
    if request["kind"] not in seen:
        told = {"result": spoiled(told["result"])}
        seen.add(request["kind"])
    print(json.dumps(told), flush=True)
"""


def run(script: str, **options: Any) -> Report:
    return check([sys.executable, "-c", script], **options)


def test_the_client_in_python_passes_all_but_what_is_spoiled() -> None:
    """Every kind can pass and fail: all answers are correct, except one of each kind."""
    report = run(WRONG_ONCE, kinds=QUIET)
    assert {tally.kind for tally in report.tallies} == QUIET
    assert [(tally.kind, len(tally.failures)) for tally in report.tallies if len(tally.failures) != 1] == []
    assert not report.passed


@pytest.mark.slow
def test_the_client_in_python_delivers() -> None:
    report = check(REFERENCE, kinds={"deliver"})
    assert [failure for tally in report.tallies for failure in tally.failures] == []
    assert sum(tally.skipped for tally in report.tallies) == 0
    assert report.passed


def test_every_file_of_vectors_is_asked() -> None:
    """The kit asks as many cases as the files of vectors hold, counted by kind."""
    asked: dict[str, int] = {}
    for case in all_cases():
        asked[case.kind] = asked.get(case.kind, 0) + 1
    answers = read("answers")
    assert asked.pop("deliver") == len(
        list(deliveries({label: e["bytes"] for label, e in read("tasks").items()}))
    )
    assert asked == {
        "task": 2 * len(read("tasks")) + len(read("refused")),
        "group": 2 * len(read("groups")),
        "row": sum(len(entry["rows"]) for entry in read("rows").values()),
        "rows": len(read("rows")),
        "draw": sum(map(len, [*read("draws").values(), *read("values").values()])),
        "epsilon": len(read("epsilons")),
        "ledger": len(read("ledger")),
        "epoch": len(read("epochs")),
        "batch": len(read("batches")) + len(read("long_batches")),
        "answer": len(answers["statuses"]),
        "retry-after": len(answers["retry_after"]),
        "wait": len(answers["backoff"]),
        "schedule": len(read("schedules")),
    }
    assert len({case.name for case in all_cases()}) > 2500
    assert all(case.request["kind"] == case.kind for case in all_cases())


def test_the_page_has_every_kind_and_the_number_of_cases() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "conformance.md").read_text(encoding="utf-8")
    cases = list(all_cases())
    assert re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE) == list(dict.fromkeys(c.kind for c in cases))
    assert f"{len(cases):,} questions" in text
    (example,) = re.findall(r'^> (\{"kind": "draw".*\})$', text, re.MULTILINE)
    asked = json.loads(example)
    (case,) = (
        case for case in cases if case.name == f"wrap, value {asked['value']}, r {asked['r']}, u {asked['u']}"
    )
    assert f"\n< {json.dumps({'result': case.expected})}\n" in text


DISHONEST = """
import itertools, sys
from arcwise.client import MemoryLedger, Client
from arcwise.client.uplink import BaseUplink
from arcwise.client.conformance import reference
from arcwise.client.environment import Environment
kept, honest = [], reference._deliver
def deliver(request):
    kept[:] = request["values"]
    return honest(request)
reference._KINDS["deliver"] = deliver
def header(name):
    headers = BaseUplink._headers
    BaseUplink._headers = lambda self: {**headers(self), name: f"client/1 ({kept[0]})"}
if sys.argv[1] == "a value in a header of its own":
    from arcwise.client import transport
    transport.HEADERS += ("X-Value",)
    transport._ON_THE_WIRE |= {b"x-value"}
    header("X-Value")
elif sys.argv[1] == "a value in the user agent":
    header("User-Agent")
elif sys.argv[1] == "a batch id that names the device":
    Environment.random_bytes = lambda self, count: b"device 42 has it"[:count]
elif sys.argv[1] == "a batch id that begins with the device":
    numbers = itertools.count()
    Environment.random_bytes = lambda self, count: b"device42" + next(numbers).to_bytes(8, "big")
elif sys.argv[1] == "a refund of what is dropped":
    def deliver(request):
        one = honest({**request, "later": []})
        if not request["later"]:
            return one
        two = honest({**request, "values": request["later"], "later": []})
        return {name: one[name] + two[name] for name in one}
    reference._KINDS["deliver"] = deliver
reference.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lie", "fault"),
    [
        ("a value in a header of its own", "there is a header x-value"),
        ("a value in the user agent", "the header user-agent is not the same in all requests"),
        ("a batch id that names the device", "the batch id shares bytes with that of another batch"),
        ("a batch id that begins with the device", "the batch id shares bytes with that of another batch"),
        ("a refund of what is dropped", "the batch has 3 codes, expected 1"),
    ],
)
def test_a_client_that_tells_or_refunds_does_not_conform(lie: str, fault: str) -> None:
    report = check([sys.executable, "-c", DISHONEST, lie], kinds={"deliver"})
    (tally,) = report.tallies
    assert any(fault in failure.got for failure in tally.failures)
    assert not report.passed


def test_skipping_is_reported_and_only_some_kinds_may_be_skipped() -> None:
    assert sorted(OPTIONAL) == ["deliver", "group"]
    skips = 'import sys\nfor line in sys.stdin: print(\'{"skip": "not yet"}\', flush=True)'
    report = run(skips, kinds={"group", "wait"})
    group, wait = report.tallies
    assert (group.skipped, group.why_skipped, group.holds) == (4, "not yet", True)
    assert (wait.skipped, wait.holds) == (8, False)
    assert not report.passed


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("nonsense", "not JSON: 'nonsense'"),
        ('{"refused": "all"}', '{"refused": "all"}'),
        ('{"result": {"seconds": true}}', '{"result": {"seconds": true}}'),
        ('{"result": {}}', '{"result": {}}'),
        ("[]", "[]"),
    ],
)
def test_an_answer_of_another_form_fails(line: str, got: str) -> None:
    (tally,) = run(f"import sys\nfor _ in sys.stdin: print({line!r}, flush=True)", kinds={"wait"}).tallies
    assert {failure.got for failure in tally.failures} == {got}
    assert tally.passed == 0


def test_an_executable_that_ends_is_started_again_three_times() -> None:
    (tally,) = run("input()", kinds={"wait"}).tallies
    assert [failure.got for failure in tally.failures] == ["no answer: the executable ended"] * 3 + [
        "not asked: the executable has ended too often"
    ] * 5
    # A client that ends at every second case fails these cases only.
    (tally,) = run("input()\nprint('{}', flush=True)\ninput()", kinds={"wait"}).tallies
    assert [failure.got for failure in tally.failures] == ["{}", "no answer: the executable ended"] * 4


def test_an_executable_that_hangs_is_ended() -> None:
    (tally,) = run("import time; time.sleep(600)", kinds={"wait"}, timeout=0.05).tallies
    assert tally.failures[0].got == "no answer within 0.05 seconds"


def test_what_cannot_be_asked_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ParameterError, match="cannot be started: No such file"):
        check([str(tmp_path / "missing")])
    with pytest.raises(ParameterError, match=r"there is no kind 'drawn'; the kinds are task, "):
        check(REFERENCE, kinds={"drawn"})
    assert main(["--kind", "drawn", *REFERENCE]) == 2
    assert capsys.readouterr().err.startswith("Error: there is no kind 'drawn'")


def test_the_command_says_which_case_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kind", "wait", sys.executable, "-c", WRONG_ONCE]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "wait         7 of 8 passed, 1 FAILED",
        "  1 failures, U 0.0",
        '    sent      {"kind": "wait", "case": "1 failures, U 0.0", "failures": 1, "uniform": 0.0}',
        '    expected  {"result": {"seconds": 0.0}}',
        '    got       {"result": {"seconds": 1.0}}',
        "7 passed, 1 failed, 0 skipped: the client does not conform",
    ]


TASK = Task.from_bytes(bytes.fromhex(read("tasks")["wrap"]["bytes"]))


def delivery(name: str = "a batch") -> Delivery:
    tasks = {label: entry["bytes"] for label, entry in read("tasks").items()}
    return next(each for each in deliveries(tasks) if each.name == name)


def request(codes: list[int], **changed: Any) -> Request:
    body = encode_batch(Batch(bytes.fromhex(TASK.id), bytes(16), TASK.epoch(time.time()), bytes(codes)))
    headers = {"content-type": MEDIA_TYPE}
    return Request("POST", f"/v1/tasks/{TASK.id}/reports", headers, body)._replace(**changed)


def test_what_a_server_sees_of_a_client_is_checked() -> None:
    began = time.time()
    good = request([1, 2, 127])
    one, again, key = delivery(), delivery("503, then 204"), delivery("with a key")
    assert one.faults([good], began) == []
    assert again.faults([good, good], began) == []
    other = bytes([*good.body[:-1], 126])
    cookie = {**good.headers, "cookie": "id=1"}
    for seen, fault in (
        ([], "0 requests, expected 1"),
        ([good, good], "2 requests, expected 1"),
        ([request([2, 1, 3])], "the codes are not sorted"),
        ([request([1, 2])], "the batch has 2 codes, expected 3"),
        ([request([1, 2, 128])], "a code is not below 128"),
        ([good._replace(path="/")], f"POST /, expected POST /v1/tasks/{TASK.id}/reports"),
        ([good._replace(headers={})], f"Content-Type is None, expected {MEDIA_TYPE!r}"),
        ([good._replace(headers=cookie)], "there is a header cookie"),
        ([good._replace(headers={**good.headers, "x-device": "42"})], "there is a header x-device"),
        *(
            ([good._replace(headers={**good.headers, name: "device-42"})], f"{name} is 'device-42'")
            for name in ("host", "connection", "keep-alive", "upgrade", "te")
        ),
        ([good._replace(headers={**good.headers, "connection": "close, te"})], "connection is 'close, te'"),
        ([good._replace(body=b"x")], "the body is not a batch: "),
    ):
        assert any(found.startswith(fault) for found in one.faults(seen, began)), fault
    assert again.faults([good, good._replace(body=other)], began) == [
        "a batch that was sent again has other bytes"
    ]
    assert key.faults([good], began)[0].startswith("Authorization is None, expected 'Bearer arcwise_ingest_")
    assert delivery("503, Retry-After").faults([good, good], began) == ["2 requests, expected 1"]
