"""`judgements.jsonl`: what judges say of attempts, beside them and never over them.

One line for each judge and attempt, written after the attempt's. It names the text that was
judged by its hash, so that what was said of a superseded answer is not taken for the new
one's. ``judges.json`` beside it says which judges there are, with their settings, and which of
them decide, with the rules, on what passed: those of the run file. One that is asked later
(`harness judge`) only adds its scores.

>>> verdict_over(True, {"exact": Score(True, True)}, [])
True
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import msgspec
from msgspec import Struct

from harness.errors import DataInvalid, StoreFailed
from harness.records import SCHEMA_VERSION, Attempt, Outcome, Score, Usage, encodable, verdict
from harness.store.files import write_whole
from harness.store.json_lines import JsonLinesWriter, lines
from harness.store.run_folder import JUDGEMENTS, JUDGES


class Versioned(Protocol):
    """A shape of a judgement's line."""

    @property
    def v(self) -> int:
        """Its schema version."""
        ...


L = TypeVar("L", bound=Versioned)

JudgementOutcome = Literal["ok", "unparseable", "refused", "empty", "error"]

FAILED: Collection[JudgementOutcome] = frozenset[JudgementOutcome](["error"])
"""Outcomes of judgements that are always made again."""


class JudgeCall(Struct, frozen=True):
    """One of the calls that a judgement took."""

    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False


class Judgement(Struct, frozen=True):
    """One line of ``judgements.jsonl``: what one judge says of one attempt.

    Named by (judge, instance, sample, round) and the judged text.

    judge: its name in the run.
    attempt: `text_hash` of the judged text.
    scores: by ``JUDGE.SCORE``; none where the replies held no verdict.
    replies: their texts, as they came; call_ids: of their calls.
    usage, cost_usd: of all of the calls; None where that of one is not known.
    cached: none of them had to be paid for.
    calls: each of them by itself, where there are several.
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
        """Its calls by their ids."""
        alone = (JudgeCall(self.usage, self.cost_usd, self.cached),)
        return zip(self.call_ids, self.calls or alone, strict=False)


class JudgedAttempt(Attempt, frozen=True):
    """An attempt with what judges said of it: its scores and verdict are over both."""

    judgements: tuple[Judgement, ...] = ()


def text_hash(text: str) -> str:
    """What names a judged text: 32 hex digits, the same before and after it was in a file."""
    return blake2b(encodable(text).encode(), digest_size=16).hexdigest()


def verdict_over(
    passed: bool | None, scores: Mapping[str, Score], judgements: Iterable[Judgement | None]
) -> bool | None:
    """Whether an answer passed by the rules and by the judges that decide.

    passed, scores: the rules'.
    judgements: one of each deciding judge; None for one that has not judged yet.

    None where a judge that decides has not judged or could not, as where a score could not
    be made.
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
    found_by_judges = verdict(said)
    if found_by_judges is None:
        unmade = any(score.value is None for score in said.values())
        return None if unmade else passed
    return passed and found_by_judges


class RegisteredJudge(Struct, frozen=True):
    """A judge of a run.

    section: its settings, resolved, as an element of ``judges:``.
    decides: its scores have a say in what passed.
    simulated: its answers are made up.
    fingerprint: what its judgements depend on beside the section: its prompt's text.
    verdicts: its scores give verdicts, whether they decide or not.
    by_criteria: it decides on what the task's criteria say.
    """

    section: Mapping[str, Any]
    decides: bool = False
    simulated: bool = False
    fingerprint: Mapping[str, str] = {}
    verdicts: bool = True
    by_criteria: bool = False

    @property
    def members(self) -> tuple[str, ...]:
        """Of a panel the judges that it is made of; none of a judge, who has a model."""
        return () if "model" in self.section else tuple(self.section.get("of", ()))

    @property
    def model(self) -> str:
        """The name of the model that it asks; empty where that has none."""
        model = self.section.get("model")
        name = model.get("name") if isinstance(model, Mapping) else None
        return name if isinstance(name, str) else ""


class Register(Struct, frozen=True):
    """``judges.json``: the judges of a run by their names.

    judged: outcomes of the attempts that are put before them.
    """

    schema_version: int = SCHEMA_VERSION
    judged: tuple[Outcome, ...] = ()
    judges: Mapping[str, RegisteredJudge] = {}

    @property
    def deciding(self) -> list[str]:
        """The names of those that have a say in what passed."""
        return [name for name, judge in self.judges.items() if judge.decides]


def read_register(folder: Path) -> Register:
    """The judges of a run's folder; none where it never had any.

    Raises: StoreFailed.
    """
    path = folder / JUDGES
    try:
        return msgspec.json.decode(path.read_bytes(), type=Register)
    except FileNotFoundError:
        return Register()
    except OSError as error:
        raise StoreFailed(
            f"Cannot read {path}: {error.strerror}.", "Mend its permissions, then try again."
        ) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StoreFailed(
            f"{path} is damaged: {error}.", "Remove it, and run or judge again."
        ) from None


def write_register(folder: Path, register: Register) -> None:
    """Write the judges of a run's folder, whole or not at all. Raises: StoreFailed."""
    content = msgspec.json.format(msgspec.json.encode(register), indent=2) + b"\n"
    write_whole(folder / JUDGES, content)


class JudgementWriter:
    """Appends judgements to a run's file, as `JsonLinesWriter` does attempts."""

    def __init__(self, folder: Path) -> None:
        self._lines = JsonLinesWriter(folder / JUDGEMENTS)

    def append(self, judgement: Judgement) -> None:
        """Write one line; on return it survives the death of this process.

        Raises: StoreFailed.
        """
        self._lines.append(judgement)

    def close(self) -> None:
        """Close the file; a second close does nothing."""
        self._lines.close()

    def __enter__(self) -> JudgementWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def with_judgements(folder: Path, attempts: Sequence[Attempt]) -> list[Attempt]:
    """The attempts of one instance with what judges have said of their texts.

    Raises: DataInvalid, StoreFailed.
    """
    register = read_register(folder)
    if not register.judges or not attempts:
        return list(attempts)
    latest: dict[tuple[str, int, int, str], Judgement] = {}
    for found in read_judgements(folder, attempts[0].instance):
        latest[found.judge, found.sample, found.round, found.attempt] = found
    judged: list[Attempt] = []
    for attempt in attempts:
        if attempt.outcome not in register.judged:
            judged.append(attempt)
            continue
        of = (attempt.sample, attempt.round, text_hash(attempt.text or ""))
        said = {name: latest.get((name, *of)) for name in register.judges}
        deciding = [said[name] for name in register.deciding]
        there = tuple(one for one in said.values() if one is not None)
        changes: dict[str, Any] = {
            "passed": verdict_over(attempt.passed, attempt.scores, deciding),
            "scores": {**attempt.scores, **{k: s for one in there for k, s in one.scores.items()}},
            "judgements": there,
        }
        fields = {name: getattr(attempt, name) for name in Attempt.__struct_fields__}
        judged.append(JudgedAttempt(**{**fields, **changes}))
    return judged


def read_judgements(folder: Path, instance: str) -> list[Judgement]:
    """All judgements of an instance, in the order of the file.

    Raises: DataInvalid, StoreFailed.
    """
    path = folder / JUDGEMENTS
    decode, name = msgspec.json.Decoder(Judgement).decode, msgspec.json.Decoder(_Name).decode
    try:
        return [
            _decoded(path, number, decode, text)
            for number, (_, text) in enumerate(lines(path), start=1)
            if _decoded(path, number, name, text).instance == instance
        ]
    except OSError as error:
        raise StoreFailed(
            f"Cannot read {path}: {error.strerror}.", "Mend its permissions, then try again."
        ) from None


def lines_of(path: Path, decode: Callable[[bytes], L]) -> Iterator[tuple[int, int, L]]:
    """Each judgement of a file as a shape with its schema version, its number and its offset.

    decode: of one line; the numbers count from 1, the offsets are bytes.

    Raises: DataInvalid, StoreFailed.
    """
    try:
        for number, (offset, text) in enumerate(lines(path), start=1):
            try:
                line = decode(text)
            except UNREADABLE as error:
                raise not_a_judgement(path, number, error) from None
            if line.v != SCHEMA_VERSION:
                raise not_a_judgement(path, number, ValueError(f"schema version {line.v}"))
            yield number, offset, line
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> StoreFailed:
    """What is raised for a file of a run that cannot be read."""
    return StoreFailed(
        f"Cannot read {path}: {error.strerror}.", "Mend its permissions, then try again."
    )


class _Name(Struct):
    instance: str


def _decoded(path: Path, number: int, decode: Any, text: bytes) -> Any:
    try:
        return decode(text)
    except UNREADABLE as error:
        raise not_a_judgement(path, number, error) from None


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def not_a_judgement(path: Path, number: int, error: Exception) -> DataInvalid:
    """What is raised for a line, by its number from 1, that cannot be read."""
    return DataInvalid(
        f"{path}, line {number}: not a judgement ({str(error)[:160]}).",
        "Remove the line; its attempt is then judged again.",
    )
