"""Rows from and for other tools: identify, import, export; `tools/` holds what they run."""
