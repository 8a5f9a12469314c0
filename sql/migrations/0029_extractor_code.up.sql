-- The code of extractors by version, so that an extractor that was edited without a new version is noticed.

create table extractor_code (
    extractor text not null,
    version text not null,
    code_sha256 text not null,
    plugin text not null,
    first_used_at timestamptz not null default now(),
    last_used_at timestamptz not null default now(),
    primary key (extractor, version, code_sha256)
);
comment on table extractor_code is
    'The code that each version of a plugin''s extractor had when workers used it; recorded once per worker process.';
comment on column extractor_code.code_sha256 is 'Hash of the extractor''s module, or of all modules of its package.';
