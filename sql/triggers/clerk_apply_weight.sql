-- needs: 0026
create or replace trigger clerk_apply_weight
    after update of weight on sites
    for each row when (old.weight <> new.weight)
    execute function clerk_apply_weight();
