-- needs: 0017
create view recent_actions as
select a.at, a.actor, a.via, a.action, a.subdomain, a.run_id, a.detail
from operator_actions a
where a.at >= clerk_now() - interval '30 days'
order by a.at desc, a.id desc;

comment on view recent_actions is 'What operators did in the last thirty days, the newest first.';
comment on column recent_actions.actor is 'The person, where command or dashboard knew; otherwise the database user.';
comment on column recent_actions.via is 'cli, dashboard, or sql: by hand.';
comment on column recent_actions.action is
    'retry, cancel, pause, resume, rewind, update, supersede (a run, by a new one), rollback, reconcile, empty Redis, clean up, undo clean-up.';
comment on column recent_actions.run_id is 'The run that was started, changed or ended.';
