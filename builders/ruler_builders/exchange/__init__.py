"""Rows from and for other tools: identify, import, export.

identify.py         which edition, tokenizer, words and template made some rows
layouts.py          the columns in which others keep RULER's rows
imports.py          anybody's rows as a frozen folder, with a report of their defects
export.py           a dataset as another tool reads it; `tools/` holds what that tool runs
check_blacklist.py  texts against the hashes of a release; a script of its own in the export
"""
