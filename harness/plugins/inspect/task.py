"""Tasks of Inspect (https://inspect.aisi.org.uk) that generate one answer per sample.

Inspect loads the samples, builds the prompts and scores the answers. The harness makes the calls,
and keeps the answers.
"""

from __future__ import annotations

import hashlib
import json
import os.path
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from msgspec import structs

from harness.datasets.folder import DataFolder
from harness.extras import import_extra
from harness.plugins.inspect.loading import InspectSample, load
from harness.plugins.inspect.solving import asked, scores
from harness.records import Decoding, Instance, Message, Request, Score, verdict

MAX_TOKENS = 2048  # Inspect's default for providers that need a limit

One = Instance[InspectSample]


class InspectTask:
    """Tasks of Inspect, with Inspect's prompts and scorers, if they generate one answer.

    Args:
        task: A Python file with tasks (FILE.py or FILE.py@NAME), the name of an installed task
            (PACKAGE/NAME), or a data set of the Hugging Face Hub with an eval.yaml
            (hf/OWNER/NAME).
        args: Arguments of the task, as Inspect's option -T.
    """

    on_truncated: Literal["fail", "grade"] = "grade"
    needed_features: frozenset[str] = frozenset()
    needed_samples = 1

    def __init__(self, task: str, args: dict[str, Any] | None = None, *, data: DataFolder) -> None:
        file, at, name = task.partition("@")
        file = data.own(file)
        # Inspect looks for files below the current folder.
        self._name = f"{os.path.relpath(file) if Path(file).is_file() else file}{at}{name}"
        self._args = args or {}

    @cached_property
    def _samples(self) -> list[InspectSample]:
        return load(self._name, self._args)

    def instances(self) -> Iterator[One]:
        """Yield the samples in order, with the group ``task``."""
        several = len({one.task.name for one in self._samples}) > 1
        for one in self._samples:
            name = f"{one.task.name}/{one.sample.id}" if several else str(one.sample.id)
            yield Instance(name, one, {"task": one.task.name})

    def fingerprint(self) -> Mapping[str, str]:
        """Return Inspect's version, and hashes of the task's file and of all samples."""
        found = hashlib.sha256()
        for one in self._samples:
            prompt = [(message.role, message.content) for message in asked(one)]
            given = one.sample.target, one.sample.choices, one.sample.metadata
            part = json.dumps([one.task.name, one.sample.id, prompt, given], default=str)
            found.update(part.encode(errors="surrogatepass"))
        path = Path(self._name.partition("@")[0])
        code = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        version = import_extra("inspect_ai", "inspect").__version__
        return {"inspect": version, "task_sha256": code, "dataset_sha256": found.hexdigest()}

    def messages(self, instance: One, shots: Sequence[One]) -> tuple[Message, ...]:
        """Return the messages for which the task's solvers generate an answer.

        ``shots`` are not used: Inspect's solvers put few-shot examples into the prompt.
        """
        return asked(instance.data)

    def adapted_request(self, instance: One, request: Request) -> Request:
        """Return a request with the task's parameters, except those that the run file sets."""
        config, decoding = instance.data.task.config, request.decoding
        theirs = {
            "max_tokens": config.max_tokens or MAX_TOKENS,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "stop": tuple(config.stop_seqs or ()),
        }
        mine = {key: getattr(decoding, key) for key in decoding.given()}
        return structs.replace(request, decoding=Decoding(**(theirs | mine)))

    def score(self, instance: One, text: str) -> Mapping[str, Score]:
        """Return the scores that the task's scorers give.

        If a scorer fails, its score has no value, and the error is the reason.
        """
        return {name: score for name, (score, _) in scores(instance.data, text).items()}

    def score_of_no_answer(self, instance: One) -> Mapping[str, Score]:
        """Return the scores of an empty answer."""
        return self.score(instance, "")

    def extracted(self, instance: One, text: str) -> str | None:
        """Return the part that the first scorer read, or None if it is all the text or unknown."""
        found = next(iter(scores(instance.data, text).values()))[1]
        return None if found == text else found

    def feedback(self, instance: One, text: str, scores: Mapping[str, Score]) -> str:
        """Return a message that the answer is wrong."""
        return "Your answer is not correct. Please answer again."

    def reference(self, instance: One) -> str | None:
        """Return the target, alone or after "ANSWER: ", if it passes, else None."""
        target = self.expected_answer(instance)
        for text in (target, f"ANSWER: {target}") if target else ():
            if verdict(self.score(instance, text)):
                return text
        return None

    def expected_answer(self, instance: One) -> str | None:
        """Return the sample's target (the first of several), if any."""
        target = instance.data.sample.target
        return (target if isinstance(target, str) else next(iter(target), None)) or None
