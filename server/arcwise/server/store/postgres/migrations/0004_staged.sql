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
