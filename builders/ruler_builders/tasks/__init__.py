"""Task families: one module each, whose whole interface is one function, `draw`."""

from typing import assert_never

from ruler_builders.rows.row_template import RowTemplate
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.tasks import cwe, fwe, graph, niah, qa, ruler2, vt
from ruler_data.tasks import Cwe, Fwe, Graph, Niah, Qa, Ruler2, Task, Vt


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
    name = task.same_questions_as or task.name
    row = (sources, index, length, budget)
    match task.params:
        case Niah():
            return niah.draw(name, task.params, *row)
        case Vt():
            return vt.draw(name, task.params, *row)
        case Cwe():
            return cwe.draw(name, task.params, *row)
        case Fwe():
            return fwe.draw(name, task.params, *row)
        case Qa():
            return qa.draw(name, task.params, *row)
        case Graph():
            return graph.draw(name, task.params, *row)
        case Ruler2():
            return ruler2.draw(name, task.params, *row)
        case _:
            assert_never(task.params)
