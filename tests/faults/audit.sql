-- Independent records of accepted changes, written by triggers that do not use the engine's tables.
create schema faults;

create function faults.is_end(status text) returns boolean language sql immutable
return status in ('processed', 'failed_terminal');

create table faults.advance (run_id bigint, phase integer);
create table faults.phase_start (run_id bigint, stage text);
create table faults.result (job_id bigint, attempt integer, status text);
create table faults.settled (content_item_id bigint, stage text, run_id bigint, was text, became text);

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

create function faults.record_result() returns trigger language plpgsql as $$
begin
    insert into faults.result values (old.id, old.attempts, new.status);
    return null;
end $$;
create trigger faults_result after update on procrastinate_jobs
    for each row when (old.status = 'doing' and new.status <> 'doing') execute function faults.record_result();

create function faults.record_settled() returns trigger language plpgsql as $$
begin
    insert into faults.settled values (new.content_item_id, new.pipeline, new.run_id, old.status, new.status);
    return null;
end $$;
create trigger faults_settled after update on content_item_pipeline_state
    for each row when (old.status is distinct from new.status)
    execute function faults.record_settled();
