"""The client in JavaScript has the names of the one in Python, in camel case."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import arcwise.client
from arcwise import errors
from arcwise.client.uplink import UplinkOptions
from arcwise.tasks import Task
from arcwise.version import __version__
from tests.support.nodejs import JAVASCRIPT, run_json

NAMES = """
import { readFileSync } from "node:fs";
import * as arcwise from "FOLDER/index.js";
import * as oblivious from "FOLDER/oblivious.js";
const own = (cls) => Object.getOwnPropertyNames(cls.prototype).filter((name) => name !== "constructor");
const task = await arcwise.Task.fromJson(JSON.parse(readFileSync(0, "utf8")));
const client = new arcwise.Client("http://127.0.0.1:9", { tasks: [task], caps: "unlimited" });
let options = "";
try {
  new arcwise.Client("http://127.0.0.1:9", { tasks: [task], nothing: 1 });
} catch (error) {
  options = error.message;
}
console.log(JSON.stringify({
  exports: [...Object.keys(arcwise), ...Object.keys(oblivious)],
  methods: own(arcwise.Client),
  options: options.split("there are ")[1].split(", "),
  task: Object.keys(task),
  counters: Object.keys(await client.counters()),
  budget: Object.keys(await client.budget(task.name)),
}));
"""

ONLY_IN_JAVASCRIPT = {
    *(
        "fetch",
        "IndexedDBLedger",
        "read_state",
        "write_state",
        "bytes",
        "kernel",
        "placement",
        "micro_epsilon",
    )
}
"""What to send with, a ledger of browsers, and what others read; what Python's `mechanism`, `charge` hold."""


def snake(name: str) -> str:
    return name if name[0].isupper() else re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def names(tmp_path: Any) -> dict[str, set[str]]:
    script = tmp_path / "names.mjs"
    script.write_text(NAMES.replace("FOLDER", (JAVASCRIPT / "arcwise").as_uri()), encoding="utf-8")
    task = Task("heading", arcwise.client.Circle(360), 1.0)
    found = run_json(script, given=task.to_json())
    return {kind: {snake(name) for name in given} - ONLY_IN_JAVASCRIPT for kind, given in found.items()}


def test_names_are_those_of_python(tmp_path: Any) -> None:
    found = names(tmp_path)
    client = arcwise.client.Client
    assert found["exports"] <= {*arcwise.client.__all__, *errors.__all__}
    public = {name for name in dir(client) if not name.startswith("_")}
    assert found["methods"] == public
    options = {*inspect.signature(client).parameters, *UplinkOptions.__annotations__} - {"server", "options"}
    options |= set(UplinkOptions.__mro__[0].__annotations__)
    assert found["options"] <= options
    assert found["counters"] == set(arcwise.client.Counters._fields)
    without_delta = {name for name in arcwise.client.accounts.Budget._fields if "delta" not in name}
    assert found["budget"] == without_delta
    assert found["task"] <= {name for name in dir(Task) if not name.startswith("_")}


def test_the_page_says_which_names_are_missing(tmp_path: Any) -> None:
    """The last row of the table in the README is about all options that are not here."""
    found = names(tmp_path)
    options = {*inspect.signature(arcwise.client.Client).parameters, *UplinkOptions.__annotations__}
    missing = options - found["options"] - {"server", "options"}
    text = (JAVASCRIPT / "README.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| (.*) \| \| not here \|$", text, re.MULTILINE)
    stated = {name.strip("`") for name in row.split(", ")}
    assert missing <= stated
    assert stated - missing == {"groups"}


def test_the_version_is_that_of_the_package() -> None:
    package = json.loads((JAVASCRIPT / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == __version__
    assert f'"arcwise-js/{__version__}"' in (JAVASCRIPT / "arcwise" / "transport.js").read_text(
        encoding="utf-8"
    )
