-- Tasks, batch ids, counts by shard, keys, and a name for the store.
-- Everything lies in the first schema of the connection's search path. Row `arcwise_schema` holds the version.

-- The tasks that were ever served, by a short number that the other tables use.
CREATE TABLE task (
    number     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         bytea NOT NULL UNIQUE,  -- SHA-256 of the canonical bytes
    open_from  bigint NOT NULL DEFAULT 0,  -- batch ids of earlier epochs are forgotten: such batches are refused
    closed     bigint,  -- Unix seconds; NULL while the task takes reports
    definition bytea NOT NULL  -- the canonical bytes
);

-- The batches that are in the counts. Random ids: the primary key is the only index. No foreign key: its check
-- would lock the row of the task for every report.
CREATE TABLE batch (
    task  integer NOT NULL,
    id    bytea NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (task, id)
);

-- Reports per code. Each process adds to rows of its own, under a shard that it draws when it starts, so that no
-- process waits for another one's rows; readers add the shards. Shard 0 holds what ended processes counted.
-- Half of each page stays free: an added report then rewrites its row in place, and no index entry.
CREATE TABLE counts (
    task    integer NOT NULL,
    epoch   bigint NOT NULL,
    shard   bigint NOT NULL,
    code    integer NOT NULL,
    reports bigint NOT NULL,
    PRIMARY KEY (task, epoch, shard, code)
) WITH (fillfactor = 50);

-- Reports counted so far: what changes whenever the counts change, in few small rows.
CREATE TABLE total (
    task    integer NOT NULL,
    shard   bigint NOT NULL,
    reports bigint NOT NULL,
    PRIMARY KEY (task, shard)
) WITH (fillfactor = 50);

-- Keys of the API, hashed.
CREATE TABLE api_key (
    id      text PRIMARY KEY,
    digest  bytea NOT NULL,
    scope   text NOT NULL CHECK (scope IN ('ingest', 'read', 'admin')),
    tasks   text[],  -- task ids in hex; NULL: good for all tasks
    label   text NOT NULL,
    created bigint NOT NULL,  -- Unix seconds
    revoked bigint  -- Unix seconds; NULL while the key is good
);

-- Whose reports are in the counts: this store itself under a random id, and every store that was merged into it.
CREATE TABLE origin (
    id     bytea PRIMARY KEY,
    own    boolean NOT NULL,
    merged bigint  -- Unix seconds; NULL for the store itself
);
INSERT INTO origin (id, own) VALUES (uuid_send(gen_random_uuid()), true);

-- Count the batches whose id is new. One call is one transaction.
--
-- The first statement shares a lock that closing a task or an epoch takes alone. A volatile function takes a
-- new snapshot for every statement, so the second one sees every closing that came before: nothing is counted
-- after it. The second one inserts the ids and adds the reports of those that were new. Ids are inserted in
-- one order everywhere: two processes with the same batches in opposite orders would deadlock. A batch that
-- another process is inserting at the moment is waited for, and is then not new.
--
-- Nested loops are off, because a planner that does not know how many batches come takes them, and they cost
-- 0.8 s for 4,096 batches instead of 0.03.
CREATE FUNCTION add_batches(
    my_shard bigint,
    given_tasks integer[], given_ids bytea[], given_epochs bigint[],  -- one each per batch
    given_places integer[], given_codes integer[], given_reports integer[]  -- of batch `place`, from 1: reports of a code
) RETURNS TABLE (batch_place integer, batch_counted boolean)  -- true: counted; false: closed; no row: replayed
LANGUAGE plpgsql VOLATILE SET enable_nestloop = off SET jit = off AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7241, 'task'::regclass::oid::integer);
    RETURN QUERY WITH
    given AS MATERIALIZED (
        SELECT g.task, g.id, g.epoch, g.place::integer AS place,
               k.closed IS NULL AND g.epoch >= k.open_from AS open
        FROM unnest(given_tasks, given_ids, given_epochs) WITH ORDINALITY AS g (task, id, epoch, place)
        JOIN task k ON k.number = g.task
    ),
    first AS MATERIALIZED (
        SELECT DISTINCT ON (g.task, g.id) g.task, g.id, g.epoch, g.place
        FROM given g WHERE g.open ORDER BY g.task, g.id, g.place
    ),
    inserted AS (
        INSERT INTO batch AS b (task, id, epoch)
        SELECT f.task, f.id, f.epoch FROM first f ORDER BY f.task, f.id
        ON CONFLICT DO NOTHING RETURNING b.task, b.id
    ),
    new AS MATERIALIZED (
        SELECT f.task, f.epoch, f.place FROM first f JOIN inserted i ON i.task = f.task AND i.id = f.id
    ),
    sums AS MATERIALIZED (
        SELECT n.task, n.epoch, p.code, sum(p.reports)::bigint AS reports
        FROM unnest(given_places, given_codes, given_reports) AS p (place, code, reports)
        JOIN new n ON n.place = p.place
        GROUP BY n.task, n.epoch, p.code
    ),
    counted AS (
        INSERT INTO counts AS c (task, epoch, shard, code, reports)
        SELECT s.task, s.epoch, my_shard, s.code, s.reports FROM sums s ORDER BY s.task, s.epoch, s.code
        ON CONFLICT (task, epoch, shard, code) DO UPDATE SET reports = c.reports + excluded.reports
    ),
    totalled AS (
        INSERT INTO total AS t (task, shard, reports)
        SELECT s.task, my_shard, sum(s.reports)::bigint FROM sums s GROUP BY s.task ORDER BY s.task
        ON CONFLICT (task, shard) DO UPDATE SET reports = t.reports + excluded.reports
    )
    SELECT n.place, true FROM new n UNION ALL SELECT g.place, false FROM given g WHERE NOT g.open;
END
$$;

-- Count batches that are all new, as those of nearly all groups are, and return true; or change nothing and
-- return false: an id is known, or its task or epoch is closed. One call is one transaction.
--
-- The caller has sorted the ids and added up the reports, which makes it half as dear as `add_batches`: there
-- is nothing to find out about a batch. The lock and the order of the ids are as there.
CREATE FUNCTION add_new_batches(
    my_shard bigint,
    given_tasks integer[], given_ids bytea[], given_epochs bigint[],  -- one each per batch
    count_tasks integer[], count_epochs bigint[], count_codes integer[], count_reports bigint[]  -- one each per sum
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_nestloop = off SET jit = off AS $$
DECLARE
    new integer;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7241, 'task'::regclass::oid::integer);
    IF EXISTS (
        SELECT FROM (SELECT DISTINCT g.task, g.epoch FROM unnest(count_tasks, count_epochs) AS g (task, epoch)) AS d
        LEFT JOIN task k ON k.number = d.task
        WHERE k.number IS NULL OR k.closed IS NOT NULL OR d.epoch < k.open_from
    ) THEN
        RETURN false;
    END IF;
    BEGIN
        INSERT INTO batch (task, id, epoch) SELECT * FROM unnest(given_tasks, given_ids, given_epochs)
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS new = ROW_COUNT;
        IF new < cardinality(given_ids) THEN
            RAISE unique_violation;  -- takes back what was inserted
        END IF;
    EXCEPTION WHEN unique_violation THEN
        RETURN false;
    END;
    INSERT INTO counts AS c (task, epoch, shard, code, reports)
    SELECT g.task, g.epoch, my_shard, g.code, g.reports
    FROM unnest(count_tasks, count_epochs, count_codes, count_reports) AS g (task, epoch, code, reports)
    ON CONFLICT (task, epoch, shard, code) DO UPDATE SET reports = c.reports + excluded.reports;
    INSERT INTO total AS t (task, shard, reports)
    SELECT g.task, my_shard, sum(g.reports)::bigint FROM unnest(count_tasks, count_reports) AS g (task, reports)
    GROUP BY g.task ORDER BY g.task
    ON CONFLICT (task, shard) DO UPDATE SET reports = t.reports + excluded.reports;
    RETURN true;
END
$$;

-- A secret, and the time that servers believe.

-- What belongs to the store itself; neither leaves it with an export.
CREATE TABLE state (
    one    integer PRIMARY KEY CHECK (one = 1),  -- a single row
    secret bytea NOT NULL,  -- 32 bytes, 244 bits of them random: the key of what readers see of hashed counts
    clock  bigint  -- the latest time that a server believed, in Unix seconds; NULL: none has run
);
INSERT INTO state (one, secret) VALUES (1, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- Named sources, whose counts of an epoch are replaced and never added to.

-- The counts of source n are those of shard -n, so whoever reads all shards reads them, too.
CREATE TABLE source (
    number   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name     text NOT NULL UNIQUE,
    replaced bigint NOT NULL  -- when it was last replaced, in Unix seconds
);

-- In whose counts a batch is: NULL for those of the server. The indexes have no entries of the server's rows.
ALTER TABLE batch ADD COLUMN source integer;
CREATE INDEX batch_of_source ON batch (source, task, epoch) WHERE source IS NOT NULL;
CREATE INDEX counts_of_source ON counts (shard, task, epoch) WHERE shard < 0;

-- How often a source was replaced or dropped: counts may change without their total.
ALTER TABLE state ADD COLUMN replaced bigint NOT NULL DEFAULT 0;

-- Batches that wait for the archive.

-- Written in the transaction that counts them, and deleted when they are in a file.
CREATE TABLE staged (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch  bigint NOT NULL,
    task   integer NOT NULL,
    id     bytea NOT NULL,
    codes  bytea NOT NULL  -- packed, as they came
);

-- Files that are being written. After a crash they are there whole, or not at all.
CREATE TABLE archive_file (
    name  text PRIMARY KEY,
    task  integer NOT NULL,
    epoch bigint NOT NULL
);

-- The random id of the folder that the batches go to; NULL: none was ever given.
ALTER TABLE state ADD COLUMN archive bytea;

-- `add_new_batches`, and the batches wait for the archive. One call is one transaction.
CREATE FUNCTION stage_new_batches(
    my_shard bigint,
    given_tasks integer[], given_ids bytea[], given_epochs bigint[],  -- one each per batch
    count_tasks integer[], count_epochs bigint[], count_codes integer[], count_reports bigint[],  -- one each per sum
    given_codes bytea[]  -- of each batch, packed
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT add_new_batches(
        my_shard, given_tasks, given_ids, given_epochs, count_tasks, count_epochs, count_codes, count_reports
    ) THEN
        RETURN false;
    END IF;
    INSERT INTO staged (task, epoch, id, codes)
    SELECT * FROM unnest(given_tasks, given_epochs, given_ids, given_codes);
    RETURN true;
END
$$;

-- `add_batches`, and those that are counted wait for the archive. One call is one transaction.
CREATE FUNCTION stage_batches(
    my_shard bigint,
    given_tasks integer[], given_ids bytea[], given_epochs bigint[],  -- one each per batch
    given_places integer[], given_numbers integer[], given_reports integer[],  -- of batch `place`: reports of a code
    given_codes bytea[]  -- of each batch, packed
) RETURNS TABLE (batch_place integer, batch_counted boolean)  -- as of `add_batches`
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY WITH
    done AS MATERIALIZED (
        SELECT d.batch_place AS place, d.batch_counted AS counted FROM add_batches(
            my_shard, given_tasks, given_ids, given_epochs, given_places, given_numbers, given_reports
        ) AS d
    ),
    waiting AS (
        INSERT INTO staged (task, epoch, id, codes)
        SELECT g.task, g.epoch, g.id, g.codes
        FROM unnest(given_tasks, given_epochs, given_ids, given_codes)
        WITH ORDINALITY AS g (task, epoch, id, codes, place)
        JOIN done d ON d.place = g.place AND d.counted
    )
    SELECT d.place, d.counted FROM done d;
END
$$;

-- Sessions, the audit log, keys for metrics, and numbers of the server that ran last.

ALTER TABLE api_key DROP CONSTRAINT api_key_scope_check;
ALTER TABLE api_key ADD CONSTRAINT api_key_scope_check CHECK (scope IN ('ingest', 'read', 'metrics', 'admin'));

-- Who is logged in. Nothing in this table lets anybody in: tokens have 256 random bits.
CREATE TABLE session (
    digest  bytea PRIMARY KEY,  -- SHA-256 of the token
    api_key text NOT NULL,  -- id of the key that it was begun with
    created bigint NOT NULL,  -- Unix seconds, as the other two
    seen    bigint NOT NULL,  -- when it was last used
    ends    bigint NOT NULL  -- the absolute end
);

-- What was changed by whom.
CREATE TABLE action (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time    bigint NOT NULL,  -- Unix seconds
    api_key text NOT NULL,  -- id of a key; empty: a command on the store
    action  text NOT NULL,
    subject text NOT NULL,
    outcome text NOT NULL
);

-- Settings of the server that ran last, for commands that read the store by themselves.
CREATE TABLE remembered (
    name  text PRIMARY KEY,
    value bigint NOT NULL
);

-- Released epochs.

-- Below which epoch it is decided what may be shown where only closed epochs are: those in `released`, no other ever.
CREATE TABLE decided (
    task    integer PRIMARY KEY,
    before  bigint NOT NULL,
    changes bigint NOT NULL  -- times that `released` changed in another way than by a decision
);

-- Frozen: the counts of these epochs never change.
CREATE TABLE released (
    task    integer NOT NULL,
    epoch   bigint NOT NULL,
    reports bigint NOT NULL,
    PRIMARY KEY (task, epoch)
);

CREATE TABLE arcwise_schema (version integer NOT NULL);
DELETE FROM action;
INSERT INTO "action" OVERRIDING SYSTEM VALUE VALUES (1, 4200, 'k2', 'close task', 'heading', 'done');
DELETE FROM api_key;
INSERT INTO "api_key" OVERRIDING SYSTEM VALUE VALUES ('k1', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f'::bytea, 'ingest', NULL, 'the app; Größe', 1000, 5000);
INSERT INTO "api_key" OVERRIDING SYSTEM VALUE VALUES ('k2', '\x0000000000000000000000000000000000000000000000000000000000000000'::bytea, 'read', '{d2ef1e2e5ff33f8527973cf044cb91c31b0ae9305b4c212bc280465dbb792add}', '', 2000, NULL);
INSERT INTO "api_key" OVERRIDING SYSTEM VALUE VALUES ('k3', '\x1f1e1d1c1b1a191817161514131211100f0e0d0c0b0a09080706050403020100'::bytea, 'metrics', NULL, 'Prometheus', 3000, NULL);
DELETE FROM archive_file;
DELETE FROM arcwise_schema;
INSERT INTO "arcwise_schema" OVERRIDING SYSTEM VALUE VALUES (6);
DELETE FROM batch;
INSERT INTO "batch" OVERRIDING SYSTEM VALUE VALUES (1, '\x00000000000000000000000000000001'::bytea, 20, NULL);
INSERT INTO "batch" OVERRIDING SYSTEM VALUE VALUES (2, '\x00000000000000000000000000000001'::bytea, 21, NULL);
INSERT INTO "batch" OVERRIDING SYSTEM VALUE VALUES (1, '\x00000000000000000000000000000002'::bytea, 31, NULL);
INSERT INTO "batch" OVERRIDING SYSTEM VALUE VALUES (1, '\x00000000000000000000000000000007'::bytea, 31, 1);
DELETE FROM counts;
INSERT INTO "counts" OVERRIDING SYSTEM VALUE VALUES (1, 9, 2567969753390752946, 0, 1);
INSERT INTO "counts" OVERRIDING SYSTEM VALUE VALUES (1, 20, 2567969753390752946, 0, 1);
INSERT INTO "counts" OVERRIDING SYSTEM VALUE VALUES (1, 20, 2567969753390752946, 1, 2);
INSERT INTO "counts" OVERRIDING SYSTEM VALUE VALUES (2, 21, 2567969753390752946, 3, 1);
INSERT INTO "counts" OVERRIDING SYSTEM VALUE VALUES (2, 21, 2567969753390752946, 4, 1);
INSERT INTO "counts" OVERRIDING SYSTEM VALUE VALUES (1, 31, 2567969753390752946, 2, 1);
INSERT INTO "counts" OVERRIDING SYSTEM VALUE VALUES (1, 31,  -1, 2, 2);
DELETE FROM decided;
INSERT INTO "decided" OVERRIDING SYSTEM VALUE VALUES (1, 10, 0);
DELETE FROM origin;
INSERT INTO "origin" OVERRIDING SYSTEM VALUE VALUES ('\x95fcbb5ead3d4591a9581f427cd3708a'::bytea, true, NULL);
DELETE FROM released;
INSERT INTO "released" OVERRIDING SYSTEM VALUE VALUES (1, 9, 1);
DELETE FROM remembered;
INSERT INTO "remembered" OVERRIDING SYSTEM VALUE VALUES ('min_reports', 50);
DELETE FROM session;
INSERT INTO "session" OVERRIDING SYSTEM VALUE VALUES ('\x202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f'::bytea, 'k2', 4000, 4100, 5000);
DELETE FROM source;
INSERT INTO "source" OVERRIDING SYSTEM VALUE VALUES (1, 'lake', 1700000100);
DELETE FROM staged;
INSERT INTO "staged" OVERRIDING SYSTEM VALUE VALUES (1, 31, 1, '\x00000000000000000000000000000002'::bytea, '\x02'::bytea);
DELETE FROM state;
INSERT INTO "state" OVERRIDING SYSTEM VALUE VALUES (1, '\x0cdabddd3a6d409f95663dad825fecbcd3b7016954a34ced88f289e00de6ad69'::bytea, 1700000000, 1, NULL);
DELETE FROM task;
INSERT INTO "task" OVERRIDING SYSTEM VALUE VALUES (1, '\xd2ef1e2e5ff33f8527973cf044cb91c31b0ae9305b4c212bc280465dbb792add'::bytea, 10, NULL, '\x9801a564656c617994a8696e74657276616ccb0000000000000000cb3ff0000000000000c2cb3ff0000000000000ac646973747269627574696f6ece0001518093c0c0ce0001518093b16f7074696d616c2d7069656365776973650197a677696e646f77a5696e736574030301cf3641cd4aa0f1484ccf5d3a98201d2c271b'::bytea);
INSERT INTO "task" OVERRIDING SYSTEM VALUE VALUES (2, '\x9fa9ac9464c4344bf161903a290febf0234ee16b490b51186d5ed03ac6730c1b'::bytea, 0, 86400, '\x9801a768656164696e6792a6636972636c65cb4076800000000000cb3ff0000000000000a9646972656374696f6ece0001518093c0c0ce0001518093b06f7074696d616c2d63697263756c61720197a677696e646f77a477726170080803cf1375e3f90a69de77cf21704abd3990596d'::bytea);
DELETE FROM total;
INSERT INTO "total" OVERRIDING SYSTEM VALUE VALUES (2, 2567969753390752946, 2);
INSERT INTO "total" OVERRIDING SYSTEM VALUE VALUES (1, 2567969753390752946, 5);
INSERT INTO "total" OVERRIDING SYSTEM VALUE VALUES (1,  -1, 2);
SELECT setval(pg_get_serial_sequence('task', 'number'), (SELECT max(number) FROM task));
