-- Error codes are the `code` of the classes in clerk/errors.py. Maps the codes that changed. A code that is not one of
-- them was the name of a Python exception: it becomes UnexpectedError, and its name moves into the message.

create function pg_temp.new_code(p_code text) returns text
language sql immutable
as $$
    select case
        when p_code in ('SiteMisconfigured', 'SiteMisdescribed') then 'SiteConfigError'
        when p_code = 'PluginHung' then 'PluginTimeout'
        when p_code = 'PluginNonsense' then 'InvalidPluginResult'
        when p_code = 'ExtractorNonsense' then 'InvalidExtractorOutput'
        when p_code = 'TextsGone' then 'AllTextsMissing'
        when p_code = 'SiteUnknown' then 'SiteNotFound'
        when p_code = 'RunGoing' then 'RunInProgress'
        when p_code = 'StageUnknown' then 'UnknownStage'
        when p_code = 'SchemaUnknown' then 'SchemaMismatch'
        when p_code in (
            'AddressForbidden', 'AllTextsMissing', 'ArchiveDamaged', 'ArchiveMissing', 'CertificateRefused',
            'ClaimLost', 'CommandFailed', 'CommandTimeout', 'CommandUnset', 'DatabaseRefused', 'DatabaseUnreachable',
            'DeployerUnknown', 'DocumentUnknown', 'DownloadFailed', 'DownloadRefused', 'EmbeddedServerError',
            'FilesLost', 'ForeignDatabase', 'InvalidExtractorOutput', 'InvalidPluginResult', 'JobAborted',
            'JobCancelled', 'JobDeleted', 'JobFailed', 'JobLost', 'LanguageMissing', 'MigrationError', 'NotAPdf',
            'NotFetched', 'PagesWouldVanish', 'PdfAltered', 'PdfBroken', 'PdfEmpty', 'PdfEncrypted', 'PdfMemory',
            'PdfMissing', 'PdfTimeout', 'PdfTooLarge', 'PdfTruncated', 'PluginFailed', 'PluginMissing',
            'PluginRaised', 'PluginTimeout', 'ReaderCrashed', 'ReaderStalled', 'RunCancelled', 'RunEnded',
            'RunInProgress', 'RunSuperseded', 'SchemaMismatch', 'SettingError', 'SiteConfigError', 'SiteNotFound',
            'SourceUnreadable', 'SpacyUnavailable', 'StorageMissing', 'Superseded', 'TaskNotFound', 'TextLost',
            'TextsMissing', 'TimeLimitExceeded', 'ToolMissing', 'UnexpectedError', 'UnknownStage', 'WorkerLost'
        ) then p_code
        else 'UnexpectedError'
    end
$$;

update content_item_pipeline_state l
set error_code = pg_temp.new_code(l.error_code),
    error_message = case when pg_temp.new_code(l.error_code) = 'UnexpectedError'
                         then concat_ws(': ', l.error_code, l.error_message) else l.error_message end
where l.error_code is not null and pg_temp.new_code(l.error_code) <> l.error_code;

update content_items i
set fetch_error_code = pg_temp.new_code(i.fetch_error_code),
    fetch_error_message = case when pg_temp.new_code(i.fetch_error_code) = 'UnexpectedError'
                               then concat_ws(': ', i.fetch_error_code, i.fetch_error_message)
                               else i.fetch_error_message end
where i.fetch_error_code is not null and pg_temp.new_code(i.fetch_error_code) <> i.fetch_error_code;

update pipeline_transitions t
set error_code = pg_temp.new_code(t.error_code),
    error_message = case when pg_temp.new_code(t.error_code) = 'UnexpectedError'
                         then concat_ws(': ', t.error_code, t.error_message) else t.error_message end
where t.error_code is not null and pg_temp.new_code(t.error_code) <> t.error_code;

-- "Code: message". Only renamed codes change here: callers of clerk_increment_failed may have written any other name.
update sites s
set last_error_message = pg_temp.new_code(split_part(s.last_error_message, ':', 1))
                         || substr(s.last_error_message, length(split_part(s.last_error_message, ':', 1)) + 1)
where pg_temp.new_code(split_part(s.last_error_message, ':', 1))
      not in ('UnexpectedError', split_part(s.last_error_message, ':', 1));

drop function pg_temp.new_code(text);

comment on column content_item_pipeline_state.error_code is
    'Code of the last error, as in PdfEncrypted. clerk/errors.py has the list.';
comment on column content_items.fetch_error_code is
    'Code of the error that ended the last download; NULL when it succeeded.';
comment on column sites.last_error_message is '"Code: message", cut to 500 characters.';
