-- needs: 0017
create view transition_mismatches as
select s.subdomain, s.run_id, p.phase,
       case when p.phase = clerk_phase(s.current_stage) and t.advanced_at is not null
            then format('phase %s is marked as over, and the site is still in it', p.phase)
            when p.phase = clerk_phase(s.current_stage)
            then format('the coordinator of phase %s is claimed although units are still out', p.phase)
            when t.run_id is null then format('phase %s is over, and there is no word of its end', p.phase)
            else format('phase %s is over, and its end was never accepted', p.phase) end as problem
from pipeline_runs r
join sites s on s.subdomain = r.subdomain and s.run_id = r.run_id
cross join lateral (values
    (1, s.fetch_total, s.fetch_total - s.fetch_completed - s.fetch_failed),
    (2, s.ocr_total, s.ocr_total - s.ocr_completed - s.ocr_failed),
    (3, s.compilation_total + s.extraction_total,
     s.compilation_total - s.compilation_completed - s.compilation_failed
     + s.extraction_total - s.extraction_completed - s.extraction_failed),
    (4, s.deploy_total, s.deploy_total - s.deploy_completed - s.deploy_failed)
) as p (phase, units, units_out)
left join pipeline_transitions t on t.run_id = s.run_id and t.phase = p.phase
where r.ended_at is null
  and (p.phase = clerk_phase(s.current_stage)
           and (t.advanced_at is not null or s.coordinator_enqueued and p.units_out > 0)
       or p.phase < clerk_phase(s.current_stage)
           and (t.run_id is null and p.units > 0 or t.run_id is not null and t.advanced_at is null));

comment on view transition_mismatches is
    'Phases of runs that are going whose end is recorded and did not happen, or happened and is not recorded (invariant I3).';
