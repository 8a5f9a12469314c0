-- needs: 0027
create view index_bloat as
select i.table_name, i.index_name, i.size_bytes, i.expected_bytes, bloat.bytes as bloat_bytes,
       round(100.0 * bloat.bytes / nullif(i.size_bytes, 0), 1) as bloat_percent
from clerk_index_sizes() i
-- The statistics describe the index as it was then: what was added since is no bloat.
cross join lateral (
    select greatest(least(i.analyzed_bytes, i.size_bytes) - i.expected_bytes, 0) as bytes where i.expected_bytes is not null
    union all
    select null where i.expected_bytes is null
) bloat;

comment on view index_bloat is
    'One row per btree index: its size, and an estimate of how much of it a reindex would free. clerk db maintain does it.';
comment on column index_bloat.expected_bytes is
    'Estimated size after a reindex, from the statistics of the last vacuum and analyze. NULL: there are none.';
comment on column index_bloat.bloat_percent is
    'Up to about 30 is normal: pages that are split by inserts are not full.';
