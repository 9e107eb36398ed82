"""Whether a run is not worse than another by more than a margin: a one-sided test at 5 %.

*Not worse*: the mean over the frame is not lower by more than the margin, and no length or category
is shown to be. *Worse*: one of them is. Else these rows cannot tell, nor can a run without a rank,
nor does a run pass on some of the configs that the base answered: what was not seen does not count.
"""

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ruler_data.errors import UsageError
from ruler_data.names import config_name
from ruler_report.columns import MEAN, Name
from ruler_report.frame import complete_cells
from ruler_report.means import FEWEST, Means
from ruler_report.typesetting import first_of, format_signed, name_of

if TYPE_CHECKING:
    from ruler_report.conclusion import Conclusion

#: Verdicts, with their exit status.
NOT_WORSE, WORSE, CANNOT_TELL = "not worse", "worse", "cannot tell"
EXIT = {NOT_WORSE: 0, WORSE: 1, CANNOT_TELL: 3}
#: More rows a config than any release has.
MANY = 100_000


@dataclass(frozen=True)
class MarginTest:
    """Whether a run is not worse than another.

    Attributes:
        margin: percentage points that it may lose.
        verdict: `not worse`, `worse` or `cannot tell`.
        low: how low the difference of the means may be, in points; None where nothing can be told.
        high: how high it may be.
        lost: means that are shown to be lower by more than the margin.
        doubts: why nothing can be told, whatever the scores are.
        rows: about how many rows a config would tell; None for no number.
    """

    margin: float
    verdict: str
    low: float | None
    high: float | None
    lost: tuple[Name, ...] = ()
    doubts: tuple[str, ...] = ()
    rows: int | None = None

    @property
    def exit_status(self) -> int:
        """0 not worse, 1 worse, 3 cannot tell."""
        return EXIT[self.verdict]

    def sentence(self, new: str, old: str) -> str:
        """Return the verdict in words."""
        points = f"by more than {self.margin:g} points"
        if self.margin == 1:
            points = "by more than 1 point"
        if self.low is not None and self.high is not None:
            ends = f"{format_signed(self.low)} and {format_signed(self.high)}"
            points += f" (difference of the means between {ends})"
        if self.verdict == NOT_WORSE:
            return f"not worse: {new} is not worse than {old} {points}."
        if self.verdict == WORSE:
            return f"worse: {new} is worse than {old} {points}; shown for {self._lost}."
        question = f"these rows cannot tell whether {new} is worse than {old}"
        return f"cannot tell: {question} {points}; {self._remedy}."

    @property
    def _lost(self) -> str:
        return ", ".join(name_of(name) for name in self.lost)

    @property
    def _remedy(self) -> str:
        if self.doubts:
            return "; ".join(self.doubts)
        if self.rows:
            return f"if no mean changes, about {self.rows:,} rows a config would tell"
        return "the difference is so near the margin that more rows would not tell"

    def to_record(self) -> dict[str, Any]:
        """Return the test as plain values."""
        first = {"margin": self.margin, "verdict": self.verdict, "exit_status": self.exit_status}
        return first | asdict(self) | {"lost": [name_of(name) for name in self.lost]}


def check_margin(margin: float) -> None:
    """Check that a margin is one.

    Raises:
        UsageError: it is not above 0 and at most 100.
    """
    if not 0 < margin <= 100:
        raise UsageError(f"--margin {margin:g}", "give percentage points above 0, at most 100")


def margin_test(conclusion: "Conclusion", run: int, margin: float) -> MarginTest:
    """Return whether a run is not worse than the base of a conclusion."""
    doubts = _doubts(conclusion, run)
    if doubts:
        return MarginTest(margin, CANNOT_TELL, None, None, doubts=tuple(doubts))
    means = conclusion.means
    low, high = means.bounds(MEAN, run, conclusion.base)
    verdict, lost = decide(means, run, conclusion.base, margin)
    lacking = _lacking(conclusion, run)
    if lacking and verdict != WORSE:
        return MarginTest(margin, CANNOT_TELL, low, high, doubts=(lacking,))
    needed = None
    if verdict == CANNOT_TELL:
        most = max(conclusion.frame.rows.values())
        needed = rows_that_tell(means, run, conclusion.base, margin, most)
    return MarginTest(margin, verdict, low, high, tuple(lost), rows=needed)


def decide(means: Means, run: int, base: int, margin: float) -> tuple[str, list[Name]]:
    """Return the verdict, and the means that are shown to be lower by more than the margin."""
    names = [name for name in means.columns if _is_tested(means, name)]
    lost = means.lower_than(names, run, base, margin)
    low, high = means.bounds(MEAN, run, base)
    if high < -margin:
        lost = [MEAN, *lost]
    if lost:
        return WORSE, lost
    if low > -margin:
        return NOT_WORSE, []
    return CANNOT_TELL, []


def _is_tested(means: Means, name: Name) -> bool:
    """Whether a mean is that of a length over all tasks, or of a category over all lengths."""
    first, length = name
    if first is None:
        return length is not None
    return length is None and first not in means.columns[MEAN].tasks


def rows_that_tell(means: Means, run: int, base: int, margin: float, rows: int) -> int | None:
    """Return how many rows of each config decide if no mean changes; None if too many.

    It is the test's own interval, made narrower until it decides.
    """

    def decides(number: int) -> bool:
        verdict, _ = decide(means.with_rows(number / rows), run, base, margin)
        return verdict != CANNOT_TELL

    if decides(rows) or not decides(MANY):
        return None
    few = rows
    enough = MANY
    while enough - few > max(1, few // 50):
        middle = (few + enough) // 2
        if enough > few + 3:
            middle = int((few * enough) ** 0.5)
        if decides(middle):
            enough = middle
        else:
            few = middle
    return enough


def _doubts(conclusion: "Conclusion", run: int) -> list[str]:
    """Return why nothing can be told, whatever the scores are."""
    doubts = []
    base = conclusion.base
    for place in (run, base):
        reason = conclusion.frame.unranked.get(place)
        if reason:
            doubts.append(f"{conclusion.names[place]} has no rank: {reason}")
    if doubts:
        return doubts
    if MEAN not in conclusion.columns:
        return ["no task at a length is complete in both runs"]
    identities = conclusion.means.identities
    if conclusion.fewest < FEWEST and identities[run] != identities[base]:
        doubts.append(f"a task has fewer than {FEWEST} rows")
    floor = blind_floor(conclusion, base)
    estimate = conclusion.estimate(MEAN, base)
    if estimate is None or estimate.low is None or estimate.low <= floor:
        doubts.append(
            f"{conclusion.names[base]} is not shown to be above its blind floor ({floor:.1f}), so "
            "that guessing might do as well"
        )
    return doubts


def _lacking(conclusion: "Conclusion", run: int) -> str:
    """Return that a run lacks configs that the base answered; empty if it has all of them."""
    answered = complete_cells(conclusion.frame.runs[run])
    answered_by_base = complete_cells(conclusion.frame.runs[conclusion.base])
    lacking = [
        config_name(*cell)
        for cell in conclusion.frame.left_out
        if cell in answered_by_base and cell not in answered
    ]
    if not lacking:
        return ""
    return (
        f"{conclusion.names[run]} has not answered all rows of {first_of(lacking, 'config')}; "
        "resume it, or compare less with --tasks and --lengths"
    )


def blind_floor(conclusion: "Conclusion", run: int) -> float:
    """Return what answers score that are written without the context: the mean, in percent."""
    floors = conclusion.runs[run].blind_floors
    cells = conclusion.columns[MEAN].cells
    return 100 * fmean(floors.get(f"{task}_{length}", 0.0) for task, length in cells)
