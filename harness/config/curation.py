"""A curation file: how a benchmark like WildIFEval is made from chats, and by which models.

    model: {backend: openai, preset: vllm, name: my-model, base_url: http://localhost:8000/v1}
    filter: {keep: 0.1}
    budget: {usd: 5}

What a file leaves out has the paper's value (Lior et al. 2025, arXiv 2503.06573), where the paper
has one.

>>> load_curation(None, ["model.backend=simulated"]).filter.keep
0.1
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from harness.config.loading import override, parse_override, read
from harness.config.sections import (
    BudgetSection,
    Count,
    LimitsSection,
    ModelSection,
    SecondModelSection,
    Section,
    shown,
)
from harness.errors import ConfigError, nearest

Share = Annotated[float, Field(ge=0, le=1)]

CodeSign = Literal["word", "shape"]
StageName = Literal["toxicity", "filter", "decompose", "categories", "domains"]
PromptName = Literal[
    "toxic",
    "constrained",
    "decompose",
    "category",
    "propose_domains",
    "merge_domains",
    "domain",
]
FORM = "It must hold at least a model: {backend: …, name: …} (docs/wildifeval_build.md)."


class ScreenSection(Section):
    """``screen:`` what is left out before any model is asked.

    language: ISO 639-1 code of the one that is kept; null for all.
    other_language: the least probability with which another one is found.
    code: signs of program code: the letters "code" (the paper's), the shape of lines.
    toxicity: who finds it: a classifier by its words, or the ``toxicity`` stage's model; null for
        nobody.
    toxic_from: the least probability of it; the paper's is 0.6, by another classifier.
    labels: believe what the log itself says of language and toxicity.
    """

    language: Annotated[str, Field(pattern="^[a-z]{2,3}$")] | None = "en"
    other_language: Share = 0.5
    code: tuple[CodeSign, ...] = ("word", "shape")
    toxicity: Literal["words", "model"] | None = "words"
    toxic_from: Share = 0.9
    labels: bool = True


class FilterSection(Section):
    """``filter:`` which messages are constrained generation tasks.

    keep: the share with the highest probability of yes that is kept.
    votes: how often each is asked; null: log-probabilities where the model tells them, else five.
    max_tokens: of a reply; a model that thinks before it answers needs more.
    """

    keep: Annotated[float, Field(gt=0, le=1)] = 0.1
    votes: Count | None = None
    max_tokens: Count = 5


class DecomposeSection(Section):
    """``decompose:`` how a message is taken apart."""

    temperature: Annotated[float, Field(ge=0)] = 1.0
    max_tokens: Count = 500


class ConstraintsSection(Section):
    """``constraints:`` what is left out once they are known.

    most_tasks: tasks that may have the same one.
    most_of_a_task: constraints of a task.
    """

    most_tasks: Count = 40
    most_of_a_task: Count = 8


class DomainsSection(Section):
    """``domains:`` how they are found.

    batch: tasks that are looked at together; proposed: domains named for each batch.
    merged: domains in the end.
    shown: characters of a task in a batch.
    """

    batch: Count = 100
    proposed: Count = 10
    merged: Count = 20
    shown: Count = 500


class Curation(Section):
    """A whole curation file.

    models: other models for some of the stages.
    prompts: files of the user's, in the place of ours.
    seed: of draws, and of the providers' seeds.
    """

    model: ModelSection
    models: dict[StageName, SecondModelSection] = Field(default_factory=dict)
    screen: ScreenSection = Field(default_factory=ScreenSection)
    filter: FilterSection = Field(default_factory=FilterSection)
    decompose: DecomposeSection = Field(default_factory=DecomposeSection)
    constraints: ConstraintsSection = Field(default_factory=ConstraintsSection)
    domains: DomainsSection = Field(default_factory=DomainsSection)
    prompts: dict[PromptName, Path] = Field(default_factory=dict)
    limits: LimitsSection = Field(default_factory=LimitsSection)
    budget: BudgetSection = Field(default_factory=BudgetSection)
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = 0


def load_curation(path: Path | None, overrides: Iterable[str] = ()) -> Curation:
    """The curation that a file asks for.

    path: None where the overrides say all.
    overrides: ``key.path=value``.

    Raises: ConfigError naming the key; no value is quoted, for it may be a secret.
    """
    where = str(path) if path else "-o"
    tree: dict[str, Any] = copy.deepcopy(read(path, "curation file", FORM)) if path else {}
    for text in overrides:
        override(tree, *parse_override(text))
    try:
        return Curation.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    loc = [str(part) for part in first["loc"]]
    key = ".".join(map(shown, loc))
    if first["type"] == "extra_forbidden":
        raise ConfigError(f"{where}: unknown key {key!r}.", nearest(loc[-1], _keys(loc[:-1])))
    if first["type"] == "missing":
        raise ConfigError(f"{where}: {key} is missing.", FORM)
    message = first["msg"].removeprefix("Value error, ").replace("Input should", "it must", 1)
    raise ConfigError(f"{where}: {key}: {message}.".replace("..", "."))


def _keys(section: list[str]) -> Iterable[str]:
    """The valid keys of a section."""
    found: Any = Curation
    for part in section:
        field = getattr(found, "model_fields", {}).get(part)
        found = field.annotation if field else None
    return getattr(found, "model_fields", {})
