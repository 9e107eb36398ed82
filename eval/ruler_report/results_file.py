"""Names of `ruler_eval.scores` that reports still use."""

from ruler_eval.scores import BINS as BINS
from ruler_eval.scores import FILENAME as FILENAME
from ruler_eval.scores import FORMAT as FORMAT
from ruler_eval.scores import ConfigScores as ConfigResult
from ruler_eval.scores import Cost as Cost
from ruler_eval.scores import Depth as Depth
from ruler_eval.scores import Example as Example
from ruler_eval.scores import Param as Param
from ruler_eval.scores import Run as Run
from ruler_eval.scores import ScoreName as ScoreName
from ruler_eval.scores import Scores as Results
from ruler_eval.scores import parse as parse
from ruler_eval.scores import read_results as read_results
from ruler_eval.scores import schema as schema
from ruler_eval.scores import to_json as to_json
from ruler_eval.scores import write_results as write_results

__all__ = [
    "BINS", "FILENAME", "FORMAT", "ConfigResult", "Cost", "Depth", "Example", "Param", "Results",
    "Run", "ScoreName", "parse", "read_results", "schema", "to_json", "write_results",
]  # fmt: skip
