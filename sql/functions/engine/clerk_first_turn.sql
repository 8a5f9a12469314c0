-- needs: 0026
-- Where the turns of a site begin whose documents join a queue: at the first job that waits there for its turn, so
-- before all but one job of every other site. In an empty queue: at the turn of the other queue of documents, because
-- one worker may process both.
create or replace function clerk_first_turn(p_queue text) returns bigint
language sql stable
set search_path = pg_catalog, public, pg_temp
-- As in clerk_fetch_jobs: one lookup in idx_procrastinate_jobs_queue_todo, also with a plan made for an empty table.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_incremental_sort = off
set jit = off
as $$
    select coalesce(min(first.turn) filter (where q.name = p_queue), min(first.turn), 1)
    from unnest(array['ocr', 'extraction']) q (name)
    cross join lateral (
        select j.turn
        from procrastinate_jobs j
        where j.status = 'todo' and j.queue_name = q.name and j.priority = 0 and j.turn > 0
        order by j.turn
        limit 1
    ) first
$$;
