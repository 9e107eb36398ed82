"""Task families: one module each, one function each, and the table that names them."""

from collections.abc import Callable

from ruler_builders.rows.row_template import RowTemplate
from ruler_builders.rows.tokenized_sources import TokenizedSources
from ruler_builders.tasks import cwe, fwe, niah, qa, vt
from ruler_data.tasks import Cwe, Fwe, Niah, Qa, Task, Vt

#: Parameters' type -> what drafts row `index` for a budget of prompt tokens at a config's length.
FAMILIES: dict[type, Callable[[Task, TokenizedSources, int, int, int], RowTemplate]] = {
    Niah: niah.draw,
    Vt: vt.draw,
    Cwe: cwe.draw,
    Fwe: fwe.draw,
    Qa: qa.draw,
}


def draw(
    task: Task, sources: TokenizedSources, index: int, length: int, budget: int
) -> RowTemplate:
    """Draft row `index` of a task.

    Args:
        task: the task.
        sources: seed, sources and counted units.
        index: of the row, from 0.
        length: the config's length in tokens, for what upstream changes below 4,096.
        budget: prompt tokens, for fwe's vocabulary.
    """
    return FAMILIES[type(task.params)](task, sources, index, length, budget)
