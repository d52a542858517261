"""Keys: what each may do, what is stored of them, and that nothing reveals them."""

import asyncio
import contextlib
import dataclasses
import hashlib
import socket
from contextlib import nullcontext
from pathlib import Path

import httpx
import psycopg
import pytest

from arcwise.domains import Circle, Interval
from arcwise.server.access import gate as gate_module
from arcwise.server.access.gate import Gate
from arcwise.server.access.keys import new_key
from arcwise.server.access.origins import is_local
from arcwise.server.problems import Problem
from arcwise.server.store import open_store
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE
from tests.support.apps import Serve
from tests.support.cases import mostly_slow
from tests.support.commands import bad, good, run
from tests.support.postgres import fresh_schema
from tests.support.reports import body_of, report
from tests.support.server_processes import serving

pytestmark = pytest.mark.anyio

HEADING = Task("heading", Circle(360), 1.0)
DELAY = Task("delay", Interval(0, 1), 1.0)
TASKS = [HEADING, DELAY]
SCOPES = ("ingest", "read", "metrics", "admin")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the store of the app that `serve` starts, with both tasks in it."""
    url = f"sqlite:///{tmp_path / 'app.db'}"
    store = open_store(url)
    store.register(TASKS)
    store.close()
    return url


def make(url: str, scope: str, *options: str) -> str:
    result = run("key", "new", "--scope", scope, "--store", url, *options)
    assert result.exit_code == 0, result.output
    key = result.stdout.strip()
    assert result.stderr.startswith(f"The key {key.split('_')[2]} is shown once.")
    return key


def forge(key: str) -> str:
    """Change the last digit."""
    return key[:-1] + ("0" if key[-1] != "0" else "1")


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def statuses(http: httpx.AsyncClient, task: Task, headers: dict[str, str]) -> dict[str, int]:
    """Try every operation on a task; return the status of each."""
    answers = {
        "report": await report(http, task, headers=headers),
        "list": await http.get("/v1/tasks", headers=headers),
        "show": await http.get(f"/v1/tasks/{task.id}", headers=headers),
        "estimate": await http.get(f"/v1/tasks/{task.id}/estimate", headers=headers),
        "series": await http.get(f"/v1/tasks/{task.id}/series", headers=headers),
        "make": await http.post("/v1/tasks", json=task.to_json(), headers=headers),
        "close": await http.post(f"/v1/tasks/{task.id}/close", headers=headers),
        "open": await http.post(f"/v1/tasks/{task.id}/open", headers=headers),
        "live": await http.get("/health/live", headers=headers),
    }
    for answer in answers.values():
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            challenge = answer.headers["www-authenticate"]
            assert challenge.startswith('Bearer realm="arcwise"')
            assert ("error=" in challenge) == (answer.json()["type"] != "urn:arcwise:problem:key-missing")
            assert "arcwise_" not in answer.text + str(answer.headers)
    return {name: answer.status_code for name, answer in answers.items()}


REFUSED = dict.fromkeys(("report", "list", "show", "estimate", "series", "make", "close", "open"), 401)
REFUSED["live"] = 200
READS = ("show", "estimate", "series")
MANAGES = ("make", "close", "open")
MAY = {
    "ingest": {"report": 204},
    "read": dict.fromkeys((*READS, "list"), 200),
    "metrics": dict[str, int](),
    "admin": dict.fromkeys((*READS, *MANAGES, "list"), 200),  # it can make keys that read
}


@pytest.mark.parametrize("scope", SCOPES)
async def test_each_key_may_do_its_own_and_nothing_else(serve: Serve, url: str, scope: str) -> None:
    key = make(url, scope)
    http = await serve(TASKS, open=None)
    expected = dict.fromkeys(REFUSED, 403) | MAY[scope] | {"live": 200}
    assert await statuses(http, HEADING, bearer(key)) == expected
    assert await statuses(http, HEADING, {"Authorization": f"bEARER  {key} "}) == expected


async def test_no_key_and_keys_that_are_none(serve: Serve, url: str) -> None:
    good, other = make(url, "ingest"), make(url, "ingest")
    forged = forge(good)
    wrong = [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": good},
        {"authorization": f"Basic {good}"},
        bearer(forged),
        bearer(good.replace("ingest", "read")),
        bearer(good.replace("ingest", "admin")),
        bearer(good + "0"),
        bearer("arcwise_ingest_000000000000_" + "0" * 64),
        bearer("_" * 3),
        bearer("_" * 10_000),
        bearer(hashlib.sha256(good.encode()).hexdigest()),
    ]
    http = await serve(TASKS, open=None)
    for headers in wrong:
        assert await statuses(http, HEADING, headers) == REFUSED
    for pair in ((good, good), (good, other), (good, forged), (forged, good)):
        two = [("content-type", MEDIA_TYPE), *(("authorization", f"Bearer {key}") for key in pair)]
        answer = await http.post(f"/v1/tasks/{HEADING.id}/reports", content=body_of(HEADING), headers=two)
        assert answer.status_code == 401
    assert (await report(http, HEADING, headers=bearer(good))).status_code == 204
    await http.stop()
    store = open_store(url)
    assert store.counts(HEADING).sum() == 1  # nothing else was stored
    store.close()


async def test_a_key_in_another_place_is_no_key(serve: Serve, url: str) -> None:
    keys = {scope: make(url, scope) for scope in SCOPES}
    places = [
        ("x-api-key", "{0}"),
        ("cookie", "key={0}; authorization=Bearer {0}"),
        ("proxy-authorization", "Bearer {0}"),
        ("x-authorization", "Bearer {0}"),
        ("authorization", "Bearer Bearer {0}"),
        ("authorization", "Bearer {0}, Bearer {0}"),
        ("authorization", "Bearer token={0}"),
        ("authorization", 'Digest username="{0}"'),
        ("authorization", "Bearer\t{0}"),
        ("authorization", "Bearer {0} {0}"),
    ]
    http = await serve(TASKS, open=None)
    for key in keys.values():
        for name, template in places:
            assert await statuses(http, HEADING, {name: template.format(key)}) == REFUSED
    for name in ("key", "access_token", "authorization", "token"):
        for path in ("/v1/tasks", f"/v1/tasks/{HEADING.id}/estimate", "/metrics"):
            assert (await http.get(path, params={name: keys["read"]})).status_code == 401
        answer = await http.post(
            f"/v1/tasks/{HEADING.id}/reports",
            params={name: keys["ingest"]},
            content=body_of(HEADING),
            headers={"content-type": MEDIA_TYPE},
        )
        assert answer.status_code == 401


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_revoked_key_is_answered_like_one_that_never_was(serve: Serve, url: str, scope: str) -> None:
    key = make(url, scope)
    good("key", "revoke", key, "--store", url)
    never = f"arcwise_{scope}_{'0' * 12}_{'0' * 64}"
    http = await serve(TASKS, open=None)
    answers = set()
    for sent in (key, forge(key), never):
        assert await statuses(http, HEADING, bearer(sent)) == REFUSED
        answer = await report(http, HEADING, headers=bearer(sent))
        answers.add((answer.text, tuple(sorted(answer.headers.items()))))
    assert len(answers) == 1


async def test_a_key_that_is_good_for_nothing_else_learns_nothing_else(serve: Serve, url: str) -> None:
    """A task that does not exist gets the same answer as a task of somebody else."""
    ingest, read = make(url, "ingest", "--task", "heading"), make(url, "read", "--task", "heading")
    http = await serve(TASKS, open=None)
    told = set()
    for task_id in (DELAY.id, "0" * 64, "nothing"):
        for method, path, key in (
            ("POST", f"/v1/tasks/{task_id}/reports", ingest),
            ("GET", f"/v1/tasks/{task_id}", read),
            ("GET", f"/v1/tasks/{task_id}/series", read),
        ):
            headers = {"content-type": MEDIA_TYPE, **bearer(key)}
            answer = await http.request(method, path, headers=headers, content=body_of(DELAY))
            told.add((answer.status_code, answer.text))
    assert len(told) == 1
    assert (await http.get("/metrics", headers=bearer(read))).status_code == 403


async def test_a_key_for_one_task_is_not_for_another(serve: Serve, url: str) -> None:
    ingest, read = make(url, "ingest", "--task", "heading"), make(url, "read", "--task", HEADING.id)
    http = await serve(TASKS, open=None)
    assert (await report(http, HEADING, headers=bearer(ingest))).status_code == 204
    assert (await report(http, DELAY, headers=bearer(ingest))).status_code == 403
    shown = (await http.get("/v1/tasks", headers=bearer(read))).json()["tasks"]
    assert [task["name"] for task in shown] == ["heading"]
    for path, status in ((HEADING.id, 200), (DELAY.id, 403), ("0" * 64, 403)):
        assert (await http.get(f"/v1/tasks/{path}/estimate", headers=bearer(read))).status_code == status


@pytest.mark.parametrize("end", ["", "/estimate"])
async def test_a_limited_key_is_refused_as_often_whether_or_not_a_task_exists(
    serve: Serve, url: str, end: str
) -> None:
    keys = [make(url, "read", "--task", "heading") for _ in range(3)]
    http = await serve(TASKS, open=None, requests_per_minute_per_key=3)
    for key, task in zip(keys, (DELAY.id, "0" * 64, "delay"), strict=True):
        found = [await http.get(f"/v1/tasks/{task}{end}", headers=bearer(key)) for _ in range(5)]
        assert [answer.status_code for answer in found] == [403, 403, 403, 429, 429]


async def test_a_key_that_is_made_or_revoked_is_seen_by_an_app_that_runs(
    serve: Serve, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcwise.server.runtime.REFRESH_SECONDS", 0.01)
    first = make(url, "ingest")

    async def until(http: httpx.AsyncClient, key: str, status: int) -> None:
        while (await report(http, HEADING, headers=bearer(key))).status_code != status:
            await asyncio.sleep(0.01)

    http = await serve(TASKS, open=None)
    second = make(url, "ingest")
    await until(http, second, 204)
    good("key", "revoke", second, "--store", url)
    await until(http, second, 401)
    assert (await report(http, HEADING, headers=bearer(first))).status_code == 204
    await http.stop()
    assert gate_module.REFRESH_SECONDS <= 5  # and the documentation promises 10 seconds


LOCAL = "http://127.0.0.1:8000"
BROWSER = {
    "Sec-CH-UA": '"Chromium";v="130"',
    "Sec-Fetch-Site": "same-origin",
    "Sec-GPC": "1",
    "DNT": "1",
    "Accept-Language": "de",
    "Cookie": "other=1",
    "Origin": LOCAL,
    "Referer": f"{LOCAL}/",
    "Cache-Control": "no-cache",
    "Pragma": "no-cache",
    "Priority": "u=0",
    "Upgrade-Insecure-Requests": "1",
}


@pytest.mark.parametrize(
    ("base", "headers", "status"),
    [
        (LOCAL, {}, 204),
        ("http://localhost:8000", {}, 204),
        ("http://[::1]:8000", {}, 204),
        (LOCAL, {"host": "LocalHost"}, 204),
        (LOCAL, {"host": "127.255.0.9:65535"}, 204),
        (LOCAL, BROWSER, 204),
        ("http://192.0.2.1:8000", {}, 401),
        ("http://reports.example", {}, 401),
        (LOCAL, {"host": "evil.example"}, 401),  # a name that somebody points to 127.0.0.1
        (LOCAL, {"host": "127.0.0.1.evil.example:8000"}, 401),
        (LOCAL, {"x-forwarded-for": "192.0.2.1"}, 401),
        (LOCAL, {"forwarded": "for=192.0.2.1"}, 401),
        (LOCAL, {"via": "1.1 proxy"}, 401),
        *mostly_slow(
            (
                (LOCAL, {"host": host}, 401)
                for host in (
                    "[::1].evil.example",
                    "[::1]evil.example:8000",
                    "[::1",
                    "[::1%evil.example]",
                    "[::ffff:127.0.0.1]",
                    "::1",
                    "[127.0.0.1]",
                    "[localhost]",
                    "127.0.0.1:80.evil.example",
                    "127.0.0.1:",
                    "127.0.0.1:0",
                    "127.0.0.1:65536",
                    "127.0.0.1:8000:8000",
                    "127.0.0.1:8000, evil.example",
                    "127.0.0.1@evil.example",
                    "127.1",
                    "127.0.0.256",
                    "127.0.0.01",
                    "2130706433",
                    "0.0.0.0",
                    "localhost.",
                    "localhost.evil.example",
                    "localhost evil.example",
                    "",
                )
            ),
            every=4,
        ),
        *mostly_slow(
            (
                (LOCAL, {name: "192.0.2.1"}, 401)
                for name in (
                    "X-Forwarded",
                    "X-Real-IP",
                    "X-Client-IP",
                    "X-Cluster-Client-IP",
                    "X-Original-Host",
                    "X-Envoy-External-Address",
                    "X-Amzn-Trace-Id",
                    "X-Request-ID",
                    "X-Varnish",
                    "CF-Ray",
                    "Fly-Client-IP",
                    "Fastly-Client-IP",
                    "True-Client-IP",
                    "Client-IP",
                    "CDN-Loop",
                    "Max-Forwards",
                    "Proxy-Connection",
                    "Traceparent",
                    "A-Header-Of-Its-Own",
                )
            ),
            every=4,
        ),
    ],
)
async def test_without_keys_only_this_machine_is_served(
    serve: Serve, base: str, headers: dict[str, str], status: int
) -> None:
    http = await serve(TASKS, open=None)
    http.base_url = httpx.URL(base)
    assert (await report(http, HEADING, headers=headers)).status_code == status
    assert (await http.get("/v1/tasks", headers=headers)).status_code == (200 if status == 204 else 401)
    for path in ("/v1/tasks", f"/v1/tasks/{HEADING.id}/close"):
        assert (await http.post(path, headers=headers)).status_code == 401


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
@pytest.mark.parametrize("path", ["/v1/tasks", f"/v1/tasks/{HEADING.id}/picture.svg", "/"])
async def test_pages_of_other_sites_see_nothing_of_this_machine(serve: Serve, site: str, path: str) -> None:
    closed, opened = await serve(TASKS, open=None), await serve(TASKS, open=True)
    closed.base_url = httpx.URL(LOCAL)
    shown = {**BROWSER, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    assert (await closed.get(path, headers=shown)).status_code == 401
    assert (await opened.get(path, headers=shown)).status_code != 401
    assert (await report(closed, HEADING, headers=shown)).status_code == 204


@pytest.mark.parametrize(
    ("changed", "local"),
    [
        ({}, True),
        ({"http_version": "2"}, True),
        ({"http_version": "1.0"}, False),  # nginx's default for upstream requests
        ({"client": ("192.0.2.1", 5)}, False),  # the address was translated on its way
        ({"client": None}, True),
        ({"server": ("192.0.2.1", 80)}, False),
        ({"server": ("/run/arcwise.sock", None)}, False),
        ({"headers": []}, False),
        ({"headers": [(b"host", b"localhost")] * 2}, False),
    ],
)
def test_a_request_is_local_by_all_that_is_known_of_it(changed: dict[str, object], local: bool) -> None:
    scope = {
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 5),
        "headers": [(b"host", b"localhost")],
    }
    assert is_local(scope | changed) == local


async def test_the_first_key_closes_the_door_and_revoking_the_last_does_not_open_it(
    serve: Serve, url: str
) -> None:
    async def asked() -> int:
        http = await serve(TASKS, open=None)
        return (await http.get(f"{LOCAL}/v1/tasks")).status_code

    assert await asked() == 200
    key = make(url, "read")
    assert await asked() == 401
    good("key", "revoke", key.split("_")[2], "--store", url)
    assert await asked() == 401


@pytest.mark.parametrize(("open_", "status"), [(True, 204), (False, 401)])
async def test_open_and_closed_by_words(serve: Serve, open_: bool, status: int) -> None:
    http = await serve(TASKS, open=open_)
    assert (await report(http, HEADING)).status_code == status
    assert (await http.post("/v1/tasks", json=HEADING.to_json())).status_code == 401  # needs a key even so


def test_what_is_kept_is_a_digest(url: str, tmp_path: Path) -> None:
    keys = [make(url, scope) for scope in SCOPES]
    assert len({key.split("_")[3] for key in keys}) == len(SCOPES)
    files = b"".join(path.read_bytes() for path in tmp_path.glob("app.db*"))
    for key in keys:
        _, _, name, secret = key.split("_")
        assert len(bytes.fromhex(secret)) == 32
        assert name.encode() in files
        assert secret.encode() not in files
        assert hashlib.sha256(key.encode()).digest() in files


def test_what_postgresql_keeps_is_a_digest() -> None:
    with fresh_schema() as schema:
        key = make(schema, "ingest", "--label", "the app")
        _, _, name, secret = key.split("_")
        tables = ("task", "batch", "counts", "total", "api_key", "origin", "action", "arcwise_schema")
        with contextlib.closing(psycopg.connect(schema)) as connection:
            rows = "".join(
                text
                for table in tables
                for (text,) in connection.execute(f"SELECT t::text FROM {table} AS t".encode())
            )
        assert name in rows
        assert hashlib.sha256(key.encode()).hexdigest() in rows
        assert secret not in rows
        assert secret.encode().hex() not in rows


def test_a_key_that_was_revoked_by_a_machine_whose_clock_is_ahead_is_refused_at_once() -> None:
    gate = Gate(open=False)
    key, stored = new_key("ingest", now=0)
    scope = {"type": "http", "headers": [(b"authorization", f"Bearer {key}".encode())]}
    gate.load([stored])
    gate.check(scope, "ingest")
    gate.load([dataclasses.replace(stored, revoked=1 << 40)])
    with pytest.raises(Problem) as caught:
        gate.check(scope, "ingest")
    assert (caught.value.status, caught.value.kind) == (401, "key-unknown")


def test_digests_are_compared_in_constant_time_also_for_unknown_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def watched(left: bytes, right: bytes) -> bool:
        compared.append((left, right))
        return left == right

    monkeypatch.setattr(gate_module, "compare_digest", watched)
    gate = Gate(open=False)
    key, stored = new_key("ingest", now=0)
    gate.load([stored])
    for sent in (key, key[:-1] + "x", "arcwise_ingest_unknown_key", "nonsense"):
        scope = {"type": "http", "headers": [(b"authorization", f"Bearer {sent}".encode())]}
        with nullcontext() if sent == key else pytest.raises(Problem):
            gate.check(scope, "ingest")
    assert [len(left) for left, _ in compared] == [32] * 4
    assert [right for _, right in compared] == [stored.digest] * 2 + [bytes(32)] * 2


def test_keys_by_command(url: str, tmp_path: Path) -> None:
    listing = ("key", "list", "--store", url)
    assert "No keys" in good(*listing)
    DELAY.save(tmp_path / "delay.json")
    tasks = ("--task", "heading", "--task", str(tmp_path / "delay.json"))
    key = make(url, "ingest", *tasks, "--label", "the app")
    name = key.split("_")[2]
    listed = good(*listing)
    assert listed.startswith(f"{name}  ingest  heading, delay  made ")
    assert listed.rstrip().endswith("the app")
    assert key.split("_")[3] not in listed
    assert f'"tasks": ["{HEADING.id}", "{DELAY.id}"]' in good(*listing, "--json")
    good("key", "revoke", name, "--store", url)
    assert ", revoked " in good(*listing)
    for words, message in (
        (["revoke", name], "is already revoked"),
        (["revoke", "nobody"], "ID must be the id of a key in this store"),
        (["new", "--scope", "ingest", "--task", "speed"], "in the store (delay, heading)"),
        (["new", "--scope", "admin", "--task", "heading"], "admin and metrics keys are for all tasks"),
        (["new", "--scope", "write"], "'write' is not one of"),
        (["new", "--scope", "read", "--label", "a\nb"], "label must be at most 200 printable characters"),
    ):
        assert message in bad("key", *words, "--store", url)
    bad("key", "list", "--store", f"sqlite:///{tmp_path}/none.db")


def test_two_tasks_of_a_name_ask_for_the_id(url: str) -> None:
    other = Task("heading", Circle(360), 2.0)
    with contextlib.closing(open_store(url)) as store:
        store.register([other])
    said = bad("key", "new", "--scope", "read", "--task", "heading", "--store", url)
    assert other.id in said
    assert HEADING.id in said
    make(url, "read", "--task", other.id)


def test_the_command_refuses_to_be_open_to_the_world_by_accident(url: str, tmp_path: Path) -> None:
    HEADING.save(tmp_path / "heading.json")
    serve = ("serve", "--tasks", str(tmp_path), "--store", url, "--port", "0")
    said = bad(*serve, "--host", "0.0.0.0")
    assert "the store has no keys, and 0.0.0.0 is not an address of this machine alone" in said
    assert "arcwise key new" in said
    assert "--open" in said
    # After that check, it fails at an address that nobody has.
    for options in (["--open"], []):
        assert "cannot listen on 192.0.2.1" in bad(*serve, "--host", "192.0.2.1", *options)
        make(url, "ingest")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_secret_in_what_a_server_says(tmp_path: Path, form: str) -> None:
    HEADING.save(tmp_path / "heading.json")
    url = f"sqlite:///{tmp_path / 'server.db'}"
    ingest, read, scraper, admin = (make(url, scope) for scope in SCOPES)
    secrets = [key.split("_")[3] for key in (ingest, read, admin, scraper)]
    secret = secrets[0]
    answers = ""
    options = ("--log-level", "debug", "--log-format", form)
    with serving(tmp_path, *options) as (base, process), httpx.Client(base_url=base, timeout=60) as http:
        path = f"/v1/tasks/{HEADING.id}/reports"
        for sent in (ingest, ingest + "0", f"arcwise_read_0_{secret}", secret):
            headers = {"content-type": MEDIA_TYPE, **bearer(sent)}
            for content in (body_of(HEADING), secret.encode(), b""):
                answer = http.post(path, content=content, headers=headers)
                answers += answer.text + str(answer.headers)
            answers += http.get(f"/{secret}?key={secret}", headers=headers).text
        for where in (
            "/v1/tasks",
            f"/v1/tasks/{HEADING.id}/estimate?to={secret}",
            "/openapi.json",
        ):
            answers += http.get(where, headers=bearer(read)).text
        answers += http.get("/metrics", headers=bearer(scraper)).text
        answers += http.post("/v1/tasks", content=secrets[2].encode(), headers=bearer(admin)).text
        for sent in (read, ingest, read + "0", secret):
            answer = http.post("/login", data={"key": sent, "next": secret}, headers={"origin": base})
            answers += answer.text + str(answer.headers)
        with socket.create_connection((http.base_url.host, http.base_url.port or 0)) as connection:
            connection.sendall(f"GARBAGE {secret}\r\n\r\n".encode())
            answers += connection.recv(4096).decode()
        if Path("/proc/self").exists():
            for name in ("cmdline", "environ", "comm"):
                answers += Path(f"/proc/{process.pid}/{name}").read_bytes().decode("latin-1")
        process.terminate()
        said = process.stdout.read() if process.stdout else ""
    said += (tmp_path / "stderr").read_text("utf-8")
    assert "key-unknown" in answers
    assert "malformed-batch" in answers
    assert "invalid-task" in answers
    assert "arcwise_batches_total" in answers
    assert [each for each in secrets if each in answers + said] == []
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert [each for each in secrets if each.encode() in files] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--task", "typo"], "no store"),
        (["--label", "x" * 1000], "label"),
        (["--task", "broken.json"], "broken.json"),
    ],
)
def test_a_key_that_is_refused_leaves_no_store_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text("{}")
    assert words in bad("key", "new", "--scope", "read", *options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.json"]


def test_a_key_for_a_task_file_makes_the_store(tmp_path: Path) -> None:
    HEADING.save(tmp_path / "heading.json")
    url = f"sqlite:///{tmp_path / 'new.db'}"
    make(url, "read", "--task", str(tmp_path / "heading.json"))
    with contextlib.closing(open_store(url, create=False)) as store:
        (key,) = store.keys()
    assert key.tasks == (HEADING.id,)
