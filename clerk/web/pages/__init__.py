"""A file per page: its queries, what they come to, and the function that answers a request."""
