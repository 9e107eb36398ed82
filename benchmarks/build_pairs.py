"""The CPU of a whole audited build beside that of another commit, in interleaved pairs.

    git worktree add /tmp/old c2bca05
    python benchmarks/build_pairs.py /tmp/old --tokenizer DIR --sources DIR [--rows 500] [--pairs 3]

Both commits run with this Python and its packages. Prints one line for each pair: CPU seconds of
the other commit and of this one, start-up included, and their ratio; then the median ratio.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from measuring import run

HERE = Path(__file__).resolve().parents[1]


def cost(checkout: Path, options: argparse.Namespace) -> float:
    """Return the CPU seconds of one build with the code of a checkout."""
    os.environ["PYTHONPATH"] = os.pathsep.join(
        map(str, (checkout, checkout / "builders", checkout / "eval"))
    )
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-P", "-m", "ruler_builders", "build", "--tokenizer"]
        command += [options.tokenizer, "--sources", options.sources, "--rows", str(options.rows)]
        command += ["--lengths", options.lengths, "--out", f"{scratch}/out"]
        return run(command).cpu


def main() -> None:
    """Build with both commits in turn, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--sources", required=True)
    parser.add_argument("--lengths", default="4096,8192,16384,32768,65536,131072")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    ratios = list[float]()
    for number in range(options.pairs):
        order = (options.other, HERE) if number % 2 == 0 else (HERE, options.other)
        found = {checkout: cost(checkout, options) for checkout in order}
        ratios.append(found[HERE] / found[options.other])
        print(f"{found[options.other]:.1f} {found[HERE]:.1f} {ratios[-1]:.2f}", flush=True)
    print(f"median {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
