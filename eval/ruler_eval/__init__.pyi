from ruler_eval.api import Run, run
from ruler_eval.engines.interface import Request
from ruler_eval.engines.python import Generation
from ruler_eval.run_status import Status, status
from ruler_report.scores import Scores, score

__all__ = ["Generation", "Request", "Run", "Scores", "Status", "run", "score", "status"]
