-- The query of search.sql for the table other_documents, which archives of older versions do not have. `rank` 1 is the best
-- page among those of its kind.
select kind, meeting, date, page, page_image, snippet, score,
       row_number() over (partition by kind order by score, date desc) as rank
from (select p.kind, p.meeting, p.date, p.page, p.page_image,
             snippet(other_documents_fts, 0, :mark_start, :mark_end, ' … ', 24) as snippet,
             other_documents_fts.rank as score
      from other_documents_fts
      join other_documents p on p.rowid = other_documents_fts.rowid
      where other_documents_fts match as_fts_query(:words) and p.date >= :since
      order by other_documents_fts.rank, p.date desc
      limit :limit)
order by rank, date desc
