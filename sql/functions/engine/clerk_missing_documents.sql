-- needs: 0018
-- In words, how many documents could not be read and how many have no people and votes; NULL if there are none.
-- A bound expression: no search_path can change its meaning, and callers inline it.
create or replace function clerk_missing_documents(p_unread integer, p_without_findings integer) returns text
language sql stable parallel safe
return nullif(concat_ws(', ',
    case when p_unread > 0 then format('%s document%s unread', p_unread, case when p_unread > 1 then 's' end) end,
    case when p_without_findings > 0
         then format('%s document%s without people and votes', p_without_findings,
                     case when p_without_findings > 1 then 's' end) end), '');
