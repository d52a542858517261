-- Counts that take no more than what was sent, a secret, and the time that servers believe.

-- An epoch with few reports lists the codes that it has; a dense row would take 8 * K bytes for a single report.
-- `codes_in` and `per_code_in` are functions of the program that migrates: the two columns of a dense row.
CREATE TABLE counts_3 (
    task     INTEGER NOT NULL REFERENCES task (number),
    epoch    INTEGER NOT NULL,
    reports  INTEGER NOT NULL,  -- of all codes
    codes    BLOB,  -- the codes that were reported, ascending, as little-endian unsigned 16-bit integers; NULL: all K
    per_code BLOB NOT NULL,  -- the reports of each of these codes, as little-endian signed 64-bit integers
    PRIMARY KEY (task, epoch)
);
INSERT INTO counts_3 (task, epoch, reports, codes, per_code)
SELECT task, epoch, reports_in(codes), codes_in(codes), per_code_in(codes) FROM counts;
DROP TABLE counts;
ALTER TABLE counts_3 RENAME TO counts;

-- What belongs to the store itself; neither leaves it with an export.
CREATE TABLE state (
    one    INTEGER PRIMARY KEY CHECK (one = 1),  -- a single row
    secret BLOB NOT NULL,  -- 32 random bytes: the key of what readers see of hashed counts
    clock  INTEGER  -- the latest time that a server believed, in Unix seconds; NULL: none has run
);
INSERT INTO state (one, secret) VALUES (1, randomblob(32));
