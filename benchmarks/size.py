"""How much there is to read: syntax nodes of each room, and how densely they stand.

    python benchmarks/size.py        # or: make size

A folded line costs a reader as much as the lines that it replaces, so nodes of the syntax tree are
counted, and lines only to divide by.
"""

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = (
    "ruler_data",
    "builders",
    "eval/ruler_eval",
    "eval/ruler_report",
    "eval/ruler_audit",
    "benchmarks",
    "tests",
)
BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.While,
    ast.ExceptHandler,
    ast.comprehension,
    ast.BoolOp,
)
#: Branches of a function from which on it is counted as long.
MANY = 10


@dataclass
class Size:
    """What is in the modules of a room."""

    modules: int = 0
    lines: int = 0
    nodes: int = 0
    branches: int = 0
    long_functions: int = 0

    def add(self, source: str) -> None:
        """Count a module."""
        nodes = [*ast.walk(ast.parse(source))]
        self.modules += 1
        self.lines += source.count("\n")
        self.nodes += len(nodes)
        self.branches += sum(isinstance(node, BRANCHES) for node in nodes)
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                branches = sum(isinstance(inner, BRANCHES) for inner in ast.walk(node))
                self.long_functions += branches > MANY


def main() -> None:
    """Print a line for each room, all in one write, so that `| head` gets them."""
    names = f"{'room':20}{'modules':>8}{'lines':>8}{'nodes':>9}{'a line':>8}"
    table = [f"{names}{'branches/1,000':>16}{'functions > 10':>16}"]
    rooms = [room for room in ROOMS if (ROOT / room).is_dir()]
    for room in rooms:
        size = Size()
        for path in sorted((ROOT / room).rglob("*.py")):
            size.add(path.read_text(encoding="utf-8"))
        lines = max(size.lines, 1)
        counts = f"{room:20}{size.modules:8}{size.lines:8}{size.nodes:9}{size.nodes / lines:8.2f}"
        branches = 1000 * size.branches / lines
        table.append(f"{counts}{branches:16.0f}{size.long_functions:16}")
    sys.stdout.write("\n".join(table) + "\n")


if __name__ == "__main__":
    main()
