-- A ledger as the first arcwise wrote it, with all that it can hold. It never changes: such files exist.
PRAGMA application_id = 1634886519;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
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
INSERT INTO "accounts" VALUES('','everything',5500000,'0',0,0,'0');
INSERT INTO "accounts" VALUES('499992645688d6e1173f866a7482858ef56804a1a8cdd0b56b09972a5e71be57','heading',4000000,'0',86400,4000000,'0');
INSERT INTO "accounts" VALUES('61d07e09b449c1488572febba7d70685e5f2520ca37f797dda58bb1b46b8715e','hour',1500000,'0',0,0,'0');
CREATE TABLE answers (
    task TEXT NOT NULL,
    node INTEGER NOT NULL CHECK (typeof(node) = 'integer' AND node >= 0),
    code INTEGER NOT NULL CHECK (typeof(code) = 'integer' AND code BETWEEN 0 AND 65535),
    PRIMARY KEY (task, node)
) WITHOUT ROWID;
INSERT INTO "answers" VALUES('61d07e09b449c1488572febba7d70685e5f2520ca37f797dda58bb1b46b8715e',0,6);
INSERT INTO "answers" VALUES('61d07e09b449c1488572febba7d70685e5f2520ca37f797dda58bb1b46b8715e',12,2);
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
INSERT INTO "batches" VALUES(3,2,3,4,1750000120.0,0.0,12837,2232389709860103575,X'9501C42061D07E09B449C1488572FEBBA7D70685E5F2520CA37F797DDA58BB1B46B8715EC410D0B37E09D5CA5292CE6F076EEE25BA6CCD4F1EC403020606');
CREATE TABLE dropped (reason TEXT PRIMARY KEY, reports INTEGER NOT NULL CHECK (reports > 0)) WITHOUT ROWID;
INSERT INTO "dropped" VALUES('410',1);
CREATE TABLE entries (
    account TEXT NOT NULL,
    second INTEGER NOT NULL CHECK (typeof(second) = 'integer'),
    epsilon INTEGER NOT NULL CHECK (typeof(epsilon) = 'integer' AND epsilon BETWEEN 0 AND 1e18),
    delta TEXT NOT NULL CHECK (typeof(delta) = 'text' AND delta <> '' AND delta NOT GLOB '*[^0-9]*'),
    PRIMARY KEY (account, second)
) WITHOUT ROWID;
INSERT INTO "entries" VALUES('499992645688d6e1173f866a7482858ef56804a1a8cdd0b56b09972a5e71be57',1750000000,2000000,'0');
INSERT INTO "entries" VALUES('499992645688d6e1173f866a7482858ef56804a1a8cdd0b56b09972a5e71be57',1750000060,1000000,'0');
INSERT INTO "entries" VALUES('499992645688d6e1173f866a7482858ef56804a1a8cdd0b56b09972a5e71be57',1750000180,1000000,'0');
CREATE TABLE memos (
    task TEXT PRIMARY KEY,
    draw TEXT NOT NULL CHECK (typeof(draw) = 'text' AND draw <> '' AND draw NOT GLOB '*[^0-9]*'),
    paid INTEGER NOT NULL CHECK (typeof(paid) = 'integer' AND paid > 0)
) WITHOUT ROWID;
INSERT INTO "memos" VALUES('61d07e09b449c1488572febba7d70685e5f2520ca37f797dda58bb1b46b8715e','15696692168314260607',3);
CREATE TABLE reports (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL REFERENCES tasks,
    epoch INTEGER NOT NULL CHECK (typeof(epoch) = 'integer'),
    code INTEGER NOT NULL CHECK (typeof(code) = 'integer' AND code BETWEEN 0 AND 65535),
    created REAL NOT NULL CHECK (typeof(created) = 'real' AND abs(created) < 1e15),
    ready REAL NOT NULL CHECK (typeof(ready) = 'real' AND abs(ready) < 1e15)
);
INSERT INTO "reports" VALUES(7,1,20254,14,1750000180.0,1750000180.0);
CREATE TABLE state (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    now REAL NOT NULL CHECK (typeof(now) = 'real' AND abs(now) < 1e15),
    opted_out INTEGER NOT NULL CHECK (opted_out IN (0, 1)),
    pending INTEGER NOT NULL CHECK (typeof(pending) = 'integer' AND pending >= 0),
    sent INTEGER NOT NULL CHECK (typeof(sent) = 'integer' AND sent >= 0)
);
INSERT INTO "state" VALUES(1,1750000180.0,0,4,2);
CREATE TABLE tasks (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE CHECK (length(id) = 64 AND id NOT GLOB '*[^0-9a-f]*'),
    name TEXT NOT NULL,
    width INTEGER NOT NULL CHECK (width IN (1, 2))
);
INSERT INTO "tasks" VALUES(1,'499992645688d6e1173f866a7482858ef56804a1a8cdd0b56b09972a5e71be57','heading',1);
INSERT INTO "tasks" VALUES(2,'61d07e09b449c1488572febba7d70685e5f2520ca37f797dda58bb1b46b8715e','hour',1);
CREATE TABLE waits (
    scope TEXT PRIMARY KEY,
    failures INTEGER NOT NULL CHECK (typeof(failures) = 'integer'),
    own REAL NOT NULL CHECK (typeof(own) = 'real' AND abs(own) < 1e15),
    asked REAL NOT NULL CHECK (typeof(asked) = 'real' AND abs(asked) < 1e15)
) WITHOUT ROWID;
INSERT INTO "waits" VALUES('',1,1.75000012050252151491e+09,1750003720.0);
CREATE INDEX reports_by_batch ON reports (task, epoch);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('reports',7);
INSERT INTO "sqlite_sequence" VALUES('batches',3);
COMMIT;
