-- needs: 0018
-- The counters of a site as {stage: {total, completed, failed}}, the form in which pipeline_runs keeps them.
-- A bound expression: no search_path can change its meaning, and callers inline it.
create or replace function clerk_counters(p_site sites) returns jsonb
language sql stable parallel safe
return jsonb_build_object(
    'fetch', jsonb_build_object('total', p_site.fetch_total, 'completed', p_site.fetch_completed,
                                'failed', p_site.fetch_failed),
    'ocr', jsonb_build_object('total', p_site.ocr_total, 'completed', p_site.ocr_completed,
                              'failed', p_site.ocr_failed),
    'compilation', jsonb_build_object('total', p_site.compilation_total, 'completed', p_site.compilation_completed,
                                      'failed', p_site.compilation_failed),
    'extraction', jsonb_build_object('total', p_site.extraction_total, 'completed', p_site.extraction_completed,
                                     'failed', p_site.extraction_failed),
    'deploy', jsonb_build_object('total', p_site.deploy_total, 'completed', p_site.deploy_completed,
                                 'failed', p_site.deploy_failed));
