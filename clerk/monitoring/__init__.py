"""Read models of the pipeline: its status, one site's state, failures, runs, alerts, metrics and explanations."""
