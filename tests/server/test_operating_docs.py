"""docs/howto/run-a-server.md, followed from its first command to its last, under load."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
import psycopg
import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from arcwise.server.store import open_store
from arcwise.tasks import Task
from tests.support.machines import Load, Machine, find_program
from tests.support.postgres import own_url, programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "run-a-server.md"
NEEDED = ("bash", "curl", "sed", "openssl")

DEVICE = r"127\.0\.[1-9]"  # where `Load` sends from; workers and nginx are on 127.0.0.1

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the page is about Linux")


def sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each heading of a page with the commands under it."""
    parts = re.split(r"^##+ (.*)$", text, flags=re.MULTILINE)
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        yield heading, re.findall(r"^```sh\n(.*?)^```$", body, re.DOTALL | re.MULTILINE)


def in_background(block: str) -> str:
    """Run a server that a person would leave running in a terminal, in parallel with the next blocks."""
    ready = "until grep -qs listening serve.log; do sleep 0.05; done"
    run = rf"rm -f serve.log\n\g<0> > serve.log 2>&1 & SERVER=$!\n{ready}"
    return re.sub(r"^arcwise serve.*$", run, block, flags=re.MULTILINE)


@pytest.fixture
def database() -> Iterator[dict[str, str]]:
    """Yield the environment in which PostgreSQL is found, and remove the page's changes to it."""
    url = own_url()
    host = psycopg.conninfo.conninfo_to_dict(url)["host"]
    yield {"PGHOST": str(host), "PATH": f"{programs()}:{os.environ['PATH']}:/usr/sbin"}
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("DROP DATABASE IF EXISTS arcwise WITH (FORCE)")
        connection.execute("DROP ROLE IF EXISTS arcwise")


@pytest.fixture
def machine(tmp_path: Path, database: dict[str, str]) -> Iterator[Machine]:
    for name in NEEDED:
        if find_program(name) is None:
            pytest.skip(f"docs/howto/run-a-server.md uses {name}, which is not here")
    root = os.getuid() == 0
    table = {
        # An account is made in the machine's own /etc/passwd, if this test may do so.
        "sudo useradd": f"useradd --prefix {tmp_path}" if root else f"mkdir -p {tmp_path}/var/lib/arcwise; :",
        "--home-dir /var/": "--home-dir /var/",
        # `make wheel` installs the wheel into an environment; here arcwise itself is under test.
        "python3 -m venv": "python3 -m venv --without-pip",
        "sudo /opt/arcwise/bin/pip install 'arcwise[postgres]'": f"cp bin/arcwise {tmp_path}/opt/arcwise/bin",
        "drain_seconds = 5": "drain_seconds = 0.5",
    }
    with Machine(tmp_path, database, table) as machine:
        if machine.nginx:
            machine.start_nginx()
        yield machine


class Walk:
    """Follows the page, and checks the state after each section."""

    def __init__(self, machine: Machine, database: dict[str, str]) -> None:
        self.machine = machine
        self.shell = machine.shell()
        self.postgres = f"postgresql://arcwise@/arcwise?host={quote(database['PGHOST'], safe='')}"
        self.sqlite = f"sqlite:///{machine.root}/var/lib/arcwise/arcwise.db"
        self.run_blocks: list[str] = []
        self.counted: set[int] = set()  # the batches that the store must hold, once each
        self.looks: dict[str, Callable[[list[str]], None]] = {
            "One process": self.one_process,
            "TLS and a proxy": self.proxy,
            "Backup and restore: SQLite": self.sqlite_backup,
            "PostgreSQL": self.move,
            "Several workers": self.several,
            "Rolling restarts": self.replace,
            "Metrics and alerts": self.metrics,
            "Backup and restore: PostgreSQL": self.postgres_backup,
            "Upgrading arcwise": self.migrate,
        }

    def run(self, block: str) -> str:
        self.run_blocks.append(block)
        if not self.machine.nginx:
            block = "".join(
                line for line in block.splitlines(True) if "nginx" not in line and "https://" not in line
            )
        return self.shell.run(self.machine.place(in_background(block)))

    def section(self, heading: str, blocks: list[str]) -> None:
        look = self.looks.pop(heading, None)
        if look is None:
            for block in blocks:
                self.run(block)
        else:
            look(blocks)
        if any(re.search("^arcwise serve", block, re.MULTILINE) for block in blocks):
            self.shell.run("kill $SERVER; wait $SERVER || true")

    def load(self) -> Load:
        machine = self.machine
        url = machine.url if machine.nginx else f"http://127.0.0.1:{machine.ports['8001']}"
        task = Task.load(machine.root / "tasks" / "heading.json")
        certificate = machine.certificate if machine.nginx else None
        return Load(url, task, self.shell.variable("INGEST"), certificate)

    def assert_counted(self, url: str, load: Load) -> None:
        with closing(open_store(url, create=False)) as store:
            assert store.check() == []
            assert store.counts(load.task).tolist() == load.counts(self.counted)

    # -- the sections --

    def one_process(self, blocks: list[str]) -> None:
        printed = [self.run(block) for block in blocks]
        assert '"ok"' in printed[1]
        assert '"heading"' in printed[1]

    def proxy(self, blocks: list[str]) -> None:
        printed = [self.run(block) for block in blocks]
        if self.machine.nginx:
            assert '"heading"' in printed[0]
        with self.load() as load:
            load.wait_for(50)
        assert not load.failures
        self.counted |= load.acknowledged
        self.assert_counted(self.sqlite, load)

    def sqlite_backup(self, blocks: list[str]) -> None:
        backup, restore = blocks
        url = self.sqlite.replace("arcwise.db", "backup.db")
        with self.load() as load:
            before = set(load.acknowledged)
            assert "the store is whole" in self.run(backup)
            load.wait_for(20)
        self.run(restore)
        self.restored(url, load, before)
        self.assert_counted(self.sqlite, load)

    def restored(self, url: str, load: Load, before: set[int]) -> None:
        """Check a backup, and let devices resend what it may lack: at the end, all count once."""
        with closing(open_store(url, create=False)) as store:
            held = sum(store.counts(load.task).tolist())
        assert len(self.counted | before) <= held < len(self.counted | load.acknowledged)
        self.machine.wait_until_ready("8001")
        load.send_again(load.acknowledged)
        self.counted |= load.acknowledged

    def move(self, blocks: list[str]) -> None:
        for block in blocks:
            self.run(block)
        self.assert_counted(self.postgres, self.load())

    def several(self, blocks: list[str]) -> None:
        (block,) = blocks
        printed = self.run(block)
        if self.machine.nginx:
            assert '"heading"' in printed
        with self.load() as load:
            load.send_again(self.counted)  # batches that SQLite had counted are known here
            load.wait_for(20)
        self.counted |= load.acknowledged
        self.assert_counted(self.postgres, load)

    def replace(self, blocks: list[str]) -> None:
        (block,) = blocks
        units = [f"arcwise@{self.machine.ports[port]}" for port in ("8001", "8002")]
        before = {self.machine.services.process(unit).pid for unit in units}
        with self.load() as load:
            self.run(block)
            load.wait_for(20)
        if self.machine.nginx:
            assert not load.failures
        assert not before & {self.machine.services.process(unit).pid for unit in units}
        self.counted |= load.acknowledged
        self.assert_counted(self.postgres, load)

    def metrics(self, blocks: list[str]) -> None:
        (block,) = blocks
        self.run(block)
        file = self.machine.root / "etc" / "prometheus" / "prometheus.yml"
        if promtool := find_program("promtool"):
            subprocess.run([promtool, "check", "config", str(file)], check=True, stdout=subprocess.DEVNULL)
        (job,) = yaml.safe_load(file.read_text("utf-8"))["scrape_configs"]
        key = Path(job["authorization"]["credentials_file"]).read_text("utf-8").strip()
        targets = [target for static in job["static_configs"] for target in static["targets"]]
        assert len(targets) == 2
        named = set(re.findall(r"[(](arcwise_[a-z_]+)[\[)]", PAGE.read_text("utf-8")))
        assert len(named) == 4
        samples: set[str] = set()
        for target in targets:
            url = f"http://{target}/metrics"
            assert httpx.get(url).status_code == 401  # a refusal to count
            answer = httpx.get(url, headers={"authorization": f"Bearer {key}"}).raise_for_status()
            families = text_string_to_metric_families(answer.text)
            samples |= {sample.name for family in families for sample in family.samples}
        assert named <= samples

    def postgres_backup(self, blocks: list[str]) -> None:
        backup, restore = blocks
        with self.load() as load:
            before = set(load.acknowledged)
            self.run(backup)
            load.wait_for(20)
        assert "the store is whole" in self.run(restore)
        self.restored(self.postgres, load, before)
        self.assert_counted(self.postgres, load)

    def migrate(self, blocks: list[str]) -> None:
        (block,) = blocks
        assert self.run(block) == "nothing to do\nnothing to do"


@pytest.mark.slow
def test_every_command_of_the_page_runs(machine: Machine, database: dict[str, str]) -> None:
    text = PAGE.read_text("utf-8")
    walk = Walk(machine, database)
    with walk.shell:
        for heading, blocks in sections(text):
            if blocks:
                walk.section(heading, blocks)
    # No command is missed: every fence is a shell block, and every one was run.
    assert len(walk.run_blocks) == len(re.findall(r"^```", text, re.MULTILINE)) / 2
    assert not walk.looks
    assert all(status in (0, -15) for _, status in machine.services.returned)
    for name, log in machine.logs().items():
        assert not re.search(DEVICE, log), name
    if not machine.nginx:
        pytest.skip("all was run but the lines for nginx, which is not here")
