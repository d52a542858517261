-- Named sources, whose counts of an epoch are replaced and never added to.

CREATE TABLE source (
    number   INTEGER PRIMARY KEY,
    name     TEXT NOT NULL UNIQUE,
    replaced INTEGER NOT NULL  -- when it was last replaced, in Unix seconds
);

-- Each source has counts of its own, which readers add to those of the server.
CREATE TABLE counts_4 (
    task     INTEGER NOT NULL REFERENCES task (number),
    epoch    INTEGER NOT NULL,
    source   INTEGER NOT NULL,  -- number of a source; 0: what servers counted, or came by a merge
    reports  INTEGER NOT NULL,  -- of all codes
    codes    BLOB,  -- the codes that were reported, ascending, as little-endian unsigned 16-bit integers; NULL: all K
    per_code BLOB NOT NULL,  -- the reports of each of these codes, as little-endian signed 64-bit integers
    PRIMARY KEY (task, epoch, source)
);
INSERT INTO counts_4 (task, epoch, source, reports, codes, per_code)
SELECT task, epoch, 0, reports, codes, per_code FROM counts;
DROP TABLE counts;
ALTER TABLE counts_4 RENAME TO counts;

CREATE TABLE total_4 (
    task    INTEGER NOT NULL REFERENCES task (number),
    source  INTEGER NOT NULL,
    reports INTEGER NOT NULL,
    PRIMARY KEY (task, source)
);
INSERT INTO total_4 (task, source, reports) SELECT task, 0, reports FROM total;
DROP TABLE total;
ALTER TABLE total_4 RENAME TO total;

-- In whose counts a batch is: NULL for those of the server. The index has no entries of the server's batches.
ALTER TABLE batch ADD COLUMN source INTEGER REFERENCES source (number);
CREATE INDEX batch_of_source ON batch (source, task, epoch) WHERE source IS NOT NULL;

-- How often a source was replaced or dropped: counts may change without their total.
ALTER TABLE state ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0;
