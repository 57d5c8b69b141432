"""`judgements.jsonl`: judges' scores of attempts, stored next to the attempts.

A line contains a hash of the judged text, so that a judgement of a superseded answer is not applied
to the new answer. ``judges.json`` lists the run's judges with their settings, and says which of
them decide whether an answer passes. Judges that are not in the run file never decide.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from harness.config.yaml_text import read_mapping
from harness.errors import StoreFailed
from harness.records import (
    SCHEMA_VERSION,
    Attempt,
    Outcome,
    Score,
    Usage,
    replace_surrogates,
    verdict,
)
from harness.store.file_states import (
    ATTEMPTS,
    JUDGEMENTS,
    find_changed_file,
    remove_states,
    write_and_record,
)
from harness.store.files import format_json, read_file
from harness.store.json_lines import LineKind, convert_read_errors, decode_lines, read_json
from harness.store.run_folder import CONFIG, JUDGES

JUDGEMENT = LineKind("a judgement", "Remove the line: its attempt is then judged again.")

JudgementOutcome = Literal["ok", "unparseable", "refused", "empty", "error"]

FAILED_OUTCOMES: Collection[JudgementOutcome] = frozenset[JudgementOutcome](
    ["error"]
)  # always retried


# Outcomes without a verdict, which `harness judge --retry` may repeat.
REDRAWN_OUTCOMES: tuple[JudgementOutcome, ...] = ("unparseable", "refused", "empty")


class JudgeCall(Struct, frozen=True):
    """The tokens and cost (None: unknown) of one call that was made for a judgement."""

    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False


class Judgement(Struct, frozen=True):
    """A line of ``judgements.jsonl``: one judge's judgement of one text of an attempt."""

    v: int
    judge: str
    instance: str
    sample: int
    round: int
    attempt: str  # `text_hash` of the judged text
    outcome: JudgementOutcome
    started_at: float  # epoch seconds
    ended_at: float
    scores: Mapping[str, Score] = {}  # by JUDGE.SCORE; empty if the replies contained no verdict
    replies: tuple[str, ...] = ()
    call_ids: tuple[str, ...] = ()
    usage: Usage | None = None  # of all calls; None if unknown for any of them
    cost_usd: float | None = None  # of all calls; None if unknown for any of them
    cached: bool = False  # whether there were calls, and all came from the cache
    error: str | None = None
    calls: tuple[JudgeCall, ...] = ()  # the individual calls, if there are several

    def identified_calls(self) -> Iterable[tuple[str, JudgeCall]]:
        """Return the ids of the judgement's calls, each with its tokens and cost."""
        single_call = (JudgeCall(self.usage, self.cost_usd, self.cached),)
        return zip(self.call_ids, self.calls or single_call, strict=False)


class Redraws(Struct, frozen=True):
    """How often a judge has repeated judgements that had no verdict."""

    total: int
    most: int  # the maximum over the attempts


class JudgedAttempt(Attempt, frozen=True):
    """An attempt with its judgements, and the combined scores and verdict of rules and judges."""

    judgements: tuple[Judgement, ...] = ()


def text_hash(text: str) -> str:
    """Hash a judged text. A text that was read back from a file has the same hash."""
    return blake2b(replace_surrogates(text).encode(), digest_size=16).hexdigest()


def combined_verdict(
    passed: bool | None, scores: Mapping[str, Score], judgements: Iterable[Judgement | None]
) -> bool | None:
    """Return whether an answer passed, according to the rules and the deciding judges.

    The first of these that applies decides:

    1. A judgement is missing or has failed: no verdict.
    2. The rules or a judge's score have failed the answer: it fails.
    3. A judgement is not ``ok``, or a judge's score has no value: no verdict.
    4. The rules have passed the answer: it passes.
    5. A rule's score has no value: no verdict.
    6. A judge's score has passed the answer: it passes.
    7. Nothing has a verdict: no verdict.

    Args:
        passed: The verdict of the rules, or None.
        scores: The scores of the rules.
        judgements: The judgements by the deciding judges (None: missing).

    Returns:
        The verdict, or None.
    """
    judge_scores: dict[str, Score] = {}
    all_ok = True
    for judgement in judgements:
        if judgement is None or judgement.outcome in FAILED_OUTCOMES:
            return None
        if judgement.outcome == "ok":
            judge_scores |= judgement.scores
        else:
            all_ok = False
    if passed is False or any(score.passed is False for score in judge_scores.values()):
        return False
    if not all_ok or any(score.value is None for score in judge_scores.values()):
        return None
    if passed is not None:
        return passed
    if any(score.value is None for score in scores.values()):
        return None
    return verdict(judge_scores)


class _JudgeLine(Struct):
    v: int
    judge: str


class RegisteredJudge(Struct, frozen=True):
    """A judge or panel of a run: its section with all defaults, and the hashes of its inputs."""

    section: Mapping[str, Any]
    decides: bool = False  # whether its verdicts count towards passing
    simulated: bool = False
    fingerprint: Mapping[str, str] = {}
    verdicts: bool = True  # whether its scores include verdicts
    by_criteria: bool = False  # whether the verdicts are on a task's criteria

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the judges in a panel, or () if this is not a panel."""
        return () if "model" in self.section else tuple(self.section.get("of", ()))

    @property
    def model(self) -> str:
        """The name of the judge's model, or "" if the judge has none."""
        model = self.section.get("model")
        name = model.get("name") if isinstance(model, Mapping) else None
        return name if isinstance(name, str) else ""


class Register(Struct, frozen=True):
    """The content of ``judges.json``: a run's judges by name, and the outcomes that they judge."""

    schema_version: int = SCHEMA_VERSION
    judged: tuple[Outcome, ...] = ()
    judges: Mapping[str, RegisteredJudge] = {}

    @property
    def deciding(self) -> list[str]:
        """The names of the judges and panels that decide what passes."""
        return [name for name, judge in self.judges.items() if judge.decides]


def read_register(folder: Path, *, partial: bool = False) -> Register:
    """Read a run's ``judges.json``, which is missing if the run has no judges.

    Raises:
        StoreFailed: If the file lacks a judge of the run file, unless ``partial``. Without that
            judge, answers would have the verdicts of the rules alone.
    """
    register = read_json(folder / JUDGES, Register, "Remove it, and run or judge again.")
    if partial:
        return register
    missing = [name for name in run_file_judges(folder) if name not in register.judges]
    attempts = folder / ATTEMPTS
    has_attempts = attempts.exists() and attempts.stat().st_size > 0
    if missing and has_attempts:  # a session registers its judges before its first attempt
        problem = f"{folder / JUDGES} lacks {', '.join(map(repr, missing))}, which "
        problem += f"{CONFIG} lists: what the judges decided is unknown."
        raise StoreFailed(problem, "Run the run file again: it restores the file without a call.")
    return register


def has_judges(folder: Path) -> bool:
    """Return whether a run has judges, or its run file names some."""
    return (folder / JUDGES).exists() or bool(run_file_judges(folder))


def run_file_judges(folder: Path) -> tuple[str, ...]:
    """Return the names of the judges and panels in a run's ``config.yaml`` (none without it)."""
    path = folder / CONFIG
    with convert_read_errors(path):
        if not path.exists():
            return ()
        status = path.stat()
        return _run_file_judges(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _run_file_judges(path: Path, _size: int, _modified_ns: int) -> tuple[str, ...]:
    if all(line in read_file(path) for line in (b"\njudges: []\n", b"\npanels: []\n")):
        return ()  # parsing takes 20 ms
    tree = read_mapping(path)
    names = []
    for section in [*(tree.get("judges") or ()), *(tree.get("panels") or ())]:
        if isinstance(section, dict):
            names.append(str(section.get("as") or section.get("name")))
    return tuple(names)


def added_judges(folder: Path) -> tuple[str, ...]:
    """Return the names of the judges that have judged a run, but are not in its run file."""
    lines = decode_lines(folder / JUDGEMENTS, _JudgeLine, JUDGEMENT)
    names = dict.fromkeys(line.judge for _, _, line in lines)
    return tuple(name for name in names if name not in run_file_judges(folder))


def read_unchanged_register(folder: Path) -> Register:
    """Read a run's ``judges.json``, or return an empty register if the file was changed."""
    return (
        Register() if find_changed_file(folder, [JUDGES]) else read_register(folder, partial=True)
    )


def write_register(folder: Path, register: Register) -> None:
    """Replace the ``judges.json`` in a run's folder atomically."""
    remove_states(folder, [JUDGES])  # if the process is killed, the file does not seem changed
    write_and_record(folder / JUDGES, format_json(register))
