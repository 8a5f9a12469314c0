-- Independent records of accepted changes, written by triggers that do not use the engine's tables.
create schema faults;

create function faults.is_end(status text) returns boolean language sql immutable
return status in ('processed', 'failed_terminal');

-- Who makes the change: a worker has a holder as application_name, and sets no actor. The engine's own functions do.
create function faults.sender() returns text language sql stable
return coalesce(nullif(current_setting('clerk.actor', true), ''), current_setting('application_name'));

create table faults.advance (run_id bigint, phase integer);
create table faults.phase_start (run_id bigint, stage text);
create table faults.claim (id bigint generated always as identity, job_id bigint, attempt integer, holder text);
create index on faults.claim (job_id, id);
create table faults.result (
    id bigint generated always as identity, job_id bigint, attempt integer, status text, was text, sender text,
    sent_attempt text, holder text
);
create index on faults.result (job_id, id);
create table faults.settled (
    id bigint generated always as identity, content_item_id bigint, stage text, run_id bigint, was text, became text,
    job_id bigint, error_code text, sender text
);
create table faults.excess (run_id bigint, stage text, total integer, counted integer);

create function faults.record_advance() returns trigger language plpgsql as $$
begin
    insert into faults.advance values (new.run_id, new.phase);
    return null;
end $$;
create trigger faults_advance after update on pipeline_transitions
    for each row when (old.advanced_at is distinct from new.advanced_at) execute function faults.record_advance();

create function faults.record_phase_start() returns trigger language plpgsql as $$
begin
    insert into faults.phase_start values (new.run_id, new.current_stage);
    return null;
end $$;
create trigger faults_phase_start after update on sites
    for each row when (old.current_stage is distinct from new.current_stage)
    execute function faults.record_phase_start();

-- More units counted than the phase has. Recorded at once, because reconciliation would count again.
create function faults.record_excess() returns trigger language plpgsql as $$
begin
    insert into faults.excess
    select new.run_id, c.stage, c.total, c.counted
    from (values ('fetch', new.fetch_total, new.fetch_completed + new.fetch_failed),
                 ('ocr', new.ocr_total, new.ocr_completed + new.ocr_failed),
                 ('compilation', new.compilation_total, new.compilation_completed + new.compilation_failed),
                 ('extraction', new.extraction_total, new.extraction_completed + new.extraction_failed),
                 ('deploy', new.deploy_total, new.deploy_completed + new.deploy_failed)) c (stage, total, counted)
    where c.counted > c.total;
    return null;
end $$;
create trigger faults_excess after update on sites for each row execute function faults.record_excess();

create function faults.record_claim() returns trigger language plpgsql as $$
begin
    insert into faults.claim (job_id, attempt, holder)
    values (new.id, new.attempts, current_setting('application_name'));
    return null;
end $$;
create trigger faults_claim after update on procrastinate_jobs
    for each row when (old.status <> 'doing' and new.status = 'doing') execute function faults.record_claim();

-- Every result of a running job, and every result that a worker sent for a job that was not running.
create function faults.record_result() returns trigger language plpgsql as $$
begin
    if old.status = 'doing' or coalesce(current_setting('clerk.attempt', true), '') <> '' then
        insert into faults.result (job_id, attempt, status, was, sender, sent_attempt, holder)
        values (old.id, old.attempts, new.status, old.status, faults.sender(),
                coalesce(current_setting('clerk.attempt', true), ''),
                (select c.holder from faults.claim c where c.job_id = old.id order by c.id desc limit 1));
    end if;
    return null;
end $$;
create trigger faults_result after update on procrastinate_jobs
    for each row when (old.status is distinct from new.status and new.status <> 'doing')
    execute function faults.record_result();

create function faults.record_settled() returns trigger language plpgsql as $$
begin
    insert into faults.settled (content_item_id, stage, run_id, was, became, job_id, error_code, sender)
    values (new.content_item_id, new.pipeline, new.run_id, old.status, new.status, new.job_id, new.error_code,
            faults.sender());
    return null;
end $$;
create trigger faults_settled after update on content_item_pipeline_state
    for each row when (old.status is distinct from new.status)
    execute function faults.record_settled();
