"""Read models of pipeline status, explanations, alerts and metrics."""
