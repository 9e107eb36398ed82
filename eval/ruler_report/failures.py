"""Labels of answers, for reports that still read them here."""

from ruler_eval.labels import ABSENT as ABSENT
from ruler_eval.labels import CONTEXT as CONTEXT
from ruler_eval.labels import MEANINGS as MEANINGS
from ruler_eval.labels import REFUSAL as REFUSAL
