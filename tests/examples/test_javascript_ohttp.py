"""Oblivious HTTP in the JavaScript client: the vectors of the RFCs, byte for byte, and broken messages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.support.nodejs import run_json

SCRIPT = Path(__file__).with_name("oblivious.mjs")
VECTORS = json.loads(Path(__file__).parents[1].joinpath("vectors", "ohttp.json").read_text(encoding="utf-8"))
HPKE = VECTORS["rfc9180_A1_base_x25519_sha256_aes128gcm"]
OHTTP = VECTORS["rfc9458_appendix_A"]
BHTTP = VECTORS["rfc9292_examples"]
SUITE = "00010001"
CHACHA = "00010003"


def ask(*questions: list[Any]) -> list[Any]:
    """Return what Node.js answers; an answer may be an error."""
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
    """Without a given pair, each message has one of its own."""
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
    """Informational responses come before the final one; what is cut off, or is no response, is refused."""
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
    """Others are passed over, as section 3.2 says; bytes that are no list of configurations are refused."""
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
    """Points of small order, with which everybody knows the shared secret (RFC 9180, section 7.1.4)."""
    small = ["00" * 32, "01" + "00" * 31, "ec" + "ff" * 30 + "7f"]
    assert None not in errors([["seal", config(each, SUITE), "00"] for each in small])
