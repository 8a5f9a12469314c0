drop table content_items;
