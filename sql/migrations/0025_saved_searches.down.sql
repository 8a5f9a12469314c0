drop table publication_matchings;
drop table published_pages;
drop table saved_search_deliveries;
drop table saved_search_matches;
drop table saved_search_destinations;
drop table saved_searches;
