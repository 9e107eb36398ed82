"""A model for each harness that reads the prompt and names every variable in it: recall is 1.

It also writes down what it was sent, so that a test can compare it with the published rows.
"""

#: What they share; `sent` is a file.
REPLY = """
import re
from pathlib import Path

def reply(prompt):
    with Path("sent").open("a", encoding="utf-8") as file:
        print(repr(prompt), file=file)
    return " ".join(re.findall(r"[A-Z]{5}", prompt))
"""

LM_EVAL = """
import lm_eval
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager
from reply import reply

class Reader(LM):
    def generate_until(self, requests, disable_tqdm=False):
        return [reply(request.args[0]) for request in requests]

    def loglikelihood(self, requests, disable_tqdm=False):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood

tracker = EvaluationTracker(output_path="out")
done = lm_eval.simple_evaluate(
    model=Reader(), tasks=["ruler_vt_1024"], task_manager=TaskManager(include_path="."),
    evaluation_tracker=tracker,
)
samples = done.pop("samples")
tracker.save_results_aggregated(results=done, samples=samples)
tracker.save_results_samples(task_name="ruler_vt_1024", samples=samples["ruler_vt_1024"])
print("score", done["results"]["ruler_vt_1024"]["ruler,none"])
"""
