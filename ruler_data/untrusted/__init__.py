"""What comes from outside is bounded here, in memory and time, before anything else reads it.

text.py     bytes, text, JSON and lines: measured before they are read
pages.py    parquet: pages are measured by their own headers, since a footer may lie

Only what ships in the package, or is pinned by the registry, is read past this door.
"""
