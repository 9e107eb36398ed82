"""What comes from outside is bounded here, in memory and time, before anything else reads it.

Only what ships in the package, or is pinned by the registry, is read past this door.
"""
