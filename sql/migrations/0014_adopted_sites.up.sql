-- What a site of the older system said before clerk's first run of it, for whoever goes back.

create table adopted_sites (
    subdomain varchar primary key references sites (subdomain) on update cascade on delete cascade,
    as_found jsonb not null
);
comment on table adopted_sites is
    'A site of the older system as it was when its first run here began: what going down to 0 gives back, unless it was finished here.';
