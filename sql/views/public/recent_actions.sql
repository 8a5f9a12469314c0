-- needs: 0018
create view recent_actions as
select a.at, a.actor, a.via, a.action, a.subdomain, a.run_id, a.detail
from operator_actions a
where a.at >= clerk_now() - interval '30 days'
order by a.at desc, a.id desc;

comment on view recent_actions is 'Operator actions of the last thirty days, newest first.';
comment on column recent_actions.actor is 'The person, if the command or dashboard knew it; otherwise the database user.';
comment on column recent_actions.via is 'cli, dashboard, or sql for a direct call.';
comment on column recent_actions.action is
    'retry, cancel, pause, resume, rewind, update, supersede (an open run by a new one), rollback, reconcile, add alert, pause alert, resume alert, remove alert, add site, edit site, remove site, date, ignore and report (skipped entries), empty Redis, clean up, undo clean-up.';
comment on column recent_actions.run_id is 'The run that was started, changed or ended.';
