"""The tables of a ledger's file."""

from __future__ import annotations

from typing import Final

APPLICATION_ID: Final = 0x61726377
"""The application id in SQLite's file header: "arcw"."""

VERSION: Final = 1

SCHEMA: Final = """
-- The checks describe valid values: they reveal on opening damage that SQLite itself cannot see.

-- One row. The time is the largest that the ledger has seen.
CREATE TABLE state (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    now REAL NOT NULL CHECK (typeof(now) = 'real' AND abs(now) < 1e15),
    opted_out INTEGER NOT NULL CHECK (opted_out IN (0, 1)),
    pending INTEGER NOT NULL CHECK (typeof(pending) = 'integer' AND pending >= 0),
    sent INTEGER NOT NULL CHECK (typeof(sent) = 'integer' AND sent >= 0)
);
INSERT INTO state VALUES (1, 0, 0, 0, 0);

CREATE TABLE dropped (reason TEXT PRIMARY KEY, reports INTEGER NOT NULL CHECK (reports > 0)) WITHOUT ROWID;

-- Spending: micro-epsilon, and delta in units of 2**-64 as a decimal, since sums exceed 64 bits.
-- An account is a task's id, a group's id, or '' for everything; "recent" means the rolling window.
CREATE TABLE accounts (
    account TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    epsilon INTEGER NOT NULL CHECK (typeof(epsilon) = 'integer' AND epsilon BETWEEN 0 AND 1e18),
    delta TEXT NOT NULL CHECK (typeof(delta) = 'text' AND delta <> '' AND delta NOT GLOB '*[^0-9]*'),
    window INTEGER NOT NULL CHECK (typeof(window) = 'integer' AND window >= 0),
    recent_epsilon INTEGER NOT NULL
        CHECK (typeof(recent_epsilon) = 'integer' AND recent_epsilon BETWEEN 0 AND epsilon),
    recent_delta TEXT NOT NULL
        CHECK (typeof(recent_delta) = 'text' AND recent_delta <> '' AND recent_delta NOT GLOB '*[^0-9]*')
) WITHOUT ROWID;

-- Charges that a rolling cap still counts, by the whole second at which they were made.
CREATE TABLE entries (
    account TEXT NOT NULL,
    second INTEGER NOT NULL CHECK (typeof(second) = 'integer'),
    epsilon INTEGER NOT NULL CHECK (typeof(epsilon) = 'integer' AND epsilon BETWEEN 0 AND 1e18),
    delta TEXT NOT NULL CHECK (typeof(delta) = 'text' AND delta <> '' AND delta NOT GLOB '*[^0-9]*'),
    PRIMARY KEY (account, second)
) WITHOUT ROWID;

CREATE TABLE tasks (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE CHECK (length(id) = 64 AND id NOT GLOB '*[^0-9a-f]*'),
    name TEXT NOT NULL,
    width INTEGER NOT NULL CHECK (width IN (1, 2))
);

-- Waiting codes. Times are wall-clock times; "ready" is the end of a random delay.
CREATE TABLE reports (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL REFERENCES tasks,
    epoch INTEGER NOT NULL CHECK (typeof(epoch) = 'integer'),
    code INTEGER NOT NULL CHECK (typeof(code) = 'integer' AND code BETWEEN 0 AND 65535),
    created REAL NOT NULL CHECK (typeof(created) = 'real' AND abs(created) < 1e15),
    ready REAL NOT NULL CHECK (typeof(ready) = 'real' AND abs(ready) < 1e15)
);
CREATE INDEX reports_by_batch ON reports (task, epoch);

-- Sealed batches: exactly these bytes are sent until they are acknowledged or dropped.
CREATE TABLE batches (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL REFERENCES tasks,
    reports INTEGER NOT NULL CHECK (typeof(reports) = 'integer' AND reports > 0),
    first_report INTEGER NOT NULL,
    created REAL NOT NULL CHECK (typeof(created) = 'real' AND abs(created) < 1e15),
    leased_until REAL NOT NULL DEFAULT 0 CHECK (typeof(leased_until) = 'real' AND abs(leased_until) < 1e15),
    leased_by INTEGER NOT NULL DEFAULT 0 CHECK (typeof(leased_by) = 'integer'),
    owner INTEGER NOT NULL DEFAULT 0,
    body BLOB NOT NULL CHECK (typeof(body) = 'blob')
);

-- Waits between attempts, for everything ('') and for single tasks; the times are wall-clock end times.
CREATE TABLE waits (
    scope TEXT PRIMARY KEY,
    failures INTEGER NOT NULL CHECK (typeof(failures) = 'integer'),
    own REAL NOT NULL CHECK (typeof(own) = 'real' AND abs(own) < 1e15),
    asked REAL NOT NULL CHECK (typeof(asked) = 'real' AND abs(asked) < 1e15)
) WITHOUT ROWID;

-- Memoised tasks: the draw that rounds their values, the number of paid answers, and the answers.
CREATE TABLE memos (
    task TEXT PRIMARY KEY,
    draw TEXT NOT NULL CHECK (typeof(draw) = 'text' AND draw <> '' AND draw NOT GLOB '*[^0-9]*'),
    paid INTEGER NOT NULL CHECK (typeof(paid) = 'integer' AND paid > 0)
) WITHOUT ROWID;
CREATE TABLE answers (
    task TEXT NOT NULL,
    node INTEGER NOT NULL CHECK (typeof(node) = 'integer' AND node >= 0),
    code INTEGER NOT NULL CHECK (typeof(code) = 'integer' AND code BETWEEN 0 AND 65535),
    PRIMARY KEY (task, node)
) WITHOUT ROWID;
"""

TABLES: Final = frozenset(line.split()[2] for line in SCHEMA.splitlines() if line.startswith("CREATE TABLE"))

MIRRORS: Final = {
    f"{table}_twice": f"CREATE INDEX {table}_twice ON {table} ({columns})"
    for table, columns in {
        "state": "now, opted_out, pending, sent",
        "accounts": "account, name, epsilon, delta, window, recent_epsilon, recent_delta",
        "entries": "account, second, epsilon, delta",
        "memos": "task, draw, paid",
    }.items()
}
"""Indexes, by name, that hold copies of the spending: a changed bit in either copy is found on opening.

Files of earlier versions get these indexes when they are opened.
"""

INDEXES: Final = MIRRORS | {
    "reports_by_ready": "CREATE INDEX reports_by_ready ON reports (task, epoch, ready)"
}
"""All indexes that the first version did not create."""
