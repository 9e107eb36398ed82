"""Figures of a report, one module a subject."""
