"""`judgements.jsonl`: what judges say about attempts, beside the attempts' file.

One line for each judge and attempt, written after the attempt's. A line names the judged text by
its hash, so that a judgement of a superseded answer is not mistaken for one of the new answer.
``judges.json`` beside it lists the run's judges with their settings, and says which of them
decide, with the rules, whether an answer passed: those of the run file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from harness.errors import StoreFailed
from harness.records import SCHEMA_VERSION, Attempt, Outcome, Score, Usage, encodable, verdict
from harness.store.files import write_json
from harness.store.json_lines import UNREADABLE, LineKind, reading
from harness.store.run_folder import JUDGES

JUDGEMENT = LineKind("a judgement", "Remove the line: its attempt is then judged again.")

JudgementOutcome = Literal["ok", "unparseable", "refused", "empty", "error"]

FAILED: Collection[JudgementOutcome] = frozenset[JudgementOutcome](["error"])
"""Outcomes of judgements that are always retried."""


class JudgeCall(Struct, frozen=True):
    """One of the calls that a judgement took."""

    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False


class Judgement(Struct, frozen=True):
    """One line of ``judgements.jsonl``: what one judge says about one attempt.

    It is identified by (judge, instance, sample, round) and the judged text.

    Attributes:
        attempt: `text_hash` of the judged text.
        scores: By ``JUDGE.SCORE``; empty if the replies held no verdict.
        usage, cost_usd: Of all calls; None if unknown for any of them.
        cached: None of the calls had to be paid for.
        calls: Each call by itself, if there are several.
    """

    v: int
    judge: str
    instance: str
    sample: int
    round: int
    attempt: str
    outcome: JudgementOutcome
    started_at: float
    ended_at: float
    scores: Mapping[str, Score] = {}
    replies: tuple[str, ...] = ()
    call_ids: tuple[str, ...] = ()
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False
    error: str | None = None
    calls: tuple[JudgeCall, ...] = ()

    def each_call(self) -> Iterable[tuple[str, JudgeCall]]:
        """Return its calls by their ids."""
        alone = (JudgeCall(self.usage, self.cost_usd, self.cached),)
        return zip(self.call_ids, self.calls or alone, strict=False)


class JudgedAttempt(Attempt, frozen=True):
    """An attempt with its judgements; its scores and verdict are those of rules and judges."""

    judgements: tuple[Judgement, ...] = ()


def text_hash(text: str) -> str:
    """Hash a judged text to 32 hex digits, the same before and after it was in a file."""
    return blake2b(encodable(text).encode(), digest_size=16).hexdigest()


def verdict_over(
    passed: bool | None, scores: Mapping[str, Score], judgements: Iterable[Judgement | None]
) -> bool | None:
    """Decide whether an answer passed, by the rules' verdict and scores and the deciding judges.

    None if a score could not be made, or a deciding judge has not judged (None) or could not.
    """
    said: dict[str, Score] = {}
    for found in judgements:
        if found is None or found.outcome != "ok":
            return None
        said |= found.scores
    if not said:
        return passed
    if passed is None:
        return verdict({**scores, **said})
    if any(score.value is None for score in said.values()):
        return None
    return passed and verdict(said) is not False


class RegisteredJudge(Struct, frozen=True):
    """A judge of a run, with its resolved section and what else its judgements depend on.

    Its scores may give ``verdicts`` whether they decide or not.
    """

    section: Mapping[str, Any]
    decides: bool = False
    simulated: bool = False
    fingerprint: Mapping[str, str] = {}
    verdicts: bool = True
    by_criteria: bool = False

    @property
    def members(self) -> tuple[str, ...]:
        """The judges of a panel; empty for a judge, which has a model."""
        return () if "model" in self.section else tuple(self.section.get("of", ()))

    @property
    def model(self) -> str:
        """Return the name of the judging model; empty if it has none."""
        model = self.section.get("model")
        name = model.get("name") if isinstance(model, Mapping) else None
        return name if isinstance(name, str) else ""


class Register(Struct, frozen=True):
    """``judges.json``: the judges of a run by their names, and the outcomes that they judge."""

    schema_version: int = SCHEMA_VERSION
    judged: tuple[Outcome, ...] = ()
    judges: Mapping[str, RegisteredJudge] = {}

    @property
    def deciding(self) -> list[str]:
        """The names of the judges that decide."""
        return [name for name, judge in self.judges.items() if judge.decides]


def read_register(folder: Path) -> Register:
    """Read the judges of a run's folder; it is empty if the run never had any."""
    path = folder / JUDGES
    if not path.exists():
        return Register()
    try:
        with reading(path):
            return msgspec.json.decode(path.read_bytes(), type=Register)
    except UNREADABLE as error:
        said = f"{path} is damaged: {error}."
        raise StoreFailed(said, "Remove it, and run or judge again.") from None


def write_register(folder: Path, register: Register) -> None:
    """Write the judges of a run's folder, whole or not at all."""
    write_json(folder / JUDGES, register)
