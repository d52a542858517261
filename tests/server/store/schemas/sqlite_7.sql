BEGIN TRANSACTION;
CREATE TABLE action (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again: readers page by it
    time    INTEGER NOT NULL,  -- Unix seconds
    api_key TEXT NOT NULL,  -- id of a key; empty: a command on the store
    action  TEXT NOT NULL,
    subject TEXT NOT NULL,
    outcome TEXT NOT NULL
);
INSERT INTO "action" VALUES(1,4200,'k2','close task','heading','done');
CREATE TABLE "api_key" (
    id      TEXT PRIMARY KEY,
    digest  BLOB NOT NULL,
    scope   TEXT NOT NULL CHECK (scope IN ('ingest', 'read', 'metrics', 'admin')),
    tasks   TEXT,  -- JSON array of task ids in hex; NULL: good for all tasks
    label   TEXT NOT NULL,
    created INTEGER NOT NULL,  -- Unix seconds
    revoked INTEGER  -- Unix seconds; NULL while the key is good
) WITHOUT ROWID;
INSERT INTO "api_key" VALUES('k1',X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F','ingest',NULL,'the app; Größe',1000,5000);
INSERT INTO "api_key" VALUES('k2',X'0000000000000000000000000000000000000000000000000000000000000000','read','["d2ef1e2e5ff33f8527973cf044cb91c31b0ae9305b4c212bc280465dbb792add"]','',2000,NULL);
INSERT INTO "api_key" VALUES('k3',X'1F1E1D1C1B1A191817161514131211100F0E0D0C0B0A09080706050403020100','metrics',NULL,'Prometheus',3000,NULL);
CREATE TABLE archive_file (
    name  TEXT PRIMARY KEY,
    task  INTEGER NOT NULL REFERENCES task (number),
    epoch INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE batch (
    task  INTEGER NOT NULL REFERENCES task (number),
    id    BLOB NOT NULL,
    epoch INTEGER NOT NULL, source INTEGER REFERENCES source (number),
    PRIMARY KEY (task, id)
) WITHOUT ROWID;
INSERT INTO "batch" VALUES(1,X'00000000000000000000000000000001',20,NULL);
INSERT INTO "batch" VALUES(1,X'00000000000000000000000000000002',31,NULL);
INSERT INTO "batch" VALUES(1,X'00000000000000000000000000000007',31,1);
INSERT INTO "batch" VALUES(2,X'00000000000000000000000000000001',21,NULL);
CREATE TABLE "counts" (
    task     INTEGER NOT NULL REFERENCES task (number),
    epoch    INTEGER NOT NULL,
    source   INTEGER NOT NULL,  -- number of a source; 0: what servers counted, or came by a merge
    reports  INTEGER NOT NULL,  -- of all codes
    codes    BLOB,  -- the codes that were reported, ascending, as little-endian unsigned 16-bit integers; NULL: all K
    per_code BLOB NOT NULL,  -- the reports of each of these codes, as little-endian signed 64-bit integers
    PRIMARY KEY (task, epoch, source)
);
INSERT INTO "counts" VALUES(1,9,0,1,X'0000',X'0100000000000000');
INSERT INTO "counts" VALUES(1,20,0,3,X'00000100',X'01000000000000000200000000000000');
INSERT INTO "counts" VALUES(2,21,0,2,X'03000400',X'01000000000000000100000000000000');
INSERT INTO "counts" VALUES(1,31,0,1,X'0200',X'0100000000000000');
INSERT INTO "counts" VALUES(1,31,1,2,X'0200',X'0200000000000000');
CREATE TABLE decided (
    task    INTEGER PRIMARY KEY REFERENCES task (number),
    before  INTEGER NOT NULL,
    changes INTEGER NOT NULL  -- times that `released` changed in another way than by a decision
);
INSERT INTO "decided" VALUES(1,10,0);
CREATE TABLE origin (
    id     BLOB PRIMARY KEY,
    own    INTEGER NOT NULL,
    merged INTEGER  -- Unix seconds; NULL for the store itself
) WITHOUT ROWID;
INSERT INTO "origin" VALUES(X'A53A0AA668D49BE9E00DF5B7672CB4A4',1,NULL);
CREATE TABLE released (
    task    INTEGER NOT NULL REFERENCES task (number),
    epoch   INTEGER NOT NULL,
    reports INTEGER NOT NULL,
    PRIMARY KEY (task, epoch)
) WITHOUT ROWID;
INSERT INTO "released" VALUES(1,9,1);
CREATE TABLE remembered (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "remembered" VALUES('min_reports',50);
CREATE TABLE session (
    digest  BLOB PRIMARY KEY,  -- SHA-256 of the token
    api_key TEXT NOT NULL,  -- id of the key that it was begun with
    created INTEGER NOT NULL,  -- Unix seconds, as the other two
    seen    INTEGER NOT NULL,  -- when it was last used
    ends    INTEGER NOT NULL  -- the absolute end
) WITHOUT ROWID;
INSERT INTO "session" VALUES(X'202122232425262728292A2B2C2D2E2F303132333435363738393A3B3C3D3E3F','k2',4000,4100,5000);
CREATE TABLE source (
    number   INTEGER PRIMARY KEY,
    name     TEXT NOT NULL UNIQUE,
    replaced INTEGER NOT NULL  -- when it was last replaced, in Unix seconds
);
INSERT INTO "source" VALUES(1,'lake',1700000100);
CREATE TABLE staged (
    number INTEGER PRIMARY KEY,
    task   INTEGER NOT NULL REFERENCES task (number),
    epoch  INTEGER NOT NULL,
    id     BLOB NOT NULL,
    codes  BLOB NOT NULL  -- packed, as they came
);
INSERT INTO "staged" VALUES(1,1,31,X'00000000000000000000000000000002',X'02');
CREATE TABLE state (
    one    INTEGER PRIMARY KEY CHECK (one = 1),  -- a single row
    secret BLOB NOT NULL,  -- 32 random bytes: the key of what readers see of hashed counts
    clock  INTEGER  -- the latest time that a server believed, in Unix seconds; NULL: none has run
, replaced INTEGER NOT NULL DEFAULT 0, archive BLOB);
INSERT INTO "state" VALUES(1,X'9631D3C214F70AFAB4E25EA836F3E901A70FBF1462F26B08C3040745118BE575',1700000000,1,NULL);
CREATE TABLE "task" (
    number     INTEGER PRIMARY KEY,
    id         BLOB NOT NULL UNIQUE,  -- SHA-256 of the canonical bytes
    open_from  INTEGER NOT NULL DEFAULT 0,  -- batch ids of earlier epochs are forgotten: such batches are refused
    closed     INTEGER,  -- Unix seconds; NULL while the task takes reports
    definition BLOB NOT NULL  -- the canonical bytes
);
INSERT INTO "task" VALUES(1,X'D2EF1E2E5FF33F8527973CF044CB91C31B0AE9305B4C212BC280465DBB792ADD',10,NULL,X'9801A564656C617994A8696E74657276616CCB0000000000000000CB3FF0000000000000C2CB3FF0000000000000AC646973747269627574696F6ECE0001518093C0C0CE0001518093B16F7074696D616C2D7069656365776973650197A677696E646F77A5696E736574030301CF3641CD4AA0F1484CCF5D3A98201D2C271B');
INSERT INTO "task" VALUES(2,X'9FA9AC9464C4344BF161903A290FEBF0234EE16B490B51186D5ED03AC6730C1B',0,86400,X'9801A768656164696E6792A6636972636C65CB4076800000000000CB3FF0000000000000A9646972656374696F6ECE0001518093C0C0CE0001518093B06F7074696D616C2D63697263756C61720197A677696E646F77A477726170080803CF1375E3F90A69DE77CF21704ABD3990596D');
CREATE TABLE "total" (
    task    INTEGER NOT NULL REFERENCES task (number),
    source  INTEGER NOT NULL,
    reports INTEGER NOT NULL,
    PRIMARY KEY (task, source)
);
INSERT INTO "total" VALUES(1,0,5);
INSERT INTO "total" VALUES(2,0,2);
INSERT INTO "total" VALUES(1,1,2);
CREATE INDEX batch_of_source ON batch (source, task, epoch) WHERE source IS NOT NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('action',1);
COMMIT;
PRAGMA user_version = 7;
