"""Task families: one module each, whose whole interface is one function, `draw`."""

from collections.abc import Callable

from ruler_builders.rows.row_template import RowTemplate
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.tasks import cwe, fwe, graph, niah, qa, ruler2, vt
from ruler_data.tasks import Cwe, Fwe, Graph, Niah, Qa, Ruler2, Task, Vt, of_family


def draw(
    task: Task, sources: TokenizedSources, index: int, length: int, budget: int
) -> RowTemplate:
    """Draw row `index` of a task.

    Args:
        task: its parameters choose the family; its name, or that of the task whose questions it
            shares, is part of every seed.
        sources: seed, and texts counted in tokens.
        index: of the row, from 0.
        length: the config's length in tokens; cwe is smaller below 4,096, as upstream.
        budget: tokens of the prompt's own text; it decides the vocabulary of fwe.

    Raises:
        BudgetError: the budget is too small for any row.
    """
    draw_row = of_family(_DRAW, task, "_DRAW of builders/ruler_builders/tasks/__init__.py")
    return draw_row(
        task.same_questions_as or task.name, task.params, sources, index, length, budget
    )


#: How the rows of each family are drawn.
_DRAW: dict[type, Callable[..., RowTemplate]] = {
    Niah: niah.draw,
    Vt: vt.draw,
    Cwe: cwe.draw,
    Fwe: fwe.draw,
    Qa: qa.draw,
    Graph: graph.draw,
    Ruler2: ruler2.draw,
}
