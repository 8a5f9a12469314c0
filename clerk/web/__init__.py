"""The dashboard: pages made on the server from the SQL views; and, only where asked for, the operator's moves."""
