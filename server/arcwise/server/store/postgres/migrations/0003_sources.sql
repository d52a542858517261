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
