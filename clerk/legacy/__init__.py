"""Coming from the older system: its tables, its disk and its Redis. Deleted when nobody does that any more.

`tables` and `disk` say what is there, `inspecting` compares them; `migrating` makes runs of stuck sites, `cutover`
empties the Redis, `cleanup` takes the older tables and columns away. docs/legacy.md is the way through them.
"""
