"""Scores recorded attempts again with the current task, without calling a model.

`harness score` writes the new scores next to the attempts. A run that continues with changed checks
has all its attempts scored again first, so that no rate mixes the verdicts of two versions.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET
from msgspec.structs import replace
from numpy.typing import NDArray

from harness.analysis.rescoring import GONE, Rescored, VerdictPair, line
from harness.errors import DataMissing, RunConflict, option
from harness.ports import Constraining, Task
from harness.records import SCHEMA_VERSION, Attempt, Instance, Reply, messages_hash
from harness.run.assessment import Assessment, feedback
from harness.run.long_answers import LongAnswers
from harness.run.plan import Opening
from harness.run.turns import answered, turns_of, user_turn
from harness.store.files import replacing
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgements import Judgement, Register, verdict_over
from harness.store.run_folder import Differences

if TYPE_CHECKING:
    from harness.run.job import Job

AttemptAssessor: TypeAlias = Callable[[Attempt, Reply], Assessment]


def rescored(
    task: Task[Any], recorded: AttemptIndex, assess: Callable[[Instance[Any], Reply], Assessment]
) -> Iterator[tuple[Attempt, Rescored, VerdictPair]]:
    """Yield each recorded attempt with its new scores, and its verdicts before and now.

    The attempts and the new scores are those of rules: ``assess`` returns the assessment of a
    reply. The verdicts combine rules and the recorded judgements of the judges that decide
    (`verdict_over`), as the pass rate does.

    Attempts come in the order of the data set, so neither instances nor texts are held in memory.
    Attempts whose instances are no longer in the data set come last, without a verdict.

    Raises:
        DataMissing: If the data set has none of the run's instances.
    """
    left = np.ones(len(recorded), np.bool_)
    for instance in task.instances():
        rows = recorded.rows_of(instance.id)
        left[rows.start : rows.stop] = False
        yield from _rescored_rows(recorded, rows, _assessing(task, recorded, instance, assess))
    order = recorded.in_order()
    for found in _rescored_rows(recorded, order[left[order]], None):
        if left.all():
            name = found[0].instance
            problem = f"The data set has none of the run's instances, such as {name!r}."
            raise DataMissing(problem, "Restore the data set that the run was made with.")
        yield found


def _assessing(
    task: Task[Any],
    recorded: AttemptIndex,
    instance: Instance[Any],
    assess: Callable[[Instance[Any], Reply], Assessment],
) -> AttemptAssessor:
    return lambda attempt, reply: assess(answered(task, instance, attempt, recorded), reply)


def _rescored_rows(
    recorded: AttemptIndex,
    among: range | NDArray[np.intp],
    assess: AttemptAssessor | None,
) -> Iterator[tuple[Attempt, Rescored, VerdictPair]]:
    """Do what `rescored` does for some rows. ``assess`` is None if their instances are gone."""
    rows = np.asarray(among, np.intp)
    register = recorded.judgements.register if recorded.judgements else Register()
    deciding = [name for name, judge in register.judges.items() if judge.decides]
    said = recorded.said(rows, msgspec.json.Decoder(Judgement).decode, deciding)
    attempts = recorded.read(Attempt, rows, judged=False)
    for attempt, judgements in zip(attempts, said, strict=True):
        scored = _rescored(assess, attempt)
        before, now = (
            verdict_over(one.passed, one.scores, judgements)
            if one.outcome in register.judged
            else one.passed
            for one in (attempt, scored)
        )
        yield attempt, scored, (before, now)


def _rescored(assess: AttemptAssessor | None, attempt: Attempt) -> Rescored:
    now = (attempt.outcome, attempt.passed, attempt.scores, attempt.error)
    if attempt.outcome == "error":  # a failed call stays a failed call
        pass
    elif assess is None:
        now = (attempt.outcome, None, {}, GONE)
    else:
        reply = Reply(attempt.text or "", attempt.finish_reason or "")
        outcome, passed, scores, problem = assess(attempt, reply)
        now = (outcome, passed, scores, problem or None)
    return Rescored(SCHEMA_VERSION, attempt.instance, attempt.sample, attempt.round, *now)


class ScoredAgain(NamedTuple):
    """How many attempts were scored again, and what changed."""

    attempts: int
    changed: int  # verdicts, as `rescored` yields them
    revalued: int  # answers of which some score has another value
    dropped: int  # later rounds that no longer count, because the feedback before them has changed

    def __str__(self) -> str:
        later = f", {self.dropped:,} later rounds followed other feedback" if self.dropped else ""
        scored = f"{self.attempts:,} recorded answers were scored again"
        changed = f"{self.changed:,} verdicts changed"
        if self.revalued != self.changed:
            changed += f", and scores of {self.revalued:,} answers"
        return f"{scored}: {changed}{later}."


def rescore(job: Job, found: Differences) -> ScoredAgain:
    """Score a run's attempts again with the job's task, and write the attempts that differ.

    The new lines follow the old ones in ``attempts.jsonl``. They are written atomically, so that
    the verdicts of two versions are never mixed. If the task now gives other feedback, the rounds
    that followed the old feedback no longer count and must be made again.

    Raises:
        RunConflict: If prompts differ from those that were answered, or an instance is missing.
    """
    recorded, plan = AttemptIndex(job.folder.attempts), job.plan()
    long_answers = LongAnswers(job.task, job.run, job.settings)
    seen = changed = revalued = dropped = 0
    with replacing(job.folder.attempts) as temporary, contextlib.closing(long_answers):
        shutil.copyfile(job.folder.attempts, temporary)
        with JsonLinesWriter(temporary) as file:
            for instance in job.task.instances():
                rows = recorded.rows_of(instance.id)
                seen += len(rows)
                opening = plan.opening(instance) if rows else None
                assess = _assessing(job.task, recorded, instance, long_answers.assess)
                again = _rescored_rows(recorded, rows, assess)
                for _, rounds in groupby(again, key=lambda one: one[0].sample):
                    before, scores, verdicts = zip(*rounds, strict=True)
                    if opening is None or not _same_prompt(job, instance, opening, before[0]):
                        raise _not_the_same(job, f"the prompt of {instance.id!r:.60} is another")
                    scored = _sample(job, instance, before, scores)
                    now = [replace(one, cluster=opening.cluster) for one in scored]
                    dropped += len(before) - len(now)
                    changed += sum(old is not new for old, new in verdicts)
                    pairs = zip(before, scores, strict=True)
                    revalued += sum(_values(old) != _values(new) for old, new in pairs)
                    for attempt in now if line(now) != line(before) else ():
                        file.append(attempt)
        if seen < len(recorded):
            raise _not_the_same(job, "some of its instances are not in the data")
    return ScoredAgain(seen, changed, revalued, dropped)


def _values(scored: Attempt | Rescored) -> dict[str, float | None]:
    return {name: score.value for name, score in scored.scores.items()}


def _not_the_same(job: Job, why: str) -> RunConflict:
    said = f"The answers of the run {job.folder.name!r} cannot be scored again: {why}."
    return RunConflict(said, f"For a new run: {option('fresh')}. This one is then kept.")


def _same_prompt(job: Job, instance: Instance[Any], opening: Opening, first: Attempt) -> bool:
    request = first.request
    if job.run.decoding.constraint == "task" and isinstance(job.task, Constraining):
        constraint = msgspec.to_builtins(job.task.constraint(instance))
        if constraint != request["decoding"].get("constraint"):
            return False
    if job.paraphraser is not None:  # the recorded prompt is a paraphrase
        return opening.cluster == first.cluster
    return bool(messages_hash(opening.messages) == request["messages_hash"])


def _sample(
    job: Job, instance: Instance[Any], rounds: Sequence[Attempt], scores: Sequence[Rescored]
) -> list[Attempt]:
    """Return a sample's attempts with new scores, up to the first whose feedback would change."""
    found: list[Attempt] = []
    turns = turns_of(job.task, instance)
    for number, (attempt, scored) in enumerate(zip(rounds, scores, strict=True), start=1):
        now = replace(
            attempt,
            groups=instance.groups,
            outcome=scored.outcome,
            passed=scored.passed,
            scores=scored.scores,
            error=scored.error,
            turns=turns if turns > 1 else UNSET,
        )
        if attempt.turns or now.turns:
            answers = [one.text or "" for one in rounds[:number]]
            following = user_turn(job.task, instance, answers) if number < turns else None
            if attempt.feedback not in (None, following):
                return [*found, replace(now, feedback=None)]
            found.append(now)
            continue
        same = now.outcome == attempt.outcome and line(now.scores) == line(attempt.scores)
        if not same and not _same_feedback(job, instance, now):
            return [*found, replace(now, feedback=None)]
        found.append(now)
    return found


def _same_feedback(job: Job, instance: Instance[Any], attempt: Attempt) -> bool:
    stops = attempt.passed is True and job.run.rounds.stop_on_pass
    if stops or job.judges or job.paraphraser is not None or attempt.outcome == "error":
        return False
    reply = Reply(attempt.text or "", attempt.finish_reason or "")
    found = Assessment(attempt.outcome, attempt.passed, attempt.scores, attempt.error or "")
    return not found.unscored and feedback(job.task, instance, reply, found) == attempt.feedback
