"""An Inspect log as a run.

Owns what of a log is what of a run. A sample's epoch is one of k samples; its answer is an attempt
of one round, with the conversation before it as the prompt. Samples with an error, and those that
the log's list names and has not, are outcome ``error``: not judged. A log of ours is
what it was, attempt for attempt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from harness.exchange.foreign_json import (
    count,
    invalid,
    mapping,
    number,
    seconds,
    sequence,
    text,
)
from harness.exchange.imported_run import Imported, config, manifest, own_attempt, own_config
from harness.exchange.inspect_grades import inspect_grades, is_accuracy
from harness.exchange.inspect_header import TOLD
from harness.exchange.inspect_log import InspectLog
from harness.exchange.inspect_message import Messages
from harness.exchange.inspect_sample import HARNESS
from harness.exchange.verdicts import Verdicts
from harness.records import (
    SCHEMA_VERSION,
    Attempt,
    Message,
    Outcome,
    Usage,
    encodable,
    messages_hash,
)

MOST_GROUPS = 50
LONGEST_GROUP = 60
"""What of a sample's metadata is a group: texts so short, and so few different ones."""

OUTCOMES: Mapping[str, Outcome] = {
    "max_tokens": "truncated",
    "model_length": "truncated",
    "content_filter": "refused",
}
FINISH_REASONS = {"max_tokens": "length", "model_length": "length"}


def read_inspect(log: InspectLog, task: str = "", score: str = "") -> Imported:
    """What a log holds.

    task, score: names that the user wants; by default what the log says.

    Raises: a `harness.errors.HarnessError`.
    """
    evaluated = mapping(log.header["eval"])
    own = mapping(mapping(evaluated.get("metadata")).get(HARNESS))
    if "config" in own and not score:
        return _own(log, own, task)
    survey = _Survey(log, score)
    task = task or text(evaluated.get("task")) or "imported"
    model = text(evaluated.get("model"))
    generate = mapping(mapping(log.header.get("plan")).get("config")) | mapping(
        evaluated.get("model_generate_config")
    )
    decoding = {key: generate.get(key) for key in ("temperature", "max_tokens", "top_p")}
    stats = mapping(log.header.get("stats"))
    begun = seconds(stats.get("started_at")) or seconds(evaluated.get("created")) or 0.0
    return Imported(
        format="inspect",
        config=config(task, model, survey.epochs, decoding),
        manifest=manifest(
            task,
            model,
            survey.data,
            survey.verdicts.measure,
            simulated=model.startswith("mockllm/"),
            started_at=begun,
            ended_at=seconds(stats.get("completed_at")),
        ),
        attempts=_attempts(log, survey, model, begun),
        notes=survey.notes(),
    )


def _own(log: InspectLog, own: Mapping[str, Any], task: str) -> Imported:
    run = own_config(mapping(own["config"]), str(log.path))
    told = {key: value for key, value in mapping(own.get("manifest")).items() if key in TOLD}
    for key in ("started_at", "ended_at"):
        told[key] = number(told.get(key), str(log.path))
    if task:
        run = run.model_copy(update={"task": run.task.model_copy(update={"name": task})})
        told["task"] = task

    def attempts() -> Iterator[tuple[str, Attempt]]:
        for where, sample in log.samples():
            kept = mapping(mapping(sample.get("metadata")).get(HARNESS)).get("attempts")
            if not isinstance(kept, list):
                raise invalid(where, "not a sample of the harness, in a log of it")
            for attempt in kept:
                yield where, own_attempt(attempt, where)

    return Imported(format="inspect", config=run, manifest=told, attempts=attempts())


MOST_MISSING = 200_000
"""Samples that a log names and does not hold: a few words in a header can name millions."""


class _Survey:
    """What must be known of all samples before the first is written."""

    def __init__(self, log: InspectLog, score: str) -> None:
        self.data: dict[str, str] = {}
        self.clusters: dict[str, str] = {}
        evaluated = mapping(log.header["eval"])
        self.epochs = max(count(mapping(evaluated.get("config")).get("epochs")), 1)
        self.seen: set[tuple[str, int]] = set()
        self.errors = 0
        labels: dict[str, set[str] | None] = {}
        headline = mapping(mapping(log.header.get("results")).get("headline"))
        self.verdicts = Verdicts(is_accuracy(log.header), score, text(headline.get("scorer")))
        for where, sample in log.samples():
            name, epoch = _key(sample, where)
            self.seen.add((name, epoch))
            self.epochs = max(self.epochs, epoch)
            self.errors += sample.get("error") is not None
            told = sample.get("target") or sample.get("input")
            asked = repr((told, sample.get("choices")))
            self.data[name] = hashlib.sha256(asked.encode(errors="replace")).hexdigest()
            messages = Messages(mapping(sample.get("attachments")))
            given = messages.conversation(sample.get("input"))
            self.clusters.setdefault(name, messages_hash(given))
            if sample.get("error") is None:
                for scored, found in inspect_grades(sample, where):
                    self.verdicts.learn(scored, found)
            for label, value in mapping(sample.get("metadata")).items():
                groups = labels.setdefault(label, set())
                if groups is None:
                    continue
                fits = isinstance(value, str) and 0 < len(value) <= LONGEST_GROUP
                if fits:
                    groups.add(value)
                if not fits or len(groups) > MOST_GROUPS:
                    labels[label] = None
        self.labels = [label for label, groups in labels.items() if groups]
        listed = sequence(mapping(evaluated.get("dataset")).get("sample_ids"))
        if len(listed) * self.epochs > len(self.seen) + MOST_MISSING:
            raise invalid(
                str(log.path),
                f"it names {len(listed):,} samples of {self.epochs:,} epochs and holds "
                f"{len(self.seen):,} of them",
            )
        self.missing = [
            (encodable(str(name)), epoch)
            for name in listed
            for epoch in range(1, self.epochs + 1)
            if (encodable(str(name)), epoch) not in self.seen
        ]
        self.verdicts.decide()

    def notes(self) -> list[str]:
        """Sentences on what was not as one may think."""
        found = []
        if self.errors:
            found.append(f"{self.errors:,} samples have an error: not judged.")
        if self.missing:
            found.append(f"{len(self.missing):,} samples are named and not there: not judged.")
        return found


def _key(sample: Mapping[str, Any], where: str) -> tuple[str, int]:
    name, epoch = sample.get("id"), sample.get("epoch", 1)
    if not isinstance(name, str | int) or isinstance(name, bool) or not str(name):
        raise invalid(where, "a sample without an id")
    if not isinstance(epoch, int) or not 1 <= epoch < 2**31:
        raise invalid(where, "a sample whose epoch is no number from 1")
    return encodable(str(name)), epoch


def _attempts(
    log: InspectLog, survey: _Survey, model: str, begun: float
) -> Iterator[tuple[str, Attempt]]:
    for where, sample in log.samples():
        yield where, _attempt(sample, where, survey, model, begun)
    for name, epoch in survey.missing:
        yield (
            str(log.path),
            Attempt(
                v=SCHEMA_VERSION,
                instance=name,
                sample=epoch - 1,
                round=1,
                groups={},
                cluster=survey.clusters.get(name) or messages_hash((Message("user", name),)),
                request={"model": model},
                outcome="error",
                started_at=begun,
                ended_at=begun,
                error="the log names this sample and does not hold it",
            ),
        )


def _attempt(
    sample: Mapping[str, Any], where: str, survey: _Survey, model: str, begun: float
) -> Attempt:
    name, epoch = _key(sample, where)
    messages = Messages(mapping(sample.get("attachments")))
    output = mapping(sample.get("output"))
    choice = mapping(next(iter(sequence(output.get("choices"))), None))
    content = mapping(choice.get("message")).get("content")
    said = messages.text(content) if content is not None else text(output.get("completion"))
    turns = messages.conversation(sample.get("messages"))
    answers = [place for place, turn in enumerate(turns) if turn.role == "assistant"]
    asked = turns[: answers[-1]] if answers else turns
    asked = asked or messages.conversation(sample.get("input"))
    error = mapping(sample.get("error"))
    stop = text(choice.get("stop_reason"))
    outcome = OUTCOMES.get(stop, "ok") if said.strip() else "empty"
    found = {} if error else dict(inspect_grades(sample, where))
    deciding = survey.verdicts.deciding
    scores = {scored: survey.verdicts.score(scored, value) for scored, value in found.items()}
    usage, cost = _usage(mapping(sample.get("model_usage")), where)
    started = seconds(sample.get("started_at")) or begun
    called = f"{mapping(sample).get('uuid')}/{name}/{epoch}/{started}"
    return Attempt(
        v=SCHEMA_VERSION,
        instance=name,
        sample=epoch - 1,
        round=1,
        groups={
            label: encodable(value)
            for label, value in mapping(sample.get("metadata")).items()
            if label in survey.labels
        },
        cluster=survey.clusters[name],
        request={"model": model, "messages_hash": messages_hash(asked), "messages": asked},
        outcome="error" if error else outcome,
        started_at=started,
        ended_at=seconds(sample.get("completed_at")) or started,
        text=None if error and not said else said,
        reasoning=messages.reasoning(content),
        finish_reason=FINISH_REASONS.get(stop, stop) or None,
        passed=scores[deciding].passed if deciding in scores else None,
        scores=scores,
        call_id=hashlib.blake2b(called.encode(errors="replace"), digest_size=16).hexdigest(),
        usage=usage,
        cost_usd=cost,
        latency_s=number(output.get("time"), where),
        cached=True,  # whatever it has cost, this run has not paid it
        error=encodable(text(error.get("message"))) or "an error" if error else None,
    )


def _usage(usages: Mapping[str, Any], where: str) -> tuple[Usage | None, float | None]:
    """Tokens and cost of all models of a sample."""
    total, costs = Usage(), []
    for usage in map(mapping, usages.values()):
        read, written = (count(usage.get(f"input_tokens_cache_{way}")) for way in ("read", "write"))
        total += Usage(
            count(usage.get("input_tokens")) + read + written,
            count(usage.get("output_tokens")),
            read,
            count(usage.get("reasoning_tokens")),
        )
        costs.append(number(usage.get("total_cost"), where))
    known = [cost for cost in costs if cost is not None and cost >= 0]
    whole = bool(costs) and len(known) == len(costs)
    return (total if usages else None), (sum(known) if whole else None)
