drop table publication_steps;
drop table publications;
