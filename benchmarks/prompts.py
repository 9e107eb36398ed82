"""What it costs to open a run and to render a row's prompt, beside one encoding of its text.

    python benchmarks/prompts.py --data DIR --tokenizer DIR [--repeats 5]

Prints CPU seconds until the first row, CPU milliseconds of a row (render, encode, check, request),
those of one encoding of the finished prompt by the same counter, and the ratio of the two.
"""

import argparse
import statistics

from measuring import cpu

from ruler_eval.running.config import EvalConfig
from ruler_eval.running.engine import Request
from ruler_eval.running.runner import RunJob, open_job


def say_nothing(requests: list[Request]) -> list[str]:
    """Answer every request with an empty text."""
    return ["" for _ in requests]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    jobs = list[RunJob]()

    def begin() -> None:
        config = EvalConfig(options.data, generate=say_nothing, tokenizer=options.tokenizer)
        jobs.append(open_job(config))

    opened = cpu(begin)
    job = jobs[0]
    rows = [(name, row) for name in job.data.rows for row in job.data.read(name)]
    texts = [job.prompts.text(job.tokenizer, row) for _, row in rows]

    def render() -> None:
        for name, row in rows:
            job.request(name, row)

    def encode() -> None:
        for text in texts:
            job.tokenizer.count([text])

    ratios = list[float]()
    for _ in range(options.repeats):
        rendered = cpu(render)
        encoded = cpu(encode)
        ratios.append(rendered / encoded)
    milliseconds = 1000 / len(rows)
    print(f"rows: {len(rows)}")
    print(f"open, CPU s: {opened:.2f}")
    print(f"a row, CPU ms: {milliseconds * rendered:.2f}")
    print(f"one encoding, CPU ms: {milliseconds * encoded:.2f}")
    print(f"ratio, median: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
