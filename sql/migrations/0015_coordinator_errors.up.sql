-- Why a coordinator failed: it has no row in the ledger that would say so.

alter table pipeline_transitions
    add column error_code text,
    add column error_message text,
    add column error_at timestamptz;

create index pipeline_transitions_errors on pipeline_transitions (error_at) where error_at is not null;

comment on column pipeline_transitions.error_code is
    'The class of error of the coordinator''s last attempt that failed, advanced or not since; error_message says more.';
