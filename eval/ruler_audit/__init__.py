"""Other people's predictions: which rows they answer, and which digits follow from them.

answers (and the numbers beside them) ─► edition, words, tokenizer ─► rows ─► scores ─► Audit

import ruler_audit

audits = ruler_audit.audit("kvpress/results/ruler__4096__…")
print(audits, audits.exit_status)
"""

from ruler_audit.commands import audit

__all__ = ["audit"]
