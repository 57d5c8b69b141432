"""Scores answers by the filters, metrics and aggregations of lm-evaluation-harness."""

from __future__ import annotations

import dataclasses
import importlib
import json
import logging
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from harness.errors import ConfigError, Unparseable
from harness.plugin_interface import wrap_errors
from harness.plugins.lm_eval.loading import LmDocument, LmTasks
from harness.ports import GivenAnswer
from harness.records import MAX_MAGNITUDE, Score, replace_surrogates
from harness.scoring.likelihoods import read_likelihoods
from harness.wording import truncate

logger = logging.getLogger("harness")

ACCURACY = re.compile(r"(.*_)?(acc|accuracy|exact_match|em|pass@1|pass_at_1)(_norm|_bytes)?(,.*)?")
"""Names of the metrics that lm-eval treats as accuracies."""

LOGLIKELIHOOD = "loglikelihood"  # the score of a document whose metrics are of the whole corpus
LONGEST = 60  # characters of an answer or a target in a reason
SAMPLES = "sample_len"  # lm-eval's name for the number of documents


class FilteredMetric(NamedTuple):
    """The names of a metric and its filter."""

    name: str
    filter: str

    def __str__(self) -> str:
        return f"{self.name},{self.filter}"


def responses(document: LmDocument, text: str) -> list[Any]:
    """Convert a reply to responses to a document's requests.

    ``text`` is the reply: the model's answer, or log-likelihoods as JSON.

    Raises:
        Unparseable: If the text lacks log-likelihoods that the requests need.
    """
    if document.generates:
        return [replace_surrogates(text)]
    likelihoods = read_likelihoods(text, len(document.requests))
    if document.rolls:
        return [likelihood.total for likelihood in likelihoods]
    return [(likelihood.total, likelihood.greedy) for likelihood in likelihoods]


def values(
    task: Any, answered: Sequence[tuple[LmDocument, Sequence[Sequence[Any]]]]
) -> Iterator[dict[FilteredMetric, Any]]:
    """Yield the values of a task's metrics for each document.

    ``answered`` has documents with the responses to each request (several if the task repeats its
    requests).
    """
    for requests in _filtered(task, answered):
        yield _metrics(task, requests)


def _filtered(
    task: Any, answered: Sequence[tuple[LmDocument, Sequence[Sequence[Any]]]]
) -> list[list[Any]]:
    """Return each document's requests with their filtered responses."""
    by_document = []
    task._instances = []
    for document, responses_ in answered:
        requests = []
        for request, results in zip(document.requests, responses_, strict=True):
            copy = dataclasses.replace(request, resps=list(results), filtered_resps={})
            requests.append(copy)
        by_document.append(requests)
        task._instances += requests
    task.apply_filters()
    return by_document


def _metrics(task: Any, requests: Sequence[Any]) -> dict[FilteredMetric, Any]:
    values_by_metric = {}
    for name in requests[0].filtered_resps:
        filtered = [request.filtered_resps[name] for request in requests]
        for metric, value in task.process_results(requests[0].doc, filtered).items():
            values_by_metric[FilteredMetric(metric, name)] = value
    return values_by_metric


def check(loaded: LmTasks) -> None:
    """Score a trial answer to the first document of each task.

    Raises:
        ConfigError: If a metric or aggregation is unknown, or scoring fails for every trial answer.
    """
    firsts = {document.task: document for document in reversed(loaded.documents)}
    for document in firsts.values():
        task = loaded.tasks[document.task]
        where = f"lm-eval's task {document.task!r}"
        functions = {} if task.get_config("process_results") else vars(task).get("_metric_fn_list")
        unknown = {name for name, function in (functions or {}).items() if function is None}
        if unknown and document.generates:
            problem = f"{where} has an unknown metric: {sorted(unknown)[0]}."
            raise ConfigError(problem, "Correct metric_list in the task's file.")
        for metric, function in task.aggregation().items():
            if function is None:
                problem = f"{where} has an unknown aggregation of the metric {metric}."
                raise ConfigError(problem, "Correct metric_list in the task's file.")
        with wrap_errors(f"Scoring an answer with {where}"):
            _aggregated(task, _trial(task, document))


def _trial(task: Any, document: LmDocument) -> list[dict[FilteredMetric, Any]]:
    """Return the metrics of a trial answer to a document."""
    if not document.generates:
        answers = json.dumps([[-1.0, False, 1]] * len(document.requests))
        return [_metrics(task, _answered(task, document, answers))]
    with suppress(Exception):
        target = str(task.doc_to_target(document.requests[0].doc))
        return [_metrics(task, _answered(task, document, target))]
    return [_metrics(task, _answered(task, document, ""))]


def _answered(task: Any, document: LmDocument, text: str) -> list[Any]:
    """Return a document's requests with the filtered responses of a reply."""
    repeated = _repeated(task, [[response] for response in responses(document, text)])
    return _filtered(task, [(document, repeated)])[0]


def scores(task: Any, document: LmDocument, text: str) -> dict[str, Score]:
    """Return the scores of one answer: the metrics that are numbers, by name.

    The first accuracy that is 0 or 1 decides whether the answer passes. If it does not, the reason
    quotes the filtered answer and the target. If the task's code fails, there is only ``score``,
    without a value. If log-likelihoods give no metric of a single document, ``loglikelihood`` is
    their sum.

    Raises:
        Unparseable: If the text lacks log-likelihoods that the requests need.
    """
    replies = responses(document, text)
    try:
        requests = _answered(task, document, text)
        of_document = _metrics(task, requests)
    except Exception as error:  # of a task's own code: this answer has no score
        return {"score": Score(None, None, f"{error!r:.200}")}
    several = len({metric.filter for metric in of_document}) > 1
    scored: dict[str, Score] = {}
    decided = False
    for metric, value in of_document.items():
        number = _number(value)
        if number is None:
            continue
        is_accuracy = ACCURACY.fullmatch(metric.name) is not None and 0 <= number <= 1
        passed = None
        reason = ""
        if is_accuracy and not decided and number in (0, 1):
            decided = True
            passed = bool(number)
            if not passed:
                reason = _reason(task, requests, metric.filter)
        name = str(metric) if several else metric.name
        scored[name] = _recordable(Score(number, passed, reason, share=is_accuracy))
    if not scored and not document.generates:
        totals = replies if document.rolls else [total for total, _ in replies]
        scored[LOGLIKELIHOOD] = _recordable(Score(sum(totals)))
    return scored


def _recordable(score: Score) -> Score:
    """Return a score or, if its value is too large or not a number, a score without a value."""
    if score.value is not None and abs(score.value) <= MAX_MAGNITUDE:  # false for NaN
        return score
    return Score(None, None, f"The value is {score.value:g}, which cannot be recorded.")


def _reason(task: Any, requests: Sequence[Any], filter_: str) -> str:
    """Return a sentence with the filtered answer that failed and, if known, the expected one."""
    answers = [request.filtered_resps[filter_] for request in requests]
    doc = requests[0].doc
    answer = answers[0]
    target = None
    with suppress(Exception):  # of a task's own code, which may have no target
        several = getattr(task, "multiple_input", 0)
        target = task.doc_to_text(doc) if several else task.doc_to_target(doc)
        if task.get_config("doc_to_choice") is not None:
            choices = task.doc_to_choice(doc)
            target = choices[target] if isinstance(target, int) else target
            if task.OUTPUT_TYPE == "multiple_choice":
                # With mutual information, further requests follow those of the choices.
                answer = choices[int(np.argmax([total for total, _ in answers[: len(choices)]]))]
    if not isinstance(answer, str):
        return ""
    answer = truncate(repr(answer), LONGEST)
    expected = truncate(repr(target), LONGEST)
    if task.get_config("process_results") is None and target is not None:
        return f"{answer} is not the expected answer {expected}"
    if isinstance(target, str) and target:
        return f"{answer} does not pass (target: {expected})"
    return f"{answer} does not pass"


def filtered(task: Any, document: LmDocument, text: str) -> str | None:
    """Return an answer as changed by the first filter, or None if that is not text."""
    request = dataclasses.replace(document.requests[0], resps=[text], filtered_resps={})
    task._instances = [dataclasses.replace(request, resps=_repeated(task, [[text]])[0])]
    task.apply_filters()
    answer = next(iter(task._instances[0].filtered_resps.values()))
    return answer if isinstance(answer, str) else None


def aggregated(loaded: LmTasks, answers: Iterable[GivenAnswer]) -> dict[str, dict[str, float]]:
    """Return the metrics of tasks and groups that lm-eval would print, by name.

    Documents with missing or unreadable answers are left out.
    """
    texts: dict[str, dict[int, str]] = defaultdict(dict)
    for answer in answers:
        texts[answer.instance][answer.sample] = answer.text
    results: dict[str, dict[str, Any]] = {}
    for name, task in loaded.tasks.items():
        answered = []
        for document in loaded.documents:
            replies = texts.get(identifier(document)) if document.task == name else None
            if replies and (complete := _complete(task, document, replies)):
                answered.append((document, complete))
        if answered:
            try:
                results[name] = _aggregated(task, values(task, answered))
            except Exception as error:  # of a task's own code
                logger.warning("lm-eval's metrics of %s are missing: %.200r", name, error)
    leaves = dict(results)
    for name, group in loaded.groups.items():
        results[name] = group.aggregate(leaves)
    numbers = {name: _numbers(metrics) for name, metrics in results.items()}
    return {name: of_task for name, of_task in numbers.items() if of_task}


def identifier(document: LmDocument) -> str:
    """Return the id of the document's instance."""
    return f"{document.task}/{document.number}"


def repeats(task: Any) -> int:
    """Return how many answers to each document a task needs."""
    if task.OUTPUT_TYPE != "generate_until":
        return 1
    return int(task.get_config("repeats") or 1)


def _repeated(task: Any, responses_: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(results) * repeats(task) for results in responses_]


def _complete(
    task: Any, document: LmDocument, answers: Mapping[int, str]
) -> list[list[Any]] | None:
    """Return the responses to each request of a document, or None if one cannot be read."""
    samples = range(repeats(task))
    if not all(sample in answers for sample in samples):
        return None
    try:
        by_sample = [responses(document, answers[sample]) for sample in samples]
    except Unparseable:
        return None
    return [list(responses_) for responses_ in zip(*by_sample, strict=True)]


def _aggregated(task: Any, documents: Iterable[Mapping[FilteredMetric, Any]]) -> dict[str, Any]:
    items: dict[FilteredMetric, list[Any]] = defaultdict(list)
    for of_document in documents:
        for metric, value in of_document.items():
            items[metric].append(value)
    mean = importlib.import_module("lm_eval.api.metrics").mean
    functions = task.aggregation()
    of_task: dict[str, Any] = {}
    for metric, metric_values in items.items():
        aggregate = functions.get(metric.name, mean)
        of_task[str(metric)] = aggregate(metric_values)
    return {**of_task, SAMPLES: max(map(len, items.values()), default=0)}


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    numbers = {}
    for name, value in metrics.items():
        number = _number(value)
        if number is not None and math.isfinite(number):
            numbers[name] = float(number)
    return numbers


def _number(value: Any) -> bool | float | None:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return float(value) if isinstance(value, Real) else None
