"""One module per page: its queries, what it computes from them, and the endpoint."""
