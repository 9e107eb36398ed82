"""Preflight: what would spoil a run, and what it would cost, before any GPU is used."""
