"""Migration from legacy clerk, the system based on Redis Queue: its tables, its disk and its Redis.

`tables`, `disk` and `rq` read what legacy clerk left; `inspect` compares them; `migrate` imports sites, with
`import_texts` for their files; `cutover` empties the Redis; `cleanup` removes legacy tables and columns. docs/legacy.md
is the guide.
"""
