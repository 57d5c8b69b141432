"""Shows attempts in full, failures with their reasons, and answers side by side.

Control characters are escaped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from harness.analysis.failures import FailedLine, mask_numbers, read_failed_lines
from harness.records import Attempt, Outcome, add_example_error
from harness.report.runs import common_prefix
from harness.report.table import Cell, Column, Note, Row, Table, TableDocument, table
from harness.report.text import escape_name, escape_text
from harness.store.index import AttemptIndex
from harness.wording import to_one_line, truncate

if TYPE_CHECKING:
    from harness.store.judgements import Judgement  # not imported for runs without judges

STYLES = {True: ("passed", "green"), False: ("failed", "red"), None: ("not judged", "yellow")}
SIGNS = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}

_LONGEST_REASON = 2_000
_MOST_KINDS = 10  # of reasons
_MOST_ROWS = 50  # of instances whose answers are shown side by side
_LONGEST_ANSWER = 200
_LONGEST_PROMPT = 60
LONGEST_PIECE = 100_000  # characters that are rendered at once


def transcript(attempts: Sequence[Attempt]) -> RenderableType:
    """Render attempts in full, by sample and round."""
    parts: list[RenderableType] = []
    for attempt in sorted(attempts, key=lambda a: (a.sample, a.round)):
        parts += _attempt(attempt)
    return Group(*parts)


def _attempt(attempt: Attempt) -> Iterator[RenderableType]:
    word, style = STYLES[attempt.passed]
    if attempt.turns == attempt.round:
        word = f"conversation {word}"
    groups = "  ".join(f"{label}={group}" for label, group in attempt.groups.items())
    yield Text.assemble(
        "\n",
        (escape_name(attempt.instance).plain, "bold"),
        f"  sample {attempt.sample}  {_place(attempt)}  ",
        (f"{attempt.outcome}, {word}", style),
        (f"  {escape_name(groups).plain}", "dim"),
    )
    for message in attempt.request.get("messages", ()):
        yield from _block(message["role"], message["content"])
    if attempt.reasoning:
        yield from _block("reasoning", attempt.reasoning)
    if attempt.text is not None:
        yield from _block("answer", attempt.text)
    for name, score in attempt.scores.items():
        line = f"{score.value}"
        if score.reason:
            line += f": {truncate(score.reason, _LONGEST_REASON)}"
        yield Text.assemble((f"{escape_name(name).plain}: ", "dim"), escape_text(line))
    if attempt.error:
        yield Text.assemble(("error: ", "red"), escape_text(attempt.error))
    for judgement in getattr(attempt, "judgements", ()):
        yield from _judgement(judgement)
    if attempt.feedback is not None:
        title = "feedback"
        if attempt.user:
            title = "user (played)"
        elif attempt.turns:
            title = "user"
        yield from _block(title, attempt.feedback)
    for turn in attempt.user or ():
        if turn.ends is not None:
            yield from _block("user (played), who ends the conversation", turn.ends)
    yield Text(_facts(attempt), style="dim")


def _place(attempt: Attempt) -> str:
    if not attempt.turns:
        return f"round {attempt.round}"
    if attempt.user and attempt.round != attempt.turns:  # the number of turns is not known yet
        return f"turn {attempt.round}"
    return f"turn {attempt.round} of {attempt.turns}"


def _judgement(judgement: Judgement) -> Iterator[RenderableType]:
    judge = escape_name(judgement.judge).plain
    if judgement.outcome != "ok":
        problem = f": {judgement.error}" if judgement.error else ""
        title = f"judge {judge}: {judgement.outcome}, no verdict"
        yield Text.assemble((title, "yellow"), escape_text(problem))
    titles = []
    for score in judgement.scores.values():
        for criterion in score.details.get("constraints", ()):
            title = f"judge {judge}, {escape_name(str(criterion['constraint'])).plain}"
            titles += [title] * len(criterion.get("votes", ()))
    if len(titles) != len(judgement.replies):  # not one reply per vote on a criterion
        titles = [f"judge {judge}"] * len(judgement.replies)
    for title, reply in zip(titles, judgement.replies, strict=True):
        yield from _block(title, reply)


def _block(title: str, text: str) -> Iterator[RenderableType]:
    yield Text(f"{title}:", style="dim")
    for piece in _pieces(text):
        yield Padding(escape_text(piece), (0, 0, 0, 2))


def _pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces that end at line ends where possible.

    Rich takes quadratic time for a long text.
    """
    start = 0
    while len(text) - start > LONGEST_PIECE:
        end = start + LONGEST_PIECE
        line_end = text.rfind("\n", start, end)
        yield text[start : end if line_end < 0 else line_end]
        start = end if line_end < 0 else line_end + 1
    yield text[start:]


def _facts(attempt: Attempt) -> str:
    facts = []
    if attempt.call_id is not None:
        facts.append(f"call {attempt.call_id}")
    if attempt.finish_reason is not None:
        facts.append(f"finish {to_one_line(attempt.finish_reason, 80)}")
    if attempt.usage is not None:
        facts.append(f"tokens {attempt.usage.input_tokens}+{attempt.usage.output_tokens}")
    if attempt.latency_s is not None:
        facts.append(f"seconds {attempt.latency_s:.2f}")
    if attempt.cached:
        facts.append("cached True")
    return "  ".join(facts)


Rows = Mapping[str, Mapping[str, object]]  # the fields of the user's rows, by instance


def failed_document(
    failed: Sequence[FailedAttempt],
    n: int,
    run: str,
    own: Rows = MappingProxyType({}),
    *,
    turns: bool = False,
) -> TableDocument:
    """Build the list of a run's failed attempts, with reasons and shortened answers.

    ``n`` is the number of the run's attempts. The user's rows (``own``) are only in the CSV. With
    ``turns``, rounds are called turns.
    """
    n_errors = 0
    rows = []
    records = []
    for attempt in failed:
        n_errors += attempt.outcome == "error"
        place = (attempt.instance, attempt.sample, attempt.round, attempt.outcome)
        rows.append([*place, to_one_line(attempt.reason), to_one_line(attempt.answer or "")])
        fields = _fields(own, attempt.instance)
        records.append({"run": run, **fields, **msgspec.structs.asdict(attempt)})
    why = Column("why", text=True)
    answer = Column("answer", text=True, hide=2)
    outcome = Column("outcome", text=True, hide=1)
    columns = ("instance", "sample", "turn" if turns else "round", outcome, why, answer)
    parts: list[Table | Note] = [table(columns, rows)] if rows else []
    summary = f"{len(failed) - n_errors:,} of {n:,} attempts failed"
    if n_errors:
        summary += f", and the calls of {n_errors:,} failed"
    parts.append(Note(f"{summary}."))
    kinds = by_reason(failed)
    if len(kinds) < len(failed):
        frequent = list(map(list, kinds[:_MOST_KINDS]))
        left = len(kinds) - len(frequent)
        notes = [f"{left:,} rarer reasons are not shown."] if left else []
        heads = ("failed", Column("outcome", text=True), why)
        parts.append(table(heads, frequent, names=0, notes=notes))
    if failed:
        in_full = f"harness show {run} --failed --instance {quote(failed[0].instance)}"
        parts.append(Note(f"One of them in full: {in_full}"))
    return TableDocument(parts=parts, records=records, data=failed)


def answers_document(
    runs: Mapping[str, Sequence[AnswerLine]], *, failed: bool, own: Rows = MappingProxyType({})
) -> TableDocument:
    """Build a table of runs' answers: a row per instance (up to `_MOST_ROWS`), a column per run.

    ``runs`` has the last attempts of each run's samples. If an instance has several samples in a
    run, the first that failed (or else the first) is shown. With ``failed``, only instances that
    failed in some run are listed. The CSV has a row per sample, with the user's row (``own``).
    """
    answers: dict[str, dict[str, list[AnswerLine]]] = {}
    listed = set()
    for run, attempts in runs.items():
        for answer in attempts:
            answers.setdefault(answer.instance, {}).setdefault(run, []).append(answer)
            if not failed or answer.passed is False:
                listed.add(answer.instance)
    answers = {instance: by_run for instance, by_run in answers.items() if instance in listed}
    rows = []
    for instance, by_run in islice(answers.items(), _MOST_ROWS):
        cells = [_answer(by_run.get(run)) for run in runs]
        rows.append(Row([_prompted(instance, by_run), *cells]))
    heads: list[Column | str] = ["instance"]
    footer = ["passed"]
    start = common_prefix(runs)
    for run, attempts in runs.items():
        heads.append(Column(run.removeprefix(start), text=True))
        footer.append(f"{_passes(attempts):,} of {len(attempts):,}")
    notes = ["✓ passed, ✗ failed, ? not judged."]
    if len(answers) > len(rows):
        notes.append(f"{len(answers) - len(rows):,} more instances are in harness report.")
    summary = table(heads, rows, footer=Row(footer), notes=notes)
    return TableDocument(
        parts=[summary],
        records=list(_side_by_side(answers, own)),
        data=list(_answer_records(answers)),
    )


def _answer_records(
    answers: Mapping[str, Mapping[str, Sequence[AnswerLine]]],
) -> Iterator[dict[str, object]]:
    for instance, by_run in answers.items():
        for run, samples in by_run.items():
            for answer in samples:
                yield {
                    "instance": instance,
                    "run": run,
                    "sample": answer.sample,
                    "passed": answer.passed,
                    "answer": answer.text,
                    "reason": answer.reason,
                }


def _side_by_side(
    answers: Mapping[str, Mapping[str, Sequence[AnswerLine]]], rows: Rows
) -> Iterator[dict[str, object]]:
    for instance, by_run in answers.items():
        prompt = _last_message(next(iter(by_run.values()))[0])
        samples: dict[int, dict[str, object]] = {}
        for run, attempts in by_run.items():
            for answer in attempts:
                record = samples.setdefault(answer.sample, {})
                record |= {f"passed_{run}": answer.passed, f"answer_{run}": answer.text}
                record |= {f"reason_{run}": "" if answer.passed else answer.reason}
        shared = {"prompt": prompt, **_fields(rows, instance)}
        for sample, record in samples.items():
            yield {"instance": instance, "sample": sample, **shared, **record}


def _fields(rows: Rows, instance: str) -> dict[str, object]:
    """Return the fields of an instance's row as CSV cells."""
    fields: dict[str, object] = {}
    for name, value in rows.get(instance, {}).items():
        if not isinstance(value, str | int | float | None):
            value = json.dumps(value, ensure_ascii=False, default=str)
        fields[f"field_{name}"] = value
    return fields


def _last_message(attempt: AnswerLine) -> str:
    messages = attempt.request.get("messages", ())
    return messages[-1]["content"] if messages else ""


def _prompted(instance: str, by_run: Mapping[str, Sequence[AnswerLine]]) -> str:
    """Return an instance's name and its shortened prompt."""
    prompt = " ".join(_last_message(next(iter(by_run.values()))[0]).split())
    if len(prompt) > _LONGEST_PROMPT:  # rows may differ at the beginning or at the end
        prompt = f"{prompt[: _LONGEST_PROMPT // 2]}…{prompt[-_LONGEST_PROMPT // 2 :]}"
    return f"{instance}: {prompt}" if prompt else instance


def _answer(samples: Sequence[AnswerLine] | None) -> Cell:
    if not samples:
        return Cell(None, "")
    answer = next((answer for answer in samples if answer.passed is False), samples[0])
    sign, style = SIGNS[answer.passed]
    text = to_one_line(answer.text or answer.outcome, _LONGEST_ANSWER)
    cell_text = f"{sign} {text}"
    if len(samples) > 1:
        cell_text = f"{_passes(samples):,} of {len(samples):,} {cell_text}"
    if answer.reason and not answer.passed:
        cell_text += f" ({to_one_line(answer.reason)})"
    return Cell(text, cell_text, style)


def _passes(attempts: Sequence[AnswerLine]) -> int:
    return sum(attempt.passed is True for attempt in attempts)


class FailedAttempt(Struct, frozen=True):
    """A failed attempt, or a failed call (outcome ``error``), with the reason."""

    instance: str
    sample: int
    round: int
    outcome: Outcome
    reason: str
    answer: str | None
    exception: str = ""  # in the application's code: "KeyError at app.py:12"


class AnswerLine(FailedLine, gc=False):
    """The fields of an attempt's line that show its prompt, answer and verdict."""

    passed: bool | None = None
    request: dict[str, Any] = field(default_factory=dict)


def read_failed(index: AttemptIndex, first: Iterable[str] = ()) -> list[FailedAttempt]:
    """Return a run's failed attempts, sorted as by `AttemptIndex.rows_by_name`.

    Their reasons leave out judges that do not decide what passes.
    """
    attempts = []
    for _, line in read_failed_lines(index, index.rows_by_name(first)):
        attempt = FailedAttempt(
            line.instance,
            line.sample,
            line.round,
            line.outcome,
            line.reason,
            line.text,
            line.exception,
        )
        attempts.append(attempt)
    return attempts


def by_reason(attempts: Iterable[FailedAttempt]) -> list[tuple[int, Outcome, str]]:
    """Return how many attempts failed for each reason, with the outcome, the most frequent first.

    Reasons that differ only in numbers count as one, and so do exceptions of the same type that
    were raised in the same line.
    """
    counts = Counter[tuple[Outcome, str]]()
    texts: dict[tuple[Outcome, str], str] = {}
    for attempt in attempts:
        text = mask_numbers(attempt.reason)
        kind = attempt.outcome, attempt.exception or text
        if attempt.exception:
            text = add_example_error(attempt.exception, to_one_line(attempt.reason))
        texts.setdefault(kind, text)
        counts[kind] += 1
    return [(n, kind[0], texts[kind]) for kind, n in counts.most_common()]
