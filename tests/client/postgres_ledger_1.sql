-- Ledgers as the first arcwise with ledgers in PostgreSQL wrote them. It never changes: such tables exist.
-- One row. Whoever changes the queue locks the table: processes seal and settle batches one at a time.
CREATE TABLE state (
    only_row boolean PRIMARY KEY CHECK (only_row),
    version integer NOT NULL,
    sent bigint NOT NULL CHECK (sent >= 0)
);
INSERT INTO state VALUES (true, 1, 0);

CREATE TABLE dropped (reason text PRIMARY KEY, reports bigint NOT NULL CHECK (reports > 0));

-- What was spent and answered, see contents.py. A report holds its account's row until its transaction ends.
CREATE TABLE accounts (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    account text NOT NULL UNIQUE,
    opted_out boolean NOT NULL DEFAULT false,
    contents jsonb NOT NULL
);

CREATE TABLE tasks (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id text NOT NULL UNIQUE CHECK (id ~ '^[0-9a-f]{64}$'),
    name text NOT NULL,
    width integer NOT NULL CHECK (width IN (1, 2))
);

-- Codes that wait. Times are the wall clock's; "ready" is the end of a random delay. The account is there for
-- opting out: it goes when the code is sealed into a batch.
CREATE TABLE reports (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    account bigint NOT NULL REFERENCES accounts ON DELETE CASCADE,
    task bigint NOT NULL REFERENCES tasks,
    epoch bigint NOT NULL,
    code integer NOT NULL CHECK (code BETWEEN 0 AND 65535),
    created double precision NOT NULL,
    ready double precision NOT NULL
);
CREATE INDEX reports_by_batch ON reports (task, epoch, number);
CREATE INDEX reports_by_account ON reports (account);

-- Sealed batches: these bytes, and no others, are sent until they are acknowledged or dropped.
CREATE TABLE batches (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    task bigint NOT NULL REFERENCES tasks,
    reports integer NOT NULL CHECK (reports > 0),
    first_report bigint NOT NULL,
    created double precision NOT NULL,
    leased_until double precision NOT NULL DEFAULT 0,
    leased_by bigint NOT NULL DEFAULT 0,
    owner bigint NOT NULL DEFAULT 0,
    body bytea NOT NULL
);

-- Waits between attempts, of everything ('') and of single tasks; wall-clock times until which they last.
CREATE TABLE waits (
    scope text PRIMARY KEY,
    failures integer NOT NULL,
    own double precision NOT NULL,
    asked double precision NOT NULL
);

UPDATE state SET sent = 2;
INSERT INTO dropped VALUES ('410', 1);
INSERT INTO accounts (account, opted_out, contents) VALUES
    ('somebody', false, '{"now": 1750000180.0, "accounts": {"61d07e09b449c1488572febba7d70685e5f2520ca37f797dda58bb1b46b8715e": {"epsilon": 1500000, "delta": 0, "window": 0, "recent_epsilon": 0, "recent_delta": 0, "entries": []}, "": {"epsilon": 5500000, "delta": 0, "window": 0, "recent_epsilon": 0, "recent_delta": 0, "entries": []}, "499992645688d6e1173f866a7482858ef56804a1a8cdd0b56b09972a5e71be57": {"epsilon": 4000000, "delta": 0, "window": 86400, "recent_epsilon": 4000000, "recent_delta": 0, "entries": [[1750000000, 2000000, 0], [1750000060, 1000000, 0], [1750000180, 1000000, 0]]}}, "memos": {"61d07e09b449c1488572febba7d70685e5f2520ca37f797dda58bb1b46b8715e": {"draw": 15696692168314260607, "paid": 3, "answers": {"0": 6, "12": 2}}}}'),
    ('other', true, '{"now": null, "accounts": {}, "memos": {}}');
INSERT INTO tasks (id, name, width) VALUES
    ('499992645688d6e1173f866a7482858ef56804a1a8cdd0b56b09972a5e71be57', 'heading', 1),
    ('61d07e09b449c1488572febba7d70685e5f2520ca37f797dda58bb1b46b8715e', 'hour', 1);
INSERT INTO reports (number, account, task, epoch, code, created, ready) OVERRIDING SYSTEM VALUE
    VALUES (7, 1, 1, 20254, 14, 1750000180, 1750000180);
SELECT setval('reports_number_seq', 7);
INSERT INTO batches (task, reports, first_report, created, leased_until, leased_by, owner, body)
    VALUES (2, 3, 4, 1750000120, 0, 12837, 2232389709860103575, '\x9501c42061d07e09b449c1488572febba7d70685e5f2520ca37f797dda58bb1b46b8715ec410d0b37e09d5ca5292ce6f076eee25ba6ccd4f1ec403020606');
INSERT INTO waits VALUES ('', 1, 1750000120.5, 1750003720);
