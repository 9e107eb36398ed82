"""Rows that flipped: right in one run and wrong in another, with question, gold and both texts."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ruler_data.errors import RulerError
from ruler_eval.answers import Answer
from ruler_eval.run_dir import RUN_FILE, RunFolder, read_info
from ruler_eval.run_rows import rows_of_run
from ruler_eval.scores import Scores

#: Rows that are shown of each direction, and characters of a text.
SHOWN, LONGEST = 3, 300


@dataclass(frozen=True)
class Flip:
    """A row that one run answers right and the other wrong.

    Attributes:
        row: `vt_4096/17`, of the first run.
        scores: of both runs, in percent.
        texts: the answers of both runs.
    """

    row: str
    question: str
    outputs: tuple[str, ...]
    scores: tuple[float, float]
    texts: tuple[str, str]


@dataclass(frozen=True)
class Flips:
    """How many rows of two runs flipped, and some of them."""

    labels: tuple[str, str]
    lost: int
    won: int
    rows: tuple[Flip, ...]

    @property
    def title(self) -> str:
        """How many rows flipped each way."""
        first, second = self.labels
        return (
            f"Rows that flipped: {self.lost:,} right in {first} alone, {self.won:,} right in "
            f"{second} alone"
        )


def flips(
    labels: tuple[str, str],
    runs: tuple[Scores, Scores],
    places: tuple[Path, Path],
    data: str | None,
) -> Flips:
    """Return the rows of two runs that ask the same and that one alone answers right.

    Those shown differ most, in the order of the configs; none where rows or answers are not there.
    """
    found = sorted(_flipped(*runs), key=lambda flip: -abs(flip[1]))
    lost, won = ([flip for flip in found if (flip[1] < 0) == is_lost] for is_lost in (True, False))
    chosen = [*lost[:SHOWN], *won[:SHOWN]]
    try:
        texts = [_texts(place, [pair[at] for pair, _ in chosen], data)
                 for at, place in enumerate(places)]  # fmt: skip
    except (RulerError, OSError):
        texts = [{}, {}]
    rows = []
    for pair, _ in chosen:
        if pair[0] in texts[0] and pair[1] in texts[1]:
            question, outputs, first = texts[0][pair[0]]
            *_, second = texts[1][pair[1]]
            (config, index), scores = pair[0], [_score(*x) for x in zip(runs, pair, strict=True)]
            both = (scores[0], scores[1])
            rows.append(Flip(f"{config}/{index}", question, outputs, both, (first, second)))
    return Flips(labels, len(lost), len(won), tuple(rows))


#: A config and the index of a row.
_Key = tuple[str, int]


def _flipped(first: Scores, second: Scores) -> Iterator[tuple[tuple[_Key, _Key], float]]:
    """Yield rows that ask the same in the same config, and how much the score rose."""
    for config, scores in first.configs.items():
        other = second.configs.get(config)
        if other is None:
            continue
        places = {digest: index for index, digest in enumerate(other.question_ids.tolist())}
        for index, digest in enumerate(scores.question_ids.tolist()):
            place = places.get(digest)
            if place is None:
                continue
            before, after = scores.headline_scores[index], other.headline_scores[place]
            if before is not None and after is not None and (before == 1) != (after == 1):
                yield ((config, index), (config, place)), after - before


def _score(run: Scores, key: _Key) -> float:
    return 100 * (run.configs[key[0]].headline_scores[key[1]] or 0.0)


def _texts(
    place: Path, keys: list[_Key], data: str | None
) -> dict[_Key, tuple[str, tuple[str, ...], str]]:
    """Return question, gold answers and text of rows of a run."""
    folder = place if place.is_dir() else place.parent
    if not (folder / RUN_FILE).is_file():
        return {}
    dataset = rows_of_run(folder, read_info(folder), data)
    dataset.fetch()
    answers = RunFolder(folder).answers([])
    texts = {}
    for config in dict.fromkeys(config for config, _ in keys):
        indexes = {index for name, index in keys if name == config}
        with closing(dataset.read_some(config, indexes)) as rows:
            for row in rows:
                answer: Answer | None = answers.get((config, row.index, 0))
                if answer is not None:
                    texts[config, row.index] = (
                        row.question[-LONGEST:], tuple(row.outputs), (answer.text or "")[:LONGEST]
                    )  # fmt: skip
    return texts
