-- needs: 0026
-- Numbers the waiting jobs of a site's documents again, from the present turn on and by the site's weight. Jobs that were
-- attempted before stay first, and paused ones last. Skips locked job rows, because callers have locked the site.
create or replace function clerk_number_jobs(p_subdomain text) returns void
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    with first as materialized (
        select q.name as queue, clerk_first_turn(q.name) as turn from unnest(array['ocr', 'extraction']) q (name)
    ), waiting as (
        select j.id, j.queue_name as queue, s.weight
        from sites s
        join content_items i on i.subdomain = s.subdomain and i.kind <> 'archive'
        join content_item_pipeline_state l on l.content_item_id = i.id
        join procrastinate_jobs j on j.id = l.job_id
        where s.subdomain = p_subdomain and j.status = 'todo' and j.attempts = 0
          and j.queue_name in ('ocr', 'extraction') and j.scheduled_at is distinct from clerk_paused_until()
        for update of j skip locked
    ), numbered as (
        select w.id, clerk_turn(first.turn, row_number() over (partition by w.queue order by w.id) - 1, w.weight) as turn
        from waiting w
        join first on first.queue = w.queue
    )
    update procrastinate_jobs j set turn = numbered.turn from numbered where numbered.id = j.id
$$;
