"""How often the test for contamination accuses a clean model, and how often it finds a leak.

    python benchmarks/contamination.py [--out results/contamination.md]

A model is right with its chance in each of the 13 tasks, at one length; seen rows raise every
chance by the same points, to 100 at the most. Public and fresh rows are as many. Each simulation is
tested as `ruler-eval compare --contamination` tests the mean over all tasks.
"""

import argparse
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ruler_report.stats.resampling import permute_labels

sys.path.insert(0, str(Path(__file__).parent))
from mini import BY_TASK, Floats

PROFILES = {
    "every task at 50": np.full(13, 0.5),
    "every task at 80": np.full(13, 0.8),
    **{name: np.array(percents) / 100 for name, percents in BY_TASK.items() if "16K" in name},
}
ROWS = (50, 100, 500)
GAPS = (0, 1, 2, 3, 5, 8)
SIMULATIONS, DEALS = 400, 400


def found(chances: Floats, rows: int, gap: float) -> tuple[float, float]:
    """Return how often a gap is found at 5 %, and how great it is, in percent points."""
    rng = np.random.Generator(np.random.PCG64([rows, int(gap)]))
    seen = np.minimum(1.0, chances + gap / 100)
    hits = 0
    for place in range(SIMULATIONS):
        gaps, deals = [], []
        for task, (public, fresh) in enumerate(zip(seen, chances, strict=True)):
            ours, theirs = ((rng.random((rows, 1)) < chance).astype(np.float64)
                            for chance in (public, fresh))  # fmt: skip
            gaps.append(ours.mean() - theirs.mean())
            deals.append(permute_labels(f"{place}/{task}", ours, theirs, DEALS)[:, 0])
        greater = int(np.sum(np.mean(deals, axis=0) >= np.mean(gaps) - 1e-9))
        hits += (1 + greater) / (DEALS + 1) <= 0.05
    return hits / SIMULATIONS, float(100 * np.mean(seen - chances))


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description="Errors of the test for contamination.")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            check=True).stdout.strip()  # fmt: skip
    lines = [
        "# Errors of the test for contamination", "",
        f"`python benchmarks/contamination.py` at commit {commit}; {platform.machine()}, Python"
        f" {platform.python_version()}, numpy {version('numpy')}. {SIMULATIONS} simulations of each"
        f" cell, {DEALS} deals each; 13 tasks at one length. No model was run.", "",
        "Share of simulations in which the mean over all tasks is found greater on public rows, at"
        " 5 %, by how many points seen rows raise it:", "",
        f"| profile | rows of each task | {' | '.join(f'+{gap}' for gap in GAPS)} |",
        f"|---|---:|{'---:|' * len(GAPS)}",
    ]  # fmt: skip
    for name, chances in PROFILES.items():
        for rows in ROWS:
            cells = [found(chances, rows, gap) for gap in GAPS]
            shown = (f"{share:.2f}" + (f" ({rise:.1f})" if abs(rise - gap) > 0.05 else "")
                     for (share, rise), gap in zip(cells, GAPS, strict=True))  # fmt: skip
            lines.append(f"| {name} | {rows} | {' | '.join(shown)} |")
    lines += ["", "In brackets: the rise of the mean where tasks near 100 cannot rise as much."]
    text = "\n".join(lines) + "\n"
    print(text)
    if asked.out:
        asked.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
