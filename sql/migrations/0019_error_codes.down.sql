-- SiteConfigError was two codes: SiteMisdescribed in the deploy stage, SiteMisconfigured elsewhere.

create function pg_temp.old_code(p_code text, p_stage text, p_message text) returns text
language sql immutable
as $$
    select case p_code
        when 'SiteConfigError' then case p_stage when 'deploy' then 'SiteMisdescribed' else 'SiteMisconfigured' end
        when 'PluginTimeout' then 'PluginHung'
        when 'InvalidPluginResult' then 'PluginNonsense'
        when 'InvalidExtractorOutput' then 'ExtractorNonsense'
        when 'AllTextsMissing' then 'TextsGone'
        when 'SiteNotFound' then 'SiteUnknown'
        when 'RunInProgress' then 'RunGoing'
        when 'UnknownStage' then 'StageUnknown'
        when 'SchemaMismatch' then 'SchemaUnknown'
        when 'UnexpectedError' then coalesce(substring(p_message from '^([A-Za-z_]\w*)(?::|$)'), p_code)
        else p_code
    end
$$;

create function pg_temp.old_message(p_code text, p_message text) returns text
language sql immutable
as $$
    select case when p_code = 'UnexpectedError' and p_message ~ '^[A-Za-z_]\w*(:|$)'
                then nullif(regexp_replace(p_message, '^[A-Za-z_]\w*(: ?|$)', ''), '') else p_message end
$$;

update content_item_pipeline_state l
set error_code = pg_temp.old_code(l.error_code, l.pipeline, l.error_message),
    error_message = pg_temp.old_message(l.error_code, l.error_message)
where pg_temp.old_code(l.error_code, l.pipeline, l.error_message) <> l.error_code;

update content_items i
set fetch_error_code = pg_temp.old_code(i.fetch_error_code, 'fetch', i.fetch_error_message),
    fetch_error_message = pg_temp.old_message(i.fetch_error_code, i.fetch_error_message)
where pg_temp.old_code(i.fetch_error_code, 'fetch', i.fetch_error_message) <> i.fetch_error_code;

update pipeline_transitions t
set error_code = pg_temp.old_code(t.error_code, null, t.error_message),
    error_message = pg_temp.old_message(t.error_code, t.error_message)
where pg_temp.old_code(t.error_code, null, t.error_message) <> t.error_code;

update sites s
set last_error_message = pg_temp.old_code(split_part(s.last_error_message, ':', 1), s.last_error_stage, null)
                         || substr(s.last_error_message, length(split_part(s.last_error_message, ':', 1)) + 1)
where pg_temp.old_code(split_part(s.last_error_message, ':', 1), s.last_error_stage, null)
      <> split_part(s.last_error_message, ':', 1);

drop function pg_temp.old_message(text, text);
drop function pg_temp.old_code(text, text, text);

comment on column content_item_pipeline_state.error_code is 'Class of the last error, as in PdfEncrypted.';
comment on column content_items.fetch_error_code is 'Why the last try to get it failed; NULL when it did not.';
comment on column sites.last_error_message is '"Class: message", cut to 500 characters.';
