-- What reconciliation remembers: which repair it was, so that one that comes back is known; and what went wrong.

alter table reconcile_log
    add column kind text not null default 'other',
    add column error text;

create index idx_reconcile_log_repair on reconcile_log (subdomain, run_id, kind, at);

comment on column reconcile_log.kind is
    'A stable word for what was found. The same site, run, stage and kind is the same repair, come back.';
comment on column reconcile_log.error is 'Why the repair failed; NULL if it was made.';

-- Late units: retried after their phase, by an operator or by reconciliation. There are few, ever.
create index idx_cips_reopened on content_item_pipeline_state (content_item_id) where reopened_at is not null;

-- It is made again with an argument more.
drop function if exists clerk_release_held_back();
