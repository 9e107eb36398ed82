"""Check an engine: page faults, noise."""
