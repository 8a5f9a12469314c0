-- needs: 0026
-- The turn of a site's next job but p_place: a turn is a million, and a site with weight 3 has three jobs in each.
-- An integer, because Postgres cannot deduplicate index entries of floating-point numbers, and a fetch reads past the
-- entries of older row versions.
-- A bound expression: no search_path can change its meaning, and callers inline it.
create or replace function clerk_turn(p_first bigint, p_place bigint, p_weight integer) returns bigint
language sql immutable parallel safe
return p_first + p_place * 1000000 / p_weight;
