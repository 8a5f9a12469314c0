"""Finds what reality broke and mends it.

`plan` asks the finders (`books` for what the database can see, `storage` for what lies in files) and makes one
list of repairs; `applying` makes each of them in a short transaction of its own; `log` remembers them.
"""
