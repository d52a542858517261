"""The JavaScript client by way of a relay: what the relay sees, what the gateway reads, what answers do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arcwise.domains import Circle
from arcwise.oblivious.binary_http import Request, decode_request
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE, decode_batch
from tests.examples.test_javascript_ohttp import OHTTP, SUITE, ask, config
from tests.support.nodejs import JAVASCRIPT, run_json

DRIVE = Path(__file__).with_name("drive_oblivious.mjs")
TASK = Task("heading", Circle(360), 1.0)
SECRET = OHTTP["skR"]


@pytest.fixture(scope="module")
def keys() -> str:
    (public_key,) = ask(["open", SECRET])
    return config(public_key, SUITE)


def drive(keys: str, *steps: Any, **given: Any) -> dict[str, Any]:
    given = {"task": TASK.to_json(), "keys": keys, "secret": SECRET, "steps": steps, **given}
    result: dict[str, Any] = run_json(DRIVE, given=given)
    return result


def read(request: dict[str, Any]) -> Request:
    """Return what the gateway read."""
    return decode_request(bytes.fromhex(request["message"]))


def test_the_relay_sees_a_padded_request_and_the_gateway_a_batch(keys: str) -> None:
    reports = [["report", 350.5]] * 300
    options = {"key": "arcwise_ingest_0123456789ab_SECRET", "batchSize": 300}
    for given, added in (({}, {}), (options, {b"authorization": f"Bearer {options['key']}".encode()})):
        result = drive(keys, *(reports if given else reports[:1]), ["flush", 10], ["counters"], options=given)
        count = 300 if given else 1
        assert result["results"][-1] == {"sent": count, "pending": 0, "dropped": {}, "refused": {}}
        assert result["events"] == [["sent", "status 204"]]
        (request,) = result["requests"]
        assert request["url"] == "https://relay.example/arcwise?to=us"
        assert request["headers"] == {"Content-Type": "message/ohttp-req", "User-Agent": "arcwise-js/0.1.0"}
        assert (request["method"], request["credentials"]) == ("POST", "omit")
        length = 1024 if given else 512
        assert (len(request["message"]), len(request["body"])) == (2 * length, 2 * (length + 55))
        inside = read(request)
        path = f"/survey/v1/tasks/{TASK.id}/reports".encode()
        assert inside[:4] == (b"POST", b"https", b"reports.example", path)
        assert dict(inside.fields) == {b"content-type": MEDIA_TYPE.encode(), **added}
        batch = decode_batch(inside.content)
        assert (batch.task_id.hex(), len(batch.codes)) == (TASK.id, count)


def test_retries_seal_the_same_batch_anew(keys: str) -> None:
    """What the relay itself answers is trouble with the network, as is whatever the gateway did not seal."""
    answers = [
        None,
        {"relay": 404},
        {"relay": 302},
        {"garbage": ""},
        {"garbage": "00" * 70},
        {"garbage": "00" * 65_537},
        {"status": 503},
        {"status": 101},
        {"status": 204, "padding": 60, "early": True},
    ]
    result = drive(keys, ["report", 1], ["attempts", len(answers)], ["counters"], answers=answers)
    assert result["results"][-1] == {"sent": 1, "pending": 0, "dropped": {}, "refused": {}}
    not_the_gateways = ["retry", "an answer of the relay that is not the gateway's"]
    assert result["events"] == [
        ["retry", "no answer"],
        ["retry", "status 404 of the relay"],
        ["retry", "status 302 of the relay"],
        *[not_the_gateways] * 3,
        ["retry", "status 503"],
        not_the_gateways,
        ["sent", "status 204"],
    ]
    requests = result["requests"]
    assert len({request["message"] for request in requests}) == 1
    for part in (slice(14, 78), slice(78, 110)):
        assert len({request["body"][part] for request in requests}) == len(requests)


def test_an_answer_to_another_request_acknowledges_nothing(keys: str) -> None:
    steps = [["report", 1], ["attempts", 1], ["report", 1], ["attempts", 3], ["counters"]]
    counters = drive(keys, *steps, answers=[{"status": 204}, *[{"repeat": 0}] * 9])["results"][-1]
    assert (counters["sent"], counters["pending"]) == (1, 1)


@pytest.mark.parametrize(
    ("answer", "kept"), [({"status": 204}, 0), ({"status": 503}, 1), ({"relay": 429}, 1)], ids=str
)
def test_retry_after_is_obeyed_inside_and_from_the_relay(
    keys: str, answer: dict[str, Any], kept: int
) -> None:
    steps = [["report", 1], ["attempts", 1], ["report", 1], ["flush", 0.1], ["counters"]]
    result = drive(keys, *steps, answers=[{**answer, "retryAfter": "600"}])
    assert len(result["requests"]) == 1
    assert result["results"][-1]["pending"] == 1 + kept


def test_what_the_server_refuses_is_dropped(keys: str) -> None:
    result = drive(keys, ["report", 1], ["flush", 5], ["counters"], answers=[{"status": 410}])
    assert result["results"][-1]["dropped"] == {"410": 1}


def test_a_page_that_is_hidden_sends_what_was_sealed_before(keys: str) -> None:
    """Before any promise: each report has the batch sealed again, and nothing of it is used twice."""
    steps = [["report", 1], ["sealed", 1], ["report", 2], ["sealed", 2], ["hide"], ["flush", 5], ["counters"]]
    result = drive(keys, *steps, page=True, options={"interval": 600})
    *_, hidden, _, counters = result["results"]
    assert hidden == 1
    assert counters["sent"] == 2
    (request,) = result["requests"]
    assert request["keepalive"] is True
    assert len(decode_batch(read(request).content).codes) == 2


def test_a_page_that_is_hidden_and_lives_on_sends_what_was_not_sealed(keys: str) -> None:
    steps = [["report", 1], ["hide"], ["flush", 5], ["counters"]]
    result = drive(keys, *steps, page=True, options={"interval": 600})
    _, hidden, _, counters = result["results"]
    assert (hidden, counters["sent"]) == (0, 1)


def test_what_is_sealed_for_a_page_that_is_left_is_used_once(keys: str) -> None:
    """The answer is lost: the next attempt has another sealed request."""
    steps = [["report", 1], ["sealed", 1], ["hide"], ["attempts", 2], ["counters"]]
    result = drive(keys, *steps, page=True, answers=[None])
    assert result["results"][-1]["sent"] == 1
    one, other = result["requests"]
    assert one["message"] == other["message"]
    assert one["body"][14:78] != other["body"][14:78]


TRY = """
import {{ ObliviousTransport }} from "{module}";
const KEYS = new Uint8Array(Buffer.from("{keys}", "hex"));
const request = {{ url: "https://reports.example/v1", headers: {{}}, body: new Uint8Array(1) }};
const results = [];
for (const attempt of [{attempts}]) {{
  results.push(await Promise.resolve().then(attempt).catch(String));
}}
console.log(JSON.stringify(results));
"""


def attempt(tmp_path: Path, keys: str, *attempts: str) -> list[Any]:
    """Return what each expression gives, or its error."""
    script = tmp_path / "try.mjs"
    module = (JAVASCRIPT / "arcwise" / "oblivious.js").as_uri()
    functions = ", ".join(f"async () => {each}" for each in attempts)
    script.write_text(TRY.format(module=module, keys=keys, attempts=functions), encoding="utf-8")
    results: list[Any] = run_json(script)
    return results


def test_what_makes_no_transport_is_refused(keys: str, tmp_path: Path) -> None:
    relays = ["ftp://relay.example", "relay.example", "https://me@relay.example", "https://relay.example#top"]
    configs = ["KEYS.slice(1)", "new Uint8Array()", "new Uint8Array(43)"]
    results = attempt(
        tmp_path,
        keys,
        *[f"new ObliviousTransport('{relay}', KEYS)" for relay in relays],
        "new ObliviousTransport('https://relay.example', 'text')",
        *[f"new ObliviousTransport('https://relay.example', {each})" for each in configs],
    )
    *others, one, two, three = results
    assert others == [
        *["ParameterError: relay must be a URL of http or https without user and fragment"] * len(relays),
        "ParameterError: keyConfig must be a Uint8Array: the bytes of application/ohttp-keys",
    ]
    for result in (one, two, three):
        assert result.startswith("ParameterError: keyConfig must be the bytes of application/ohttp-keys: ")


def test_the_weight_is_that_of_what_goes_out(keys: str, tmp_path: Path) -> None:
    """A browser bounds by it what a page may leave behind."""
    transport = "new ObliviousTransport('https://relay.example', KEYS)"
    weigh = transport + ".weigh({{ ...request, body: new Uint8Array({}) }})"
    lengths = [0, 400, 512, 32_000, 32_768]
    weights = [each + 55 for each in (512, 512, 1024, 32_768, 65_536)]
    assert attempt(tmp_path, keys, *[weigh.format(length) for length in lengths]) == weights


def test_without_x25519_nothing_is_sent_and_the_trouble_has_a_name(keys: str, tmp_path: Path) -> None:
    """As in a browser that does not have it, and on a page that is not secure."""
    post = "new ObliviousTransport('https://relay.example', KEYS, { fetch: 1 }).post(request, 1, false)"
    small = config("00" * 32, SUITE)
    results = attempt(
        tmp_path,
        keys,
        "ObliviousTransport.supported()",
        post.replace("KEYS", f"new Uint8Array(Buffer.from('{small}', 'hex'))"),
        "void (crypto.subtle.generateKey = async () => { throw new DOMException('x', 'NotSupportedError') })",
        "ObliviousTransport.supported()",
        post,
        "void Object.defineProperty(crypto, 'subtle', { value: undefined })",
        "ObliviousTransport.supported()",
        post,
    )
    supported, small_key, _, without, trouble, _, insecure, same = results
    assert (supported, without, insecure) == (True, False, False)
    assert small_key["trouble"] == "nothing can be sealed: keyConfig holds a public key that cannot be used"
    assert trouble == same == {"status": 0, "retryAfter": None, "trouble": trouble["trouble"]}
    assert "X25519 on secure pages in Chrome and Edge 133, Firefox 130 and Safari 17" in trouble["trouble"]
