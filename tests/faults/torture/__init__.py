"""Fault injection (bin/torture): seeded faults against a pipeline, then checks against an independent record."""
