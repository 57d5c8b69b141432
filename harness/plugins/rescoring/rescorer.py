"""Scores recorded attempts again with the current task, without calling a model.

`harness score` writes the new scores next to the attempts. A run that continues with changed checks
has all its attempts scored again first, so that no rate mixes the verdicts of two versions.
"""

from __future__ import annotations

import contextlib
import pickle
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET
from msgspec.structs import replace
from numpy.typing import NDArray

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.assessment import (
    Assessment,
    LongAnswerAssessor,
    ScoreWarnings,
    apply_feedback_template,
    assess_crash,
    feedback,
    score_warnings,
)
from harness.engine.changes import has_same_prompt
from harness.engine.job import Job, ScoredAgain
from harness.engine.plan import prompt_hash
from harness.engine.reasoning import MarkCounts, RecordedReasoning
from harness.engine.resolving import build_task
from harness.engine.turns import (
    RecordedRounds,
    instance_of_attempt,
    max_turns,
    scripted_turn,
    user_role,
)
from harness.errors import DataMissing, RunConflict, option
from harness.ports import Task
from harness.records import (
    OUTCOMES_WITHOUT_REPLY,
    Attempt,
    Instance,
    Outcome,
    Reply,
    Score,
    first_reason,
)
from harness.scoring.reasoning import Reasoning
from harness.store.attempt_lines import ATTEMPT
from harness.store.file_states import record_rescoring
from harness.store.files import replace_atomically
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter, decode_lines_at, encode
from harness.store.judgement_index import read_judgements
from harness.store.judgements import Judgement, combined_verdict
from harness.store.run_folder import JUDGEMENTS

GONE = "The instance is no longer in the data set, or has another prompt."


class Rescored(msgspec.Struct, frozen=True):
    """A line of ``scores.jsonl``: an attempt's new scores by rules, or why there are none."""

    v: int
    instance: str
    sample: int
    round: int
    outcome: Outcome
    passed: bool | None
    scores: Mapping[str, Score]
    error: str | None = None


class VerdictChange(NamedTuple):
    """A verdict that re-scoring changed, with the reason for the failure."""

    instance: str
    sample: int
    round: int
    before: bool | None
    after: bool | None
    reason: str


VerdictPair = tuple[bool | None, bool | None]  # (verdict before, verdict now)
VerdictCounts = Counter[VerdictPair]


_decode_scores = msgspec.json.Decoder(dict[str, Score]).decode


def same_scores(recorded: Mapping[str, Score], scored: Mapping[str, Score]) -> bool:
    """Return whether scores are the recorded ones, which the file has as floats."""
    before = line(recorded)
    now = line(scored)
    return now == before or line(_decode_scores(now)) == before


class VerdictChanges:
    """Counts of verdicts before and after re-scoring."""

    def __init__(self) -> None:
        self.verdicts: VerdictCounts = Counter()
        self.groups: dict[str, dict[str, VerdictCounts]] = {}
        self.left = 0  # failed calls, which are not re-scored
        self.gone = 0  # attempts whose instance is no longer in the data set, or has another prompt
        self.otherwise = 0  # attempts that keep their verdict, but not their outcome or scores

    def record(
        self, attempt: Attempt, scored: Rescored, verdicts: VerdictPair
    ) -> VerdictChange | None:
        """Count an attempt by its old and new verdicts. Return the change, if there is one.

        A failed call counts only in ``left``. ``verdicts`` combine rules and judges, unlike the
        verdicts in ``attempt`` and ``scored``, which are by rules only.
        """
        if attempt.outcome == "error":
            self.left += 1
            return None
        self.gone += scored.error == GONE
        self.verdicts[verdicts] += 1
        for label, group in attempt.groups.items():
            groups = self.groups.setdefault(label, {})
            if group not in groups:
                groups[group] = Counter()  # only if missing: this takes longer than the rest
            groups[group][verdicts] += 1
        if verdicts[0] is verdicts[1]:
            same = attempt.outcome == scored.outcome and same_scores(attempt.scores, scored.scores)
            self.otherwise += not same
            return None
        failed = attempt if verdicts[1] else scored
        outcome = "" if failed.outcome == "ok" else failed.outcome
        reason = first_reason(failed.scores) or failed.error or outcome
        return VerdictChange(attempt.instance, attempt.sample, attempt.round, *verdicts, reason)

    def add(self, changes: VerdictChanges) -> None:
        """Add the counts of other attempts of the run."""
        self.verdicts += changes.verdicts
        for label, groups in changes.groups.items():
            totals = self.groups.setdefault(label, {})
            for group, counts in groups.items():
                totals.setdefault(group, Counter()).update(counts)
        self.left += changes.left
        self.gone += changes.gone
        self.otherwise += changes.otherwise

    @property
    def changed(self) -> int:
        """The number of verdicts that changed."""
        return sum(n for (before, after), n in self.verdicts.items() if before is not after)

    @property
    def same(self) -> int:
        """The number of verdicts that did not change."""
        return self.verdicts.total() - self.changed


def line(value: object) -> bytes:
    """Encode a value as a line of ``scores.jsonl``."""
    return encode(value, order="deterministic")


LOST_TURNS = "attempts.jsonl lacks an earlier turn of the conversation"
LOST_MARKS = (
    "model.reasoning has fewer marks than before, and the run does not record whether the "
    "reasoning of its answers was between these marks in the reply or came from the provider "
    "as a separate field"
)

AttemptAssessor: TypeAlias = Callable[[Attempt, Reply], Assessment]

BATCH = 200  # attempts per batch: a second with slow checkers, and far longer than sending them


JudgedAttempt: TypeAlias = tuple[Attempt, Sequence[Judgement | None]]
"""An attempt, and its judgements by the deciding judges."""


class Batch(NamedTuple):
    """Some instances, in the order of the data set, and where their attempts are recorded.

    Instances that are no longer in the data set come last, as None.
    """

    instances: Sequence[tuple[Instance[Any] | None, int]]  # each with its number of attempts
    offsets: Sequence[int]  # (n,) byte offsets of the n attempts' lines
    judgements: Sequence[Sequence[int]]  # (n, k) of k deciding judges' lines (`judgement_offsets`)


class ScoredBatch(NamedTuple):
    """The new scores of a batch, and the verdicts that they changed."""

    attempts: int
    lines: bytes  # of ``scores.jsonl``
    changes: VerdictChanges
    changed: Sequence[VerdictChange]
    unscored: Sequence[str]  # messages about answers whose scoring took too long
    separated: int  # attempts whose recorded text contained their reasoning
    unknown_marks: MarkCounts
    warnings: ScoreWarnings


def batches(task: Task[Any], recorded: AttemptIndex) -> Iterator[Batch]:
    """Divide a run's attempts into batches, one of which is in memory at a time.

    Raises:
        DataMissing: If the data set has none of the run's instances.
    """
    left = np.ones(len(recorded), np.bool_)
    instances: list[tuple[Instance[Any] | None, int]] = []
    rows: list[int] = []
    for instance in task.instances():
        instance_rows = recorded.find_rows(instance.id)
        if not instance_rows:
            continue
        left[instance_rows.start : instance_rows.stop] = False
        instances.append((instance, len(instance_rows)))
        rows += instance_rows
        if len(rows) >= BATCH:
            yield _batch(recorded, instances, np.array(rows))
            instances = []
            rows = []
    if rows:
        yield _batch(recorded, instances, np.array(rows))
    if not left.any():
        return
    order = recorded.ordered_rows()
    if left.all():
        (name,) = (attempt.instance for attempt in recorded.read(Attempt, order[:1]))
        problem = f"The data set has none of the run's instances, such as {name!r}."
        raise DataMissing(problem, "Restore the data set that the run was made with.")
    orphans = order[left[order]]
    for start in range(0, len(orphans), BATCH):
        part = orphans[start : start + BATCH]
        yield _batch(recorded, [(None, len(part))], part)


def _batch(
    recorded: AttemptIndex,
    instances: Sequence[tuple[Instance[Any] | None, int]],
    rows: NDArray[np.intp],
) -> Batch:
    judgements = recorded.judgement_offsets(rows, _deciding(recorded))
    return Batch(instances, recorded.offset[rows].tolist(), judgements.tolist())


def _deciding(recorded: AttemptIndex) -> list[str]:
    return [name for name, judge in recorded.register.judges.items() if judge.decides]


class Rescorer:
    """Scores batches of a run's attempts again by its task's rules.

    The verdicts combine rules and recorded judgements (`combined_verdict`), as the pass rate does.
    A process to which a rescorer is sent builds the task again from the run file.
    """

    def __init__(
        self,
        task: Task[Any],
        run: RunFile,
        settings: Settings,
        attempts: Path,
        judged: Collection[Outcome],
    ) -> None:
        self._setup = pickle.dumps((run, settings.data_dir, attempts, judged))
        self._task = task
        self._attempts = attempts
        self._judged = judged
        self._reasoning = Reasoning(run.model.reasoning)
        self._unscored: list[str] = []
        self._long_answers = LongAnswerAssessor(task, run, settings, self._unscored.append)

    def __reduce__(self) -> tuple[Callable[[bytes], Rescorer], tuple[bytes]]:
        return _rescorer, (self._setup,)

    def close(self) -> None:
        """End the process that scores long answers, if there is one."""
        self._long_answers.close()

    def score(self, batch: Batch) -> ScoredBatch:
        """Score the attempts of a batch again."""
        attempts = decode_lines_at(self._attempts, batch.offsets, decode_attempt, ATTEMPT)
        path = self._attempts.with_name(JUDGEMENTS)
        judgements = read_judgements(path, batch.judgements, decode_judgement)
        reasoning = RecordedReasoning(self._reasoning)
        rounds = SampleRounds(reasoning)
        judged_attempts = zip(rounds.of(attempts), judgements, strict=True)
        changes = VerdictChanges()
        changed: list[VerdictChange] = []
        lines = bytearray()
        warnings = ScoreWarnings()
        for instance, n in batch.instances:
            assess = prompt = None
            if instance is not None:
                assess = _assessing(self._task, instance, rounds, self._long_answers.assess)
                if instance.cluster is None:
                    prompt = prompt_hash(self._task, instance)
            rescored = _with_new_scores(islice(judged_attempts, n), self._judged, assess, prompt)
            for attempt, scored, verdicts in rescored:
                lines += line(scored) + b"\n"
                warnings.update(score_warnings(scored.scores))
                if change := changes.record(attempt, scored, verdicts):
                    changed.append(change)
        unscored = list(self._unscored)
        self._unscored.clear()
        return ScoredBatch(
            len(batch.offsets),
            bytes(lines),
            changes,
            changed,
            unscored,
            reasoning.separated,
            reasoning.unknown,
            warnings,
        )


@lru_cache(maxsize=1)
def _rescorer(setup: bytes) -> Rescorer:
    run, data_dir, attempts, judged = pickle.loads(setup)  # noqa: S301 (from the parent process)
    settings = Settings(data_dir=data_dir)
    return Rescorer(build_task(run, settings), run, settings, attempts, judged)


class SampleRounds:
    """The rounds of a sample that have been read so far, with their reasoning separated."""

    def __init__(self, reasoning: RecordedReasoning) -> None:
        self._reasoning = reasoning
        self._attempts: list[Attempt] = []

    def of(self, attempts: Iterable[Attempt]) -> Iterator[Attempt]:
        """Yield and remember the given attempts, sorted by sample and round."""
        for attempt in attempts:
            first = next(iter(self._attempts), attempt)
            if (first.instance, first.sample) != (attempt.instance, attempt.sample):
                self._attempts.clear()
            separated = self._reasoning.separate(attempt, self._attempts)
            self._attempts.append(separated)
            yield separated

    def rounds(self, instance: str, sample: int, before: int) -> list[Attempt]:
        """Return the current sample's attempts in the rounds before ``before``."""
        return [attempt for attempt in self._attempts if attempt.round < before]


def _assessing(
    task: Task[Any],
    instance: Instance[Any],
    recorded: RecordedRounds,
    assess: Callable[[Instance[Any], Reply], Assessment],
) -> AttemptAssessor:
    is_conversation = max_turns(task, instance) > 1

    def assess_attempt(attempt: Attempt, reply: Reply) -> Assessment:
        n_before = len(recorded.rounds(attempt.instance, attempt.sample, before=attempt.round))
        if is_conversation and n_before < attempt.round - 1:
            return Assessment(attempt.outcome, None, {}, LOST_TURNS)
        turn = instance_of_attempt(task, instance, attempt, recorded)
        if attempt.outcome == "crashed":
            return assess_crash(task, turn, attempt.error or "")
        return assess(turn, reply)

    return assess_attempt


decode_attempt = msgspec.json.Decoder(Attempt).decode
decode_judgement = msgspec.json.Decoder(Judgement).decode


def _with_new_scores(
    judged_attempts: Iterable[JudgedAttempt],
    judged: Collection[Outcome],
    assess: AttemptAssessor | None,
    prompt: str | None = None,
) -> Iterator[tuple[Attempt, Rescored, VerdictPair]]:
    """Yield an instance's attempts with their new scores, and their verdicts before and now.

    ``assess`` is None if the data set no longer has the instance. If ``prompt`` (see `prompt_hash`)
    is given, answers to other prompts get no scores: rows without ids may have changed places.
    """
    for attempt, judgements in judged_attempts:
        is_same_prompt = prompt in (None, attempt.cluster)
        scored = _rescored(assess if is_same_prompt else None, attempt)
        verdicts = []
        for version in (attempt, scored):
            passed = version.passed
            if version.outcome in judged:
                passed = combined_verdict(passed, version.scores, judgements)
            verdicts.append(passed)
        before, now = verdicts
        yield attempt, scored, (before, now)


def _rescored(assess: AttemptAssessor | None, attempt: Attempt) -> Rescored:
    assessment = Assessment(attempt.outcome, None, {}, GONE)
    if attempt.outcome == "error":  # a failed call stays a failed call
        assessment = Assessment("error", attempt.passed, attempt.scores, attempt.error or "")
    elif assess is not None:
        assessment = assess(attempt, Reply(attempt.text or "", attempt.finish_reason or ""))
    return Rescored(
        attempt.v,
        attempt.instance,
        attempt.sample,
        attempt.round,
        assessment.outcome,
        assessment.passed,
        assessment.scores,
        assessment.problem or None,
    )


def rescore(job: Job) -> ScoredAgain:
    """Score a run's attempts again with the job's task, and write the samples that differ.

    The new lines in ``attempts.jsonl`` are written atomically, so that the verdicts of two versions
    are never mixed. If the task now gives other feedback, the rounds that followed the old feedback
    no longer count and must be made again.

    Raises:
        RunConflict: If a prompt or constraint has changed, if an instance is no longer in the data,
            or if answers have reasoning, and ``model.reasoning`` has lost some of its marks.
    """
    recorded = AttemptIndex(job.folder.attempts)
    plan = job.plan()
    rounds_before = SampleRounds(RecordedReasoning(job.model.reasoning))
    earlier = Reasoning(job.folder.read_config().model.reasoning)
    has_lost_marks = not {*earlier.marks} <= {*job.model.reasoning.marks}
    long_answers = LongAnswerAssessor(job.task, job.run, job.settings)
    n = changed = revalued = dropped = 0
    with replace_atomically(job.folder.attempts) as temporary, contextlib.closing(long_answers):
        shutil.copyfile(job.folder.attempts, temporary)
        with JsonLinesWriter(temporary, job.folder.line_sealer()) as file:
            for instance in job.task.instances():
                rows = recorded.find_rows(instance.id)
                if not rows:
                    continue
                n += len(rows)
                opening = plan.opening(instance)
                assess = _assessing(job.task, instance, rounds_before, long_answers.assess)
                judgements = recorded.read_judgements(
                    np.asarray(rows, np.intp), decode_judgement, _deciding(recorded)
                )
                attempts = list(recorded.read(Attempt, rows, judged=False))
                if has_lost_marks and any(attempt.reasoning for attempt in attempts):
                    raise _not_the_same(job, LOST_MARKS)
                lines = map(line, attempts)
                pairs = zip(rounds_before.of(attempts), judgements, strict=True)
                triples = _with_new_scores(pairs, recorded.register.judged, assess)
                for _, rounds in groupby(triples, key=lambda triple: triple[0].sample):
                    before, scores, verdicts = zip(*rounds, strict=True)
                    if not has_same_prompt(job, instance, opening, before[0]):
                        raise _not_the_same(job, f"the prompt of {instance.id!r:.60} has changed")
                    scored = _sample(job, instance, before, scores)
                    now = [replace(attempt, cluster=opening.cluster) for attempt in scored]
                    dropped += len(before) - len(now)
                    changed += sum(old is not new for old, new in verdicts)
                    values = zip(map(_values, before), map(_values, scores), strict=True)
                    revalued += sum(old != new for old, new in values)
                    if list(map(line, now)) != list(islice(lines, len(before))):
                        for attempt in now:
                            file.append(attempt)
        if n < len(recorded):
            raise _not_the_same(job, "some of its instances are not in the data")
        record_rescoring(job.folder.path)
    return ScoredAgain(n, changed, revalued, dropped)


def _values(scored: Attempt | Rescored) -> dict[str, float | None]:
    return {name: score.value for name, score in scored.scores.items()}


def _not_the_same(job: Job, why: str) -> RunConflict:
    problem = f"The answers of the run {job.folder.name!r} cannot be scored again: {why}."
    return RunConflict(problem, f"For a new run: {option('fresh')}. This one is then kept.")


def _sample(
    job: Job, instance: Instance[Any], rounds: Sequence[Attempt], scores: Sequence[Rescored]
) -> list[Attempt]:
    """Return a sample's rescored attempts, up to the first with new feedback."""
    attempts: list[Attempt] = []
    answers: list[str] = []
    turns = job.task.turns(instance)
    is_played = user_role(job.task, instance) is not None
    for number, (attempt, scored) in enumerate(zip(rounds, scores, strict=True), start=1):
        answers.append(attempt.text or "")
        now = replace(
            attempt,
            groups=instance.groups,
            outcome=scored.outcome,
            passed=scored.passed,
            scores=scored.scores,
            error=scored.error,
        )
        if not is_played:
            now = replace(now, turns=turns if turns > 1 else UNSET)
        if is_played:
            goes_on = True
        elif attempt.turns or now.turns:
            next_turn = scripted_turn(job.task, instance, answers) if number < turns else None
            goes_on = attempt.feedback in (None, next_turn)
        else:
            is_same = now.outcome == attempt.outcome and same_scores(attempt.scores, now.scores)
            goes_on = is_same or _same_feedback(job, instance, now)
        if not goes_on:
            return [*attempts, replace(now, feedback=None)]
        attempts.append(now)
    return attempts


def _same_feedback(job: Job, instance: Instance[Any], attempt: Attempt) -> bool:
    stops = attempt.passed is True and job.run.rounds.stop_on_pass
    if (
        stops
        or job.judges
        or job.paraphraser is not None
        or attempt.outcome in OUTCOMES_WITHOUT_REPLY
    ):
        return False
    reply = Reply(attempt.text or "", attempt.finish_reason or "")
    assessment = Assessment(attempt.outcome, attempt.passed, attempt.scores, attempt.error or "")
    if assessment.is_unscored:
        return False
    message = feedback(job.task, instance, reply, assessment)
    return apply_feedback_template(job.run, message, passed=attempt.passed) == attempt.feedback
