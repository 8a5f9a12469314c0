alter table pipeline_transitions
    drop column error_code,
    drop column error_message,
    drop column error_at;
