"""The files of examples/deployment: their commands run, and every option and setting in them exists.

Alerts, the Grafana dashboard and compose.yaml refer to existing metrics, settings and files.

`tests/server/test_operating_docs.py` and `tests/server/test_proxy.py` use all of them together.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner

from arcwise.cli import main
from arcwise.cli.serve import serve
from arcwise.domains import Circle
from arcwise.server.process.configuration import configure
from arcwise.server.settings import ProcessSettings, settings_of
from arcwise.server.store.postgres.database import Database
from arcwise.tasks import Task
from tests.support.machines import DEPLOYMENT, find_program
from tests.support.server_processes import serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

UNIT = "arcwise@.service"
HEADING = Task("heading", Circle(360), 1.0)


@pytest.fixture
def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOYMENT / UNIT)
    return parser


@pytest.mark.slow
def test_a_server_runs_with_the_settings(tmp_path: Path) -> None:
    HEADING.save(tmp_path / "heading.json")
    # The command's options replace the paths of the file.
    with serving(tmp_path, "--config", str(DEPLOYMENT / "arcwise.toml"), "--drain-seconds", "0") as (
        url,
        process,
    ):
        assert httpx.get(f"{url}/health/ready").status_code == 200
        assert httpx.get(f"{url}/v1/tasks").status_code == 200
        # As the proxy sends it: keys are needed.
        assert httpx.get(f"{url}/v1/tasks", headers={"x-forwarded-for": "203.0.113.1"}).status_code == 401
        process.terminate()
        process.wait(60)
    assert all(json.loads(line) for line in (tmp_path / "stderr").read_text("utf-8").splitlines())


def test_the_unit_runs_the_command_and_waits_for_its_end(
    unit: configparser.ConfigParser, tmp_path: Path
) -> None:
    service = unit["Service"]
    words = shlex.split(service["ExecStart"])
    assert Path(words[0]).name == "arcwise"
    assert words[1:] == ["serve", "--config", "/etc/arcwise/arcwise.toml", "--port", "%i"]
    serve.make_context("serve", ["--config", str(DEPLOYMENT / "arcwise.toml"), "--port", "8001"])
    HEADING.save(tmp_path / "heading.json")
    settings = configure({"tasks": tmp_path}, DEPLOYMENT / "arcwise.toml")
    assert int(service["TimeoutStopSec"]) >= settings.drain_seconds + 15
    assert int(service["LimitNOFILE"]) >= 2 * settings.max_connections
    assert settings.store.startswith(f"sqlite:////var/lib/{service['StateDirectory']}/")


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    targets = list(Path("/lib/systemd/system").glob("*.target"))
    if analyze is None or not targets:
        pytest.skip("systemd is not here")
    system = tmp_path / "etc" / "systemd" / "system"
    system.mkdir(parents=True)
    for file in (*targets, DEPLOYMENT / UNIT):
        shutil.copy(file, system)
    program = tmp_path / "opt" / "arcwise" / "bin" / "arcwise"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    command = [analyze, "verify", f"--root={tmp_path}", "arcwise@8001.service"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = "\n".join(line for line in done.stderr.splitlines() if "arcwise" in line)
    assert (done.returncode, said) == (0, "")


class Container(NamedTuple):
    """The last stage of the container file."""

    steps: list[tuple[str, str]]

    def all(self, instruction: str) -> list[str]:
        return [words for name, words in self.steps if name == instruction]

    def one(self, instruction: str) -> str:
        (words,) = self.all(instruction)
        return words


@pytest.fixture
def container() -> Container:
    text = (DEPLOYMENT / "Containerfile").read_text("utf-8")
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    steps = [(name, words) for name, _, words in (line.partition(" ") for line in lines if line)]
    last = max(place for place, (name, _) in enumerate(steps) if name == "FROM")
    return Container(steps[last:])


def test_the_container_is_not_root_and_holds_the_wheel_only(container: Container) -> None:
    names = [name for name, _ in container.steps]
    assert "COPY" not in names
    assert "ADD" not in names
    assert f"--uid {container.one('USER')} " in container.one("RUN")
    assert int(container.one("USER")) > 0
    assert names.index("USER") > names.index("RUN")
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", container.one("FROM"))
    assert container.one("VOLUME") in container.one("RUN")


@pytest.mark.slow
def test_the_container_starts_is_healthy_and_stops(container: Container, tmp_path: Path) -> None:
    variables = dict(words.split("=", 1) for words in container.one("ENV").split())
    assert {name.removeprefix("ARCWISE_").lower() for name in variables} <= set(settings_of(ProcessSettings))
    assert variables["ARCWISE_PORT"] == container.one("EXPOSE")
    assert variables["ARCWISE_STORE"].startswith(f"sqlite:///{container.one('VOLUME')}/")
    assert f"install -d {variables['ARCWISE_TASKS']}" in container.one("RUN")
    HEADING.save(tmp_path / "heading.json")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ARCWISE_")}
    environment |= variables
    environment |= {"ARCWISE_STORE": f"sqlite:///{tmp_path / 'server.db'}", "ARCWISE_TASKS": str(tmp_path)}
    # Without a key it does not start; `arcwise key new` in the same container uses the same store.
    refused = CliRunner().invoke(main, json.loads(container.one("CMD")), env=environment)
    assert "the store has no keys, and 0.0.0.0 is not an address of this machine alone" in refused.output
    made = CliRunner().invoke(main, ["key", "new", "--scope", "ingest"], env=environment)
    assert made.exit_code == 0
    assert json.loads(container.one("ENTRYPOINT")) == ["arcwise"]
    assert json.loads(container.one("CMD")) == ["serve"]
    check = json.loads(container.one("HEALTHCHECK").removeprefix("CMD "))
    check[0] = sys.executable
    assert container.one("STOPSIGNAL") == "SIGTERM"
    with serving(tmp_path, "--host", "127.0.0.1", environment=environment) as (url, process):
        environment["ARCWISE_PORT"] = url.rpartition(":")[2]
        assert subprocess.run(check, env=environment, check=False).returncode == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
    assert subprocess.run(check, env=environment, check=False, capture_output=True).returncode == 1


def test_every_file_is_of_the_deployment() -> None:
    page = (DEPLOYMENT.parents[1] / "docs" / "howto" / "run-a-server.md").read_text("utf-8")
    for file in DEPLOYMENT.iterdir():
        assert f"(../../examples/deployment/{file.name})" in page


# --- alerts and the dashboard -----------------------------------------------------------------------------

DOCS = DEPLOYMENT.parents[1] / "docs"
PAGE = DOCS / "howto" / "run-a-server.md"
METRICS = DOCS / "reference" / "metrics.md"
ALERTS = DEPLOYMENT / "alerts.yml"
DASHBOARD = DEPLOYMENT / "grafana_dashboard.json"
COMPOSE = DEPLOYMENT / "compose.yaml"
OWN = {"up"}  # Prometheus's own, of each target


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def known_samples() -> dict[str, set[str]]:
    """Return the labels of each sample of /metrics; `tests/server/test_metrics.py` checks the page."""
    found: dict[str, set[str]] = {}
    table = re.findall(
        r"^\| `(\w+)` \| (counter|gauge|histogram) \|([^|]*)\|", METRICS.read_text("utf-8"), re.MULTILINE
    )
    for name, kind, labels in table:
        ends = ("_bucket", "_count", "_sum") if kind == "histogram" else ("",)
        for end in ends:
            found[name + end] = {"job", "instance", *re.findall(r"`(\w+)`", labels)}
            found[name + end] |= {"le"} if end == "_bucket" else set()
    assert len(found) > 30
    return found | {name: {"job", "instance"} for name in OWN}


def asked_for(query: str) -> dict[str, set[str]]:
    """Return the metrics of a query with the labels that it selects by."""
    found: dict[str, set[str]] = {}
    for name, chosen in re.findall(r"\b((?:arcwise|process|python)_\w+|up\b)(?:\{([^}]*)\})?", query):
        found.setdefault(name, set()).update(re.findall(r"(\w+)\s*[=!]~?", chosen))
    return found


def assert_known(queries: Mapping[str, str]) -> None:
    known = known_samples()
    for title, query in queries.items():
        metrics = asked_for(query)
        assert metrics, title
        for name, labels in metrics.items():
            assert name in known, f"{title} asks for {name}, which /metrics does not have"
            assert labels <= known[name], f"{title} asks for labels that {name} does not have"
        for labels_by in re.findall(r"by \(([^)]*)\)", query):
            every = set[str]().union(*(known[name] for name in metrics))
            assert {label.strip() for label in labels_by.split(",")} <= every, title


def promtool(*arguments: str, folder: Path = DEPLOYMENT, code: int = 0) -> str:
    """Run promtool; return all its output."""
    program = find_program("promtool")
    if program is None:
        pytest.skip("promtool is not here")
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def rules() -> list[dict[str, Any]]:
    return [rule for group in read(ALERTS)["groups"] for rule in group["rules"]]


def test_alerts_are_about_metrics_that_exist() -> None:
    assert_known({rule["alert"]: rule["expr"] for rule in rules()})
    assert {rule["labels"]["severity"] for rule in rules()} == {"critical", "warning"}


def test_alerts_are_about_refusals_that_exist() -> None:
    text = (DOCS / "reference" / "protocol.md").read_text("utf-8")
    for rule in rules():
        for reasons in re.findall(r'reason=~?"([^"]*)"', rule["expr"]):
            for reason in reasons.split("|"):
                assert re.search(rf"\b{reason}\b", text), f"{rule['alert']}: {reason}"


def test_every_alert_says_what_to_do() -> None:
    rows = re.findall(r"^\| `(Arcwise\w+)` \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [name for name, *_ in rows] == [rule["alert"] for rule in rules()]


def test_every_alert_is_tested() -> None:
    fires, silent = set[str](), set[str]()
    for test in read(DEPLOYMENT / "alerts_test.yml")["tests"]:
        for case in test["alert_rule_test"]:
            (fires if case.get("exp_alerts") else silent).add(case["alertname"])
    assert fires == silent == {rule["alert"] for rule in rules()}


@pytest.mark.slow
def test_promtool_accepts_the_alerts_and_their_tests() -> None:
    promtool("check", "rules", ALERTS.name)
    promtool("test", "rules", "alerts_test.yml")


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["vector(1) > 1", "vector(1) > 0"])  # never, and always
def test_the_tests_of_the_alerts_fail_where_an_alert_is_wrong(tmp_path: Path, wrong: str) -> None:
    shutil.copy(DEPLOYMENT / "alerts_test.yml", tmp_path)
    groups = read(ALERTS)
    for rule in groups["groups"][0]["rules"]:
        rule["expr"] = wrong
    (tmp_path / ALERTS.name).write_text(yaml.safe_dump(groups), "utf-8")
    told = promtool("test", "rules", "alerts_test.yml", folder=tmp_path, code=1)
    for rule in rules():
        assert f"alertname: {rule['alert']}," in told


def expressions() -> dict[str, str]:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in panels
        for target in panel.get("targets", [])
    }


@pytest.mark.skipif(sys.version_info < (3, 11), reason="grafana-foundation-sdk takes Python 3.11")
def test_the_dashboard_is_what_its_script_builds() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="the extra dev is not installed")
    command = [
        sys.executable,
        "-B",
        "-c",
        "from grafana_dashboard import dashboard; print(dashboard(), end='')",
    ]
    done = subprocess.run(command, cwd=DEPLOYMENT, capture_output=True, text=True, check=True)
    assert done.stdout == DASHBOARD.read_text("utf-8"), "run python examples/deployment/grafana_dashboard.py"


def test_the_dashboard_asks_for_metrics_that_exist(tmp_path: Path) -> None:
    found = expressions()
    assert len(found) > 20
    assert_known(found)
    # As rules, so that promtool parses them; Grafana replaces these variables.
    queries = [re.sub(r"\$__\w+", "5m", query) for query in found.values()]
    groups = [{"name": "x", "rules": [{"record": f"r{n}", "expr": query} for n, query in enumerate(queries)]}]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": groups}), "utf-8")
    promtool("check", "rules", "rules.yml", folder=tmp_path)


def test_every_metric_of_arcwise_is_on_the_dashboard() -> None:
    shown = {name for query in expressions().values() for name in asked_for(query)}
    missing = {name for name in known_samples() if name.startswith("arcwise_")} - shown
    families = {re.sub("_(bucket|count|sum)$", "", name) for name in shown}
    left_out = {name for name in missing if re.sub("_(bucket|count|sum)$", "", name) not in families}
    assert left_out == {
        "arcwise_archive_batches_total",
        "arcwise_archive_failing",
        "arcwise_archive_failures_total",
        "arcwise_archive_oldest_seconds",
        "arcwise_archive_set_aside_total",
        "arcwise_archive_staged_batches",
        "arcwise_source_replaced_timestamp_seconds",
        "arcwise_source_reports",
    }


@pytest.mark.parametrize("name", ["prometheus.yml", "compose/prometheus.yml"])
def test_promtool_accepts_the_configuration(name: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("SECRET")
    text = (DEPLOYMENT / name).read_text("utf-8").replace("/etc/prometheus/alerts.yml", str(ALERTS))
    text = re.sub(r"credentials_file: .*", f"credentials_file: {tmp_path / 'key'}", text)
    (tmp_path / "prometheus.yml").write_text(text, "utf-8")
    assert f"{len(rules())} rules found" in promtool("check", "config", "prometheus.yml", folder=tmp_path)


# --- compose.yaml -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def composed() -> Any:
    """Return compose.yaml as Compose reads it, with merged parts."""
    program = find_program("docker-compose")
    if program is None:
        pytest.skip("docker-compose is not here")
    command = [program, "--file", str(COMPOSE), "config"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return yaml.safe_load(done.stdout)


def services(composed: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from composed["services"].items()


@pytest.mark.slow
def test_every_service_is_checked_restarted_and_pinned(composed: Any) -> None:
    assert len(composed["services"]) == 6
    for name, service in services(composed):
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert service["restart"] == "unless-stopped", name
        assert re.search(r":v?\d+\.\d+(\.\d+)?(-\w+)?$", service["image"]), name
        for needed, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert needed in composed["services"]


def test_secrets_are_files_and_nothing_else(composed: Any) -> None:
    folder = DEPLOYMENT / "secrets"
    assert {Path(each["file"]).parent for each in composed["secrets"].values()} == {folder}
    used = [each["source"] for _, service in services(composed) for each in service.get("secrets", [])]
    assert set(used) == set(composed["secrets"])
    made = re.findall(r"(?:>|cp \S+|touch) secrets/(\w+)", COMPOSE.read_text("utf-8"))
    assert set(made) == set(composed["secrets"])
    for name, service in services(composed):
        for variable, value in service.get("environment", {}).items():
            if re.search("password|secret|key|token", f"{variable}", re.IGNORECASE):
                assert value.startswith("/run/secrets/"), f"{name}: {variable}"
            assert not re.search("://[^/@]*:[^/@]*@", value), f"{name}: {variable}"
    for ignored in (".gitignore", ".dockerignore"):
        assert "examples/deployment/secrets" in (DEPLOYMENT.parents[1] / ignored).read_text("utf-8")


def test_only_nginx_is_reached_from_outside(composed: Any) -> None:
    ports = {name: service["ports"] for name, service in services(composed) if "ports" in service}
    assert ports.keys() == {"nginx", "grafana"}
    assert ports["nginx"] in ([{"published": 443, "target": 443}], ["443:443/tcp"])
    assert ports["grafana"] == ["127.0.0.1:3000:3000/tcp"]
    networks = composed["networks"]
    members = {
        network: {name for name, service in services(composed) if network in service["networks"]}
        for network in networks
    }
    assert members["store"] == {"postgres", "worker-1", "worker-2"}
    assert members["workers"] == {"nginx", "prometheus", "worker-1", "worker-2"}
    assert members["metrics"] == {"prometheus", "grafana"}
    assert {name for name, network in networks.items() if not network.get("internal")} == {
        "outside",
        "grafana",
    }


def test_the_workers_understand_their_settings(composed: Any) -> None:
    for name in ("worker-1", "worker-2"):
        environment = composed["services"][name]["environment"]
        known = settings_of(ProcessSettings)
        assert {variable.removeprefix("ARCWISE_").lower() for variable in environment} <= set(known)
        nginx = composed["services"]["nginx"]["networks"]["workers"]["ipv4_address"]
        assert json.loads(environment["ARCWISE_TRUSTED_PROXIES"]) == [nginx]
        database = Database(environment["ARCWISE_STORE"])
        assert database.name.startswith("postgresql://arcwise@postgres/arcwise")


@pytest.mark.slow
def test_a_worker_is_healthy_when_it_is_ready(composed: Any, tmp_path: Path) -> None:
    HEADING.save(tmp_path / "heading.json")
    worker = composed["services"]["worker-1"]
    with serving(tmp_path) as (url, process):
        port = url.rpartition(":")[2]
        check = [part.replace("8000", port) for part in worker["healthcheck"]["test"][1:]]
        check[0] = sys.executable
        assert subprocess.run(check, check=False).returncode == 0
        process.terminate()
        process.wait(60)
    assert subprocess.run(check, check=False, capture_output=True).returncode != 0
    with pytest.raises(httpx.TransportError):
        httpx.get(url)


def test_nginx_is_that_of_the_page_with_other_addresses(composed: Any) -> None:
    text = (DEPLOYMENT / "nginx.conf").read_text("utf-8")
    for worker, port in (("worker-1", 8001), ("worker-2", 8002)):
        address = composed["services"][worker]["networks"]["workers"]["ipv4_address"]
        text = text.replace(f"127.0.0.1:{port}", f"{address}:8000")
    folder = "/etc/letsencrypt/live/reports.example/"
    text = text.replace(f"{folder}fullchain.pem", "/run/secrets/tls_certificate")
    text = text.replace(f"{folder}privkey.pem", "/run/secrets/tls_key")
    own = (DEPLOYMENT / "compose" / "nginx.conf").read_text("utf-8")
    assert own.partition("\n")[2] == text.partition("\n")[2]


def test_what_is_mounted_is_there(composed: Any) -> None:
    mounted = [
        volume.split(":")[0]
        for _, service in services(composed)
        for volume in service.get("volumes", [])
        if volume.startswith("/")
    ]
    assert len(mounted) == 7 + 1
    assert {path for path in map(Path, mounted) if not path.exists()} <= {DEPLOYMENT / "tasks"}
    targets = read(DEPLOYMENT / "compose" / "prometheus.yml")["scrape_configs"][0]["static_configs"]
    assert targets == [{"targets": ["worker-1:8000", "worker-2:8000"]}]
