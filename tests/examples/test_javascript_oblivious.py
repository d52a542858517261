"""Oblivious HTTP in the JavaScript client: its messages, the relay's view, and a real server behind it."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

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
from arcwise.server.collect.gateway_keys import GatewayKeyFile
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE, decode_batch
from tests.examples.test_javascript_server import counts, sent
from tests.oblivious.conftest import relaying
from tests.support import nodejs, server_processes
from tests.support.nodejs import JAVASCRIPT, run_json

# --- messages ---------------------------------------------------------------------------------------------

SCRIPT = Path(__file__).with_name("oblivious.mjs")
VECTORS = json.loads(Path(__file__).parents[1].joinpath("vectors", "ohttp.json").read_text(encoding="utf-8"))
HPKE = VECTORS["rfc9180_A1_base_x25519_sha256_aes128gcm"]
OHTTP = VECTORS["rfc9458_appendix_A"]
BHTTP = VECTORS["rfc9292_examples"]
SUITE = "00010001"
CHACHA = "00010003"


def ask(*questions: list[Any]) -> list[Any]:
    """Return the answer of Node.js, which may be an error."""
    answers: list[Any] = run_json(SCRIPT, given=questions)
    return answers


def config(public_key: str, *algorithms: str, key_id: str = "01", kem: str = "0020") -> str:
    """Return one key configuration of `application/ohttp-keys`, with its length."""
    text = key_id + kem + public_key + f"{4 * len(algorithms):04x}" + "".join(algorithms)
    return f"{len(text) // 2:04x}{text}"


def errors(questions: list[list[Any]]) -> list[str | None]:
    return [answer.get("error") if isinstance(answer, dict) else None for answer in ask(*questions)]


def test_hpke_meets_the_vector_of_rfc_9180() -> None:
    """Appendix A.1: both sides of the exchange, the key schedule, the first message, all exports."""
    setup, (first, *_) = HPKE["setup"], HPKE["encryptions"]
    contexts = [each["exporter_context"] for each in HPKE["exports"]]
    assert {each["L"] for each in HPKE["exports"]} == {"32"}
    question = ["hpke", setup["skEm"], setup["skRm"], setup["info"], [first["aad"], first["pt"]], contexts]
    (answer,) = ask(question)
    assert answer == {
        "secrets": [setup["shared_secret"]] * 2,
        "enc": setup["enc"],
        "key": setup["key"],
        "nonce": setup["base_nonce"],
        "exporter": setup["exporter_secret"],
        "sealed": first["ct"],
        "exports": [each["exported_value"] for each in HPKE["exports"]],
    }
    assert first["nonce"] == setup["base_nonce"]


def test_ohttp_meets_the_vector_of_rfc_9458() -> None:
    """Appendix A, both ways: what the client seals and opens, and what a gateway of this code does."""
    (public_key,) = ask(["open", OHTTP["skR"]])
    keys = config(public_key, SUITE, CHACHA)
    request, answer = OHTTP["request_plaintext_bhttp"], OHTTP["response_plaintext_bhttp"]
    sealed, opened = OHTTP["encapsulated_request"], OHTTP["encapsulated_response"]
    assert ask(
        ["seal", keys, request, OHTTP["skE"], opened],
        ["unseal", OHTTP["skR"], sealed, answer, OHTTP["response_nonce"]],
    ) == [[sealed, answer], [request, opened]]


def test_two_messages_have_nothing_in_common() -> None:
    """Without a given pair, each message has a new one."""
    (public_key,) = ask(["open", OHTTP["skR"]])
    keys, request = config(public_key, SUITE), OHTTP["request_plaintext_bhttp"]
    (one, _), (other, _) = ask(["seal", keys, request], ["seal", keys, request])
    assert one[:14] == other[:14] == OHTTP["encapsulated_request"][:14]
    assert one[14:78] != other[14:78]
    assert one[78:] != other[78:]


def test_binary_http_meets_the_examples_of_rfc_9292() -> None:
    request, means = BHTTP["request_known_length"], BHTTP["request_means"]
    response, told = BHTTP["response_known_length"], BHTTP["response_means"]
    expected = {"status": told["status"], "fields": [], "content": told["content"].encode().hex()}
    assert ask(
        ["request", means, ""],
        ["response", response],
        ["response", response + "00" * 50],
        ["response", "0140c8"],
    ) == [request, expected, expected, {"status": 200, "fields": [], "content": ""}]


def test_responses_are_read_to_their_end() -> None:
    """Informational responses precede the final one; truncated messages and non-responses are refused."""
    early = "014066" + "05" + "01610162" + "00" + "40c8"  # 102 with a field whose value is cut off
    whole = "014066" + "04" + "01610162" + "40cc" + "04" + "01630164" + "03" + "616263"
    good, *refused = ask(
        ["response", whole],
        *[
            ["response", text]
            for text in (
                whole[:-2],
                whole + "01",
                early,
                "",
                "00",
                "02" + whole[2:],
                "0140",
                "014066",
                "014258",
                "010a",
            )
        ],
    )
    assert good == {"status": 204, "fields": [["c", "d"]], "content": b"abc".hex()}
    assert [set(answer) for answer in refused] == [{"error"}] * len(refused)


def test_a_head_of_an_answer_is_bounded() -> None:
    most = "0140cc4080" + "0000" * 64
    good, *refused = ask(
        *[
            ["response", text]
            for text in (
                most,
                "0140cc4082" + "0000" * 65,
                "0140cc80010000" + "00" * (1 << 16),
                "0140cc500501615001" + "00" * 4097,
                "0140cc0000" + "80010000" + "00" * (1 << 16),
                "01" + "406400" * 5000 + "40cc",
            )
        ]
    )
    assert len(good["fields"]) == 64
    assert [re.sub("[0-9]+", "N", answer["error"]) for answer in refused] == [
        "a section has more than N fields",
        *["the head has more than N bytes"] * 4,
    ]


def test_the_first_configuration_of_our_suite_is_taken() -> None:
    """Others are skipped, as section 3.2 says; bytes that are not a list of configurations are refused."""
    ours, other = "11" * 32, "22" * 32
    p256 = config("04" + "33" * 64, SUITE, kem="0010")
    header = f"01{'0020'}{SUITE}"
    one = config(ours, SUITE)
    assert (
        ask(
            ["keys", one],
            ["keys", config(ours, CHACHA, SUITE)],
            ["keys", p256 + config(other, CHACHA) + config(ours, SUITE) + config(other, SUITE, key_id="02")],
        )
        == [[header, ours]] * 3
    )
    wrong = ["", one[:-2], one + "00", one + one[:-2], p256, config(other, CHACHA), config(ours), one[4:]]
    wrong += ["00" * 4, "0029" + config(ours, SUITE)[4:-2], "002a" + config(ours, SUITE)[4:] + "00"]
    assert None not in errors([["keys", text] for text in wrong])


def test_what_was_changed_on_the_way_does_not_open() -> None:
    (public_key,) = ask(["open", OHTTP["skR"]])
    keys, request = config(public_key, SUITE), OHTTP["request_plaintext_bhttp"]
    sealed, opened = OHTTP["encapsulated_request"], OHTTP["encapsulated_response"]

    def changed(text: str) -> list[str]:
        flipped = [text[:at] + f"{int(text[at], 16) ^ 1:x}" + text[at + 1 :] for at in range(1, len(text), 8)]
        return [*flipped, text[:-2], text + "00", text[:40], ""]

    answers = [["seal", keys, request, OHTTP["skE"], text] for text in changed(opened)]
    requests = [["unseal", OHTTP["skR"], text] for text in changed(sealed)]
    requests.append(["unseal", OHTTP["skE"], sealed])
    answers.append(["seal", keys, request, None, opened])  # the answer to another request
    assert None not in errors(answers + requests)


def test_a_key_without_a_secret_is_refused() -> None:
    """Points of small order: everybody knows the shared secret (RFC 9180, section 7.1.4)."""
    small = ["00" * 32, "01" + "00" * 31, "ec" + "ff" * 30 + "7f"]
    assert None not in errors([["seal", config(each, SUITE), "00"] for each in small])


# --- by way of a relay ------------------------------------------------------------------------------------

DRIVE = Path(__file__).with_name("drive_oblivious.mjs")
TASK = Task("heading", Circle(360), 1.0)


@pytest.fixture(scope="module")
def keys() -> str:
    (public_key,) = ask(["open", OHTTP["skR"]])
    return config(public_key, SUITE)


def drive(keys: str, *steps: Any, **given: Any) -> dict[str, Any]:
    given = {"task": TASK.to_json(), "keys": keys, "secret": OHTTP["skR"], "steps": steps, **given}
    result: dict[str, Any] = run_json(DRIVE, given=given)
    return result


def read(request: dict[str, Any]) -> Request:
    """Return the request that the gateway reads."""
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
    """The relay's own answers count as network trouble, as do all answers that the gateway did not seal."""
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
    """Before any promise: each report seals the batch again, and no sealed request is used twice."""
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
    """Return the result of each expression, or its error."""
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
    """A browser uses it to limit what a page may leave behind."""
    transport = "new ObliviousTransport('https://relay.example', KEYS)"
    weigh = transport + ".weigh({{ ...request, body: new Uint8Array({}) }})"
    lengths = [0, 400, 512, 32_000, 32_768]
    weights = [each + 55 for each in (512, 512, 1024, 32_768, 65_536)]
    assert attempt(tmp_path, keys, *[weigh.format(length) for length in lengths]) == weights


def test_without_x25519_nothing_is_sent_and_the_trouble_has_a_name(keys: str, tmp_path: Path) -> None:
    """As in a browser without it, and on a page that is not secure."""
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


# --- with Python, and a real server -----------------------------------------------------------------------

LENGTHS = [0, 1, 15, 16, 17, 62, 63, 64, 512, 16_383, 16_384, 70_000]
"""Lengths of messages, including those at which Binary HTTP writes a length in more bytes."""


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
    """If the gateway does not have the key, nothing is counted and nothing is dropped."""
    TASK.save(tmp_path / "heading.json")
    file = GatewayKeyFile(tmp_path / "gateway.keys")
    keys = encode_key_configs([file.make().config])
    steps: list[Any] = [["reportAll", "heading", list(range(0, 360, 3))], ["flush", 30], ["counters"]]
    options = ("--open", "--gateway-keys", str(file.path))
    with server_processes.serving(tmp_path, *options) as (url, _), relaying(url) as relay:
        given: dict[str, Any] = {"relay": relay, "keys": keys.hex(), "options": {"batchSize": 50}}
        result = nodejs.drive("https://reports.example", [TASK], *steps, **given)
        assert result["results"] == [120, True, {"sent": 120, "dropped": {}, "refused": {}, "pending": 0}]
        assert result["troubles"] == []
        assert len(result["sent"][TASK.id]) == 3
        steps[1] = ["flush", 0.5]
        given["keys"] = encode_key_configs([GatewayKey.generate(9).config]).hex()
        lost = nodejs.drive("https://reports.example", [TASK], *steps, **given)
        assert lost["results"][1:] == [False, {"sent": 0, "dropped": {}, "refused": {}, "pending": 120}]
        assert set(lost["troubles"]) == {"status 400 of the relay: retry"}
    counted = counts(tmp_path, TASK)
    assert counted.tolist() == sent(result, TASK).tolist()
    assert counted.sum() == 120
