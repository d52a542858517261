"""Two workers on PostgreSQL behind a real nginx, with the files of examples/deployment."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import httpx
import pytest

from arcwise.domains import Circle, Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.server.process.configuration import configure
from arcwise.server.store import open_store
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE
from tests.support.apps import add_key
from tests.support.machines import DEPLOYMENT, Load, Machine, find_program
from tests.support.postgres import fresh_schema
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="devices are addresses in 127/8")

UNIT = Interval(0, 1)
# No two batches share one of its many codes: any 2 is a double count, any 0 a loss.
WIDE = Task("wide", UNIT, 1.0, mechanism=OptimalPiecewise(UNIT, 1.0, nodes=32_000))
HEADING = Task("heading", Circle(360), 1.0)
PORTS = ("8001", "8002")


class Deployed:
    """The machine, its store and an ingest key."""

    def __init__(self, machine: Machine, store: str) -> None:
        self.machine = machine
        self.store = store
        self.units = [f"arcwise@{machine.ports[port]}" for port in PORTS]
        self.key = add_key(store, "ingest")
        self.trust = ssl.create_default_context(cafile=machine.certificate)

    def start(self) -> None:
        self.machine.services.control("start", *self.units)
        for port in PORTS:
            self.machine.wait_until_ready(port)

    def http(self, address: str) -> httpx.Client:
        """Return a device at an address."""
        transport = httpx.HTTPTransport(local_address=address, verify=self.trust)
        return httpx.Client(transport=transport, base_url=self.machine.url, timeout=60)

    def load(self) -> Load:
        return Load(self.machine.url, WIDE, self.key, self.machine.certificate)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    for program in ("nginx", "openssl"):
        if find_program(program) is None:
            pytest.skip(f"{program} is not here")
    root = tmp_path_factory.mktemp("machine")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ARCWISE_")}
    with fresh_schema() as store:
        table = {"sqlite:////var/lib/arcwise/arcwise.db": store, "drain_seconds = 5": "drain_seconds = 0.5"}
        with Machine(root, environment, table) as machine:
            files = root / "examples" / "deployment"
            shutil.copy(files / "arcwise@.service", root / "etc" / "systemd" / "system")
            shutil.copy(files / "nginx.conf", root / "etc" / "nginx" / "conf.d" / "arcwise.conf")
            (root / "opt" / "arcwise" / "bin").mkdir(parents=True)
            shutil.copy(root / "bin" / "arcwise", root / "opt" / "arcwise" / "bin")
            (root / "etc" / "arcwise" / "tasks").mkdir(parents=True)
            shutil.copy(files / "arcwise.toml", root / "etc" / "arcwise")
            for task in (WIDE, HEADING):
                task.save(root / "etc" / "arcwise" / "tasks" / f"{task.name}.json")
            machine.start_nginx()
            yield Deployed(machine, store)


@pytest.fixture
def deployed(made: Deployed) -> Deployed:
    """Return the machine with both workers running, even after a test that stopped them."""
    made.start()
    return made


@pytest.mark.slow
def test_senders_see_nothing_of_workers_that_end(deployed: Deployed) -> None:
    machine = deployed.machine
    with deployed.load() as load:
        machine.services.control("restart", deployed.units[0])
        machine.wait_until_ready("8001")
        for port, unit in zip(PORTS, deployed.units, strict=True):
            load.wait_for(50)
            machine.services.process(unit).kill()
            machine.services.process(unit).wait()
            load.wait_for(50)  # the other worker is there alone
            machine.services.control("start", unit)
            machine.wait_until_ready(port)
        load.wait_for(50)
    assert not load.failures
    assert machine.services.returned[-1] == (deployed.units[0], -15)
    load.send_again(load.acknowledged)
    with closing(open_store(deployed.store, create=False)) as store:
        assert store.check() == []
        assert store.counts(WIDE).tolist() == load.counts()


@pytest.mark.slow
def test_a_client_reports_through_tls(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(deployed.machine.certificate))
    with Client(deployed.machine.url, tasks=[HEADING], key=deployed.key) as client:
        for heading in range(300):
            client.report("heading", heading)
        assert client.flush(timeout=60)
        assert client.counters.sent == 300
    with closing(open_store(deployed.store, create=False)) as store:
        assert store.counts(HEADING).sum() == 300


@pytest.mark.slow
def test_rates_count_by_address_and_nobody_can_claim_another(deployed: Deployed, tmp_path: Path) -> None:
    HEADING.save(tmp_path / "heading.json")
    most = configure({"tasks": tmp_path}, DEPLOYMENT / "arcwise.toml").requests_per_minute_per_address

    def ask(forged: str) -> int:
        headers = {"x-forwarded-for": forged, "forwarded": f"for={forged}"} if forged else {}
        return http.get("/v1/tasks", headers=headers).status_code

    with deployed.http("127.0.201.1") as http, ThreadPoolExecutor(4) as pool:
        # Each worker has its own count, and the bucket refills a little meanwhile.
        answers = list(pool.map(ask, [""] * (2 * most + 200)))
        assert {401, 429} == set(answers)
        assert answers.count(401) >= 2 * most
        forged = list(pool.map(ask, [f"203.0.113.{n}" for n in range(200)]))
        assert forged.count(429) > 100
    with deployed.http("127.0.201.2") as http:
        assert {ask("") for _ in range(4)} == {401}


@pytest.mark.slow
def test_a_large_body_gets_a_problem_document(deployed: Deployed) -> None:
    headers = {"authorization": f"Bearer {deployed.key}", "content-type": MEDIA_TYPE}
    path = f"/v1/tasks/{WIDE.id}/reports"
    with deployed.http("127.0.202.1") as http:
        fits = http.post(path, content=bytes(1 << 20), headers=headers)
        assert fits.status_code == 400
        assert fits.json()["type"] == "urn:arcwise:problem:malformed-batch"
        for content in (bytes((1 << 20) + 1), iter([bytes(1 << 20), b"x"])):
            answer = http.post(path, content=content, headers=headers)
            assert answer.status_code == 413
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["type"] == "urn:arcwise:problem:too-large"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/.well-known/ohttp-gateway", 2049 << 10),
        ("/v1/tasks", 8 << 20),
        ("/operator/tasks", 25 << 20),
        ("/login", 1 << 20),
    ],
)
def test_each_path_takes_what_the_server_reads(deployed: Deployed, path: str, most: int) -> None:
    """A body of `most` bytes gets through to a worker, which refuses it for another reason."""
    with deployed.http("127.0.202.2") as http:
        assert http.post(path, content=bytes(most)).status_code in (401, 403, 404)
        answer = http.post(path, content=bytes(most + 1))
        assert (answer.status_code, answer.json()["type"]) == (413, "urn:arcwise:problem:too-large")


@pytest.mark.slow
def test_slow_bodies_hold_no_worker(deployed: Deployed) -> None:
    """A worker gets a body only when all of it has arrived."""
    head = f"POST /v1/tasks/{WIDE.id}/reports HTTP/1.1\r\nHost: a.example\r\nContent-Length: 300000\r\n\r\n"
    sockets = []
    for _ in range(8):
        raw = socket.create_connection(("127.0.0.1", deployed.machine.ports["443"]), 10, ("127.0.203.1", 0))
        sockets.append(deployed.trust.wrap_socket(raw, server_hostname="reports.example"))
        sockets[-1].sendall(head.encode() + bytes(200_000))
    try:
        # Answered 401 immediately by a worker that had seen the head.
        for each in sockets:
            each.settimeout(0.05)
            with pytest.raises(TimeoutError):
                each.recv(1)
    finally:
        for each in sockets:
            each.close()


def test_somebody_logs_in_once_for_both_workers(deployed: Deployed) -> None:
    """The proxy names the scheme and the sender, so a browser that sends only its Origin can log in."""
    secret = add_key(deployed.store, "read")
    origin = {"host": "reports.example", "origin": "https://reports.example"}  # as of port 443
    with deployed.http("127.0.206.1") as browser, deployed.http("127.0.206.2") as other:
        for _ in range(24):  # each worker has its own count
            answer = other.post("/login", data={"key": "nonsense"}, headers=origin)
        assert answer.status_code == 429
        refused = origin | {"origin": "null"}
        assert browser.post("/login", data={"key": secret}, headers=refused).status_code == 403
        answer = browser.post("/login", data={"key": secret}, headers=origin)
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-arcwise=")
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax; Secure")
        sent = {"host": "reports.example", "cookie": cookie.partition(";")[0]}
        assert [browser.get("/v1/tasks", headers=sent).status_code for _ in range(6)] == [200] * 6
        assert browser.post("/logout", headers=origin | sent).status_code == 303
    with closing(open_store(deployed.store)) as store:
        store.revoke_key(secret.split("_")[2], 1)


def test_metrics_are_not_for_the_world(deployed: Deployed) -> None:
    with deployed.http("127.0.204.1") as http:
        assert http.get("/metrics").status_code == 404
        assert http.get("/health/ready").status_code == 200


@pytest.mark.slow
def test_without_a_worker_devices_are_told_to_come_back_and_no_log_names_them(deployed: Deployed) -> None:
    machine = deployed.machine
    machine.services.control("stop", *deployed.units)
    with deployed.http("127.0.205.1") as http:
        answer = http.post(f"/v1/tasks/{WIDE.id}/reports", content=b"x", headers={"content-type": MEDIA_TYPE})
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "5"
        assert answer.json()["type"] == "urn:arcwise:problem:store-busy"
        port = machine.ports["443"]
        # nginx complains about plain HTTP, and about a missing TLS.
        assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 400
        with socket.create_connection(("127.0.0.1", port), 10, ("127.0.205.2", 0)) as raw:
            raw.sendall(b"\x16\x03\x01\x00\x05hello")
            raw.recv(100)
    logs = machine.logs()
    assert {"nginx.log", "nginx-error.log"} < set(logs)
    for name, log in logs.items():
        assert "127.0.2" not in log, name
        assert "client:" not in log, name
    assert not (machine.root / "nginx-access.log").read_text("utf-8")
