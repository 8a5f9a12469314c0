-- Full-text search in one archive, for `clerk search`, the dashboard and Datasette.
-- as_fts_query() is a Python function (clerk/archive/search.py). `score` is FTS5's bm25, lower is better. `rank` 1 is the
-- best page among the minutes, and among the agendas.
select kind, meeting, date, page, page_image, snippet, score,
       row_number() over (partition by kind order by score, date desc) as rank
from (select * from (select 'minutes' as kind, p.meeting, p.date, p.page, p.page_image,
                            snippet(minutes_fts, 0, :mark_start, :mark_end, ' … ', 24) as snippet,
                            minutes_fts.rank as score
                     from minutes_fts
                     join minutes p on p.rowid = minutes_fts.rowid
                     where minutes_fts match as_fts_query(:words) and p.date >= :since
                     order by minutes_fts.rank, p.date desc
                     limit :limit)
      union all
      select * from (select 'agenda' as kind, p.meeting, p.date, p.page, p.page_image,
                            snippet(agendas_fts, 0, :mark_start, :mark_end, ' … ', 24) as snippet,
                            agendas_fts.rank as score
                     from agendas_fts
                     join agendas p on p.rowid = agendas_fts.rowid
                     where agendas_fts match as_fts_query(:words) and p.date >= :since
                     order by agendas_fts.rank, p.date desc
                     limit :limit))
order by rank, date desc
