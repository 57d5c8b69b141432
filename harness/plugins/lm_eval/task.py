"""Tasks of lm-evaluation-harness, unchanged (https://github.com/EleutherAI/lm-evaluation-harness).

lm-eval builds the documents, prompts and few-shot examples, and scores the answers. The harness
makes the calls, and keeps the answers. An instance is a document: if its answers are given, as in
multiple choice, one call returns the log-likelihoods of all of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs
from typing_extensions import override

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError
from harness.execution import check_execution
from harness.plugins.lm_eval import scoring
from harness.plugins.lm_eval.loading import (
    SHOTS_SEED,
    LmDocument,
    LmPrompts,
    LmTasks,
    described,
    load,
)
from harness.ports import LOGLIKELIHOODS, Aggregates, GivenAnswer, Task
from harness.records import Decoding, Instance, Message, Request, Score
from harness.scoring.likelihoods import likelihood_request

MAX_TOKENS = 256  # lm-eval's default for APIs
EXAMPLE = Path(__file__).with_name("example")
CHAT_STOPS = 4  # the most that chat APIs accept; lm-eval drops the others too

One = Instance[LmDocument]


class LmEvalTask(Task[LmDocument]):
    """Tasks of lm-evaluation-harness, with lm-eval's prompts and metrics.

    Args:
        task: Names of tasks, groups or tags of lm-eval (listed by ``lm-eval ls tasks``), patterns
            (mmlu_*), or YAML files.
        include_path: Folder of further tasks; ``builtin`` has small examples.
        num_fewshot: Number of few-shot examples (default: the task's).
        apply_chat_template: Whether prompts are the turns of a chat; or the file of a model's chat
            template, to send the chat as plain text.
        fewshot_as_multiturn: Whether few-shot examples are separate turns of a chat.
        system_instruction: Text before the task's own description.
        fewshot_seed: Seed of the choice of few-shot examples.
        prefix_token: Text before answers that have no context, such as <|endoftext|>.
        max_length: Tokens in a window of loglikelihood_rolling, as in lm-eval's model_args
            (default: texts are scored as a whole). Needs a server with vLLM's tokenizer endpoint.
        metadata: Values for tasks that take them (lm-eval's option of this name).
    """

    on_truncated = "grade"

    def __init__(
        self,
        task: str | list[str],
        include_path: str | None = None,
        num_fewshot: int | None = None,
        apply_chat_template: bool | str = False,
        fewshot_as_multiturn: bool = True,
        system_instruction: str | None = None,
        fewshot_seed: int = SHOTS_SEED,
        prefix_token: str = "",
        max_length: int | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        data: DataFolder,
    ) -> None:
        names = [task] if isinstance(task, str) else task
        self._names = list(map(data.next_to_run_file, names))
        self._include: Path | None = None
        if include_path == "builtin":
            self._include = EXAMPLE
        elif include_path:
            self._include = Path(data.next_to_run_file(include_path))
        chat = apply_chat_template
        if isinstance(chat, str):
            chat = data.next_to_run_file(chat)
        self._prompts = LmPrompts(
            num_fewshot, chat, fewshot_as_multiturn, system_instruction, fewshot_seed
        )
        self._prefix = prefix_token
        self._window = max_length or 0
        self._metadata = metadata or {}

    @cached_property
    def _loaded(self) -> LmTasks:
        if self._include is not None and not self._include.is_dir():
            raise ConfigError(f"There is no folder {self._include}.", "Correct task.include_path.")
        files = [name for name in self._names if Path(name).suffix in (".yaml", ".yml")]
        if self._include not in (None, EXAMPLE):
            files.append(str(self._include))
        for file in files:  # these name functions in Python files next to them
            check_execution(file)
        loaded = load(self._names, self._include, self._prompts, self._metadata)
        scoring.check(loaded)
        return loaded

    def instances(self) -> Iterator[One]:
        """Yield the documents with the groups ``task`` and, if lm-eval has one, ``group``."""
        for document in self._loaded.documents:
            groups = {"task": document.task}
            group = self._loaded.group_of(document.task)
            if group:
                groups["group"] = group
            yield Instance(scoring.identifier(document), document, groups)

    def fingerprint(self) -> Mapping[str, str]:
        """Return lm-eval's version, and hashes of documents, prompts and what decides the scores.

        Runs whose prompts differ have the same documents, and can be compared.
        """
        hashes = {name: hashlib.sha256() for name in ("documents", "prompt", "decoding", "checks")}

        def add(name: str, *parts: object) -> None:
            hashes[name].update(json.dumps(parts, sort_keys=True, default=str).encode())

        for name, task in self._loaded.tasks.items():
            add("checks", name, described(task))
        for instance in self.instances():
            request = instance.data.requests[0]
            add("documents", instance.id, request.doc)
            prompt = [[message.role, message.content] for message in self.messages(instance, ())]
            add("prompt", prompt)
            decoding = request.args[1:] if instance.data.generates else None
            add("decoding", decoding)
        digests = {f"{name}_sha256": hashed.hexdigest() for name, hashed in hashes.items()}
        return {"lm_eval": version("lm_eval"), **digests}

    def messages(self, instance: One, shots: Sequence[One]) -> tuple[Message, ...]:
        """Return lm-eval's prompt or, if answers are given, the answers with their contexts.

        A context is a user message. The answers to it follow as assistant messages.
        """
        document = instance.data
        if document.generates:
            prompt = document.requests[0].args[0]
            if self._prompts.apply_chat_template is True:
                return msgspec.json.decode(prompt, type=tuple[Message, ...])
            return (Message("user", prompt),)
        turns: list[Message] = []
        context: str | None = None
        for request in document.requests:
            request_context, continuation = ("", *request.args)[-2:]
            if request_context != context:
                turns.append(Message("user", request_context or self._prefix))
            context = request_context
            turns.append(Message("assistant", continuation))
        return tuple(turns)

    @cached_property  # read for each request
    @override
    def needed_features(self) -> frozenset[str]:
        """The feature ``loglikelihoods``, if answers are given."""
        if all(document.generates for document in self._loaded.documents):
            return frozenset()
        return frozenset({LOGLIKELIHOODS})

    @cached_property
    @override
    def needed_samples(self) -> int:
        """The largest number of answers per document that any metric needs."""
        return max(map(scoring.repeats, self._loaded.tasks.values()))

    @override
    def adapted_request(self, instance: One, request: Request) -> Request:
        """Return a request with lm-eval's parameters, unless the run file sets them.

        If answers are given, it asks for their log-likelihoods, and keeps only ``extra``.
        """
        decoding = request.decoding
        if not instance.data.generates:
            answers = sum(message.role == "assistant" for message in request.messages)
            window = self._window if instance.data.rolls else 0
            return likelihood_request(request, request.messages, answers, window)
        theirs: dict[str, Any] = dict(instance.data.requests[0].args[1])
        theirs.pop("do_sample", None)
        until = theirs.pop("until", None) or ()
        stop = tuple(filter(None, [until] if isinstance(until, str) else until))
        if self._prompts.apply_chat_template is True:
            stop = stop[:CHAT_STOPS]
        length = theirs.pop("max_gen_toks", MAX_TOKENS)
        mine = {
            "max_tokens": theirs.pop("max_tokens", length),
            "temperature": theirs.pop("temperature", 0.0),
            "top_p": theirs.pop("top_p", None),
            "stop": stop,
        }
        mine |= {key: getattr(decoding, key) for key in decoding.specified_fields()}
        mine["extra"] = theirs | decoding.extra
        return structs.replace(request, decoding=Decoding(**mine))

    def score(self, instance: One, text: str) -> Mapping[str, Score]:
        """Return lm-eval's metrics of one answer. The first accuracy of 0 or 1 is the verdict.

        If the answer fails, the reason quotes the filtered answer and the target. If the task's
        code fails, there is only ``score``, without a value.

        Raises:
            Unparseable: If the reply lacks the log-likelihoods of given answers.
        """
        return scoring.scores(self._loaded.tasks[instance.data.task], instance.data, text)

    @override
    def score_of_no_answer(self, instance: One) -> Mapping[str, Score]:
        """Return lm-eval's metrics of an empty answer, or none if answers are given."""
        scores = self.score(instance, "") if instance.data.generates else {}
        return {name: structs.replace(score, reason="") for name, score in scores.items()}

    @override
    def check_shots(self) -> None:
        """Refuse ``task.shots``."""
        problem = "lm-eval puts few-shot examples into its prompts itself."
        raise ConfigError(problem, "Set task.num_fewshot instead of task.shots.")

    @override
    def aggregate_answers(self, answers: Iterable[GivenAnswer]) -> Aggregates:
        """Return lm-eval's metrics (``METRIC,FILTER``) of tasks and groups, by their names."""
        return scoring.aggregated(self._loaded, answers)

    @override
    def extracted(self, instance: One, text: str) -> str | None:
        """Return an answer as changed by the task's first filter, or None if it is unchanged.

        The result is also None if the filter returns no text, or if answers are given.
        """
        if not instance.data.generates:
            return None
        filtered = scoring.filtered(self._loaded.tasks[instance.data.task], instance.data, text)
        return None if filtered == text else filtered

    def feedback(self, instance: One, text: str, scores: Mapping[str, Score]) -> str:
        """Return a message that the answer is wrong."""
        return "Your answer is not correct. Please answer again."

    def reference(self, instance: One) -> str | None:
        """Return the document's target if it is text that passes, else None."""
        target = self.expected_answer(instance)
        if target:
            for score in self.score(instance, target).values():
                if score.passed:
                    return target
        return None

    @override
    def expected_answer(self, instance: One) -> str | None:
        """Return the document's target if it is text and the model writes the answer, else None."""
        document = instance.data
        if not document.generates:
            return None
        target = self._loaded.tasks[document.task].doc_to_target(document.requests[0].doc)
        return target if isinstance(target, str) else None
