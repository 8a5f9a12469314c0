"""The dashboard: pages made on the server from the SQL views, and nothing that can change anything."""
