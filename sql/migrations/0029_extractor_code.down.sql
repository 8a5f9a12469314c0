drop table extractor_code;
