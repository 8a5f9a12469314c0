-- idx_sites_coordinator_enqueued in the documented form, which databases of legacy clerk already have.

drop index if exists idx_sites_coordinator_enqueued;
create index idx_sites_coordinator_enqueued on sites (subdomain, coordinator_enqueued) where coordinator_enqueued = false;
