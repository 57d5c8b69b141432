"""A curation file: how to build a benchmark like WildIFEval from chats, and with which models.

Where the paper (Lior et al. 2025, arXiv 2503.06573) gives a value, it is the default, except for
``toxic_from``.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from harness.config import sections
from harness.config.loading import check_no_secrets, parse_override, set_key
from harness.config.sections import Count, SecondModelSection
from harness.config.validation import Section, validate
from harness.config.yaml_text import read_mapping

Share = Annotated[float, Field(ge=0, le=1)]

CodeSign = Literal["word", "shape"]
StageName = Literal["toxicity", "filter", "decompose", "categories", "domains"]
PromptName = Literal[
    "toxic", "constrained", "decompose", "category", "propose_domains", "merge_domains", "domain"
]
AUTHORS_PROMPTS = "wildifeval_prompts"  # the data set of the published prompts
AUTHORS = "authors"  # as ``prompts``, or as one of them: the published prompt, which is downloaded
PUBLISHED: tuple[PromptName, ...] = (
    "constrained",
    "decompose",
    "category",
    "propose_domains",
    "merge_domains",
    "domain",
)
FORM = "It needs at least a model: {backend: …, name: …} (harness docs wildifeval_build)."


class ScreenSection(Section):
    """Section ``screen``: which messages are discarded before any model is called."""

    language: Annotated[str, Field(pattern="^[a-z]{2,3}$")] | None = "en"
    other_language: Share = 0.5  # lowest probability of another language that counts
    code: tuple[CodeSign, ...] = ("word", "shape")
    toxicity: Literal["words", "detoxify", "model"] | None = "words"
    toxic_from: Share = 0.9  # lowest probability of toxicity that counts (paper: 0.6)
    labels: bool = True  # whether the log's labels of language and toxicity count, too


class FilterSection(Section):
    """Section ``filter``: how to select the messages that are constrained generation tasks."""

    keep: Annotated[float, Field(gt=0, le=1)] = 0.1  # share of the messages
    votes: Count | None = None  # yes/no replies per message; None: log-probabilities, or else five
    max_tokens: Count = 5


class DecomposeSection(Section):
    """Section ``decompose``: the calls that split a message into constraints."""

    temperature: Annotated[float, Field(ge=0)] = 1.0
    max_tokens: Count = 500


class ConstraintsSection(Section):
    """Section ``constraints``: limits on constraints per task, and on tasks per constraint."""

    most_tasks: Count = 40
    most_of_a_task: Count = 8


class DomainsSection(Section):
    """Section ``domains``: calls to propose domains for batches of tasks, and to merge domains."""

    batch: Count = 100  # tasks per batch
    proposed: Count = 10  # domains per batch
    merged: Count = 20  # domains after merging
    shown: Count = 500  # characters of each task that the model sees


class Curation(Section):
    """A complete curation file, with ``models`` by stage and ``prompts`` by `PromptName`."""

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

    @field_validator("prompts", mode="before")
    @classmethod
    def _all_by_the_authors(cls, raw: Any) -> Any:
        return dict.fromkeys(PUBLISHED, AUTHORS) if raw == AUTHORS else raw

    @property
    def by_authors(self) -> list[PromptName]:
        """The names of the prompts whose published text is to be used."""
        return [name for name, path in self.prompts.items() if path == Path(AUTHORS)]


def load_curation(path: Path | None, overrides: Iterable[str] = ()) -> Curation:
    """Load a curation file (None: an empty one), and apply ``key.path=value`` overrides."""
    tree = read_mapping(path, "curation file", FORM) if path else {}
    for text in overrides:
        set_key(tree, *parse_override(text))
    check_no_secrets(tree, str(path) if path else "-o")
    return validate(Curation, tree, str(path) if path else "-o", FORM)
