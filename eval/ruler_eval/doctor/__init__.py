"""Preflight: what would go wrong in a run, and what it would cost, before any GPU is used."""
