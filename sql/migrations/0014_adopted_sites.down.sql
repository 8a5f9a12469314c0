drop table adopted_sites;
