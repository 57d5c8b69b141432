"""lm-eval itself, in a process of its own: python peer.py ASKED RESULTS (JSON files)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import jinja2
from lm_eval import simple_evaluate
from lm_eval.api.registry import get_model
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.tasks import TaskManager


class Templated(LocalCompletionsAPI):
    """Text completions with the chat template of a file."""

    template = ""

    def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> str:
        # As in Hugging Face's tokenizers.
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        return environment.from_string(self.template).render(
            messages=chat_history, add_generation_prompt=add_generation_prompt
        )


class Seeded(LocalCompletionsAPI):
    """Text completions with given seeds: lm-eval has one seed for all answers to a prompt."""

    seeds: ClassVar[dict[str, list[int]]] = {}

    def _create_payload(self, messages: Any, **given: Any) -> dict[str, Any]:
        payload: dict[str, Any] = super()._create_payload(messages, **given)
        return {**payload, "seed": self.seeds[messages].pop(0)}


def main(asked: Path, results: Path) -> None:
    given = json.loads(asked.read_text())
    kind = get_model(given["model"])
    if "template" in given:
        kind, Templated.template = Templated, given["template"]
    if "seeds" in given:
        kind, Seeded.seeds = Seeded, given["seeds"]
    model = kind(**{"model": "m", **given["model_args"]})
    manager = TaskManager(include_path=given["include_path"], include_defaults=False)
    found = simple_evaluate(
        model, tasks=given["tasks"], task_manager=manager, bootstrap_iters=0, **given["options"]
    )
    assert found is not None
    results.write_text(json.dumps(found["results"], default=str))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
