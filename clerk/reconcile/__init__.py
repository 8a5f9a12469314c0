"""Detect and repair inconsistent pipeline state.

`plan` collects repairs from `db_checks` (views of the database) and `file_checks` (storage compared with the ledger).
`apply` makes each repair in a short transaction of its own. `log` records them.
"""
