from ruler_eval.engines.interface import Request
from ruler_eval.engines.python import Generation
from ruler_eval.run_status import Run, status
from ruler_eval.runner import run
from ruler_report.results_file import Scores
from ruler_report.scoring import score

__all__ = ["Generation", "Request", "Run", "Scores", "run", "score", "status"]
