"""A curation file: how to build a benchmark like WildIFEval from chats, and with which models.

    model: {backend: openai, preset: vllm, name: my-model, base_url: http://localhost:8000/v1}
    filter: {keep: 0.1}
    budget: {usd: 5}

Defaults are the paper's values (Lior et al. 2025, arXiv 2503.06573) where it gives them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from harness.config import sections
from harness.config.loading import override, parse_override, read, refuse_secrets
from harness.config.sections import Count, SecondModelSection
from harness.config.validation import Section, validated

Share = Annotated[float, Field(ge=0, le=1)]

CodeSign = Literal["word", "shape"]
StageName = Literal["toxicity", "filter", "decompose", "categories", "domains"]
PromptName = Literal[
    "toxic", "constrained", "decompose", "category", "propose_domains", "merge_domains", "domain"
]
FORM = "It needs at least a model: {backend: …, name: …} (docs/wildifeval_build.md)."


class ScreenSection(Section):
    """``screen:`` what to discard before any model is called (docs/wildifeval_build.md).

    A message is discarded if it is in another language with a probability of `other_language` or
    more, or toxic with `toxic_from` or more (paper: 0.6). `labels`: also trust the log's labels.
    """

    language: Annotated[str, Field(pattern="^[a-z]{2,3}$")] | None = "en"
    other_language: Share = 0.5
    code: tuple[CodeSign, ...] = ("word", "shape")
    toxicity: Literal["words", "model"] | None = "words"
    toxic_from: Share = 0.9
    labels: bool = True


class FilterSection(Section):
    """``filter:`` which messages are constrained generation tasks; `keep` is the share to keep.

    `votes` is the number of yes/no replies per message. By default, log-probabilities are used if
    the model returns them, otherwise five replies.
    """

    keep: Annotated[float, Field(gt=0, le=1)] = 0.1
    votes: Count | None = None
    max_tokens: Count = 5


class DecomposeSection(Section):
    """``decompose:`` how the model is called to split a message into constraints."""

    temperature: Annotated[float, Field(ge=0)] = 1.0
    max_tokens: Count = 500


class ConstraintsSection(Section):
    """``constraints:`` maximum tasks per shared constraint, and maximum constraints per task."""

    most_tasks: Count = 40
    most_of_a_task: Count = 8


class DomainsSection(Section):
    """``domains:`` tasks per batch, domains proposed per batch, and domains after merging.

    ``shown`` is the number of characters of each task that a batch shows.
    """

    batch: Count = 100
    proposed: Count = 10
    merged: Count = 20
    shown: Count = 500


class Curation(Section):
    """A complete curation file; ``models`` (by stage) and ``prompts`` (files) override defaults."""

    model: sections.ModelSection
    models: dict[StageName, SecondModelSection] = Field(default_factory=dict)
    screen: ScreenSection = Field(default_factory=ScreenSection)
    filter: FilterSection = Field(default_factory=FilterSection)
    decompose: DecomposeSection = Field(default_factory=DecomposeSection)
    constraints: ConstraintsSection = Field(default_factory=ConstraintsSection)
    domains: DomainsSection = Field(default_factory=DomainsSection)
    prompts: dict[PromptName, Path] = Field(default_factory=dict)
    limits: sections.LimitsSection = Field(default_factory=sections.LimitsSection)
    budget: sections.BudgetSection = Field(default_factory=sections.BudgetSection)
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = 0


def load_curation(path: Path | None, overrides: Iterable[str] = ()) -> Curation:
    """Return the curation in a file (None: an empty one) with ``key.path=value`` texts applied."""
    tree = read(path, "curation file", FORM) if path else {}
    for text in overrides:
        override(tree, *parse_override(text))
    refuse_secrets(tree, str(path) if path else "-o")
    return validated(Curation, tree, str(path) if path else "-o", FORM)
