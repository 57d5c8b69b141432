"""What makes questions of a form, such as multiple choice, from rows: the option ``choices``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from harness.datasets.rows import Row
from harness.plugin_loader import Kind
from harness.prompts import Template
from harness.records import Message, Request, Score

FIELD = "choices"  # of a row: the texts of its options
_SECTION = f"task.{FIELD}"


class QuestionForm(ABC):
    """The form of the questions that rows ask, and how answers to them are scored.

    A plug-in brings a subclass, whose constructor has the settings, as ``task.choices`` of its
    `section_builders`. What it makes of a row, its options, is passed to the other methods.
    """

    score_names: ClassVar[Sequence[str]]
    """The names of all scores. The first is the verdict."""

    example: ClassVar[Path]
    """A file of rows to try the form with."""

    by: str
    """How an answer is chosen."""

    @property
    @abstractmethod
    def by_likelihood(self) -> bool:
        """Whether given answers are compared by their log-likelihoods."""

    @abstractmethod
    def settings(self) -> Sequence[Any]:
        """Return the values of all settings, which the manifest has a hash of."""

    @abstractmethod
    def template(self) -> Template:
        """Return the built-in template of the prompt."""

    @abstractmethod
    def lettered(self, row: Row, name: str) -> tuple[Row, Any]:
        """Return a row with the fields that templates use, and its options.

        Args:
            row: The row.
            name: The id of its instance.
        """

    @abstractmethod
    def asked(self, options: Any, prompt: str) -> Any:
        """Return the options of a row, given the prompt that asks for one of them."""

    @abstractmethod
    def wrong_answer(self, options: Any, name: str) -> str:
        """Return a wrong answer, chosen by the instance's name."""

    @abstractmethod
    def request(self, options: Any, request: Request) -> Request:
        """Return a request for the log-likelihoods of all answers."""

    @abstractmethod
    def problems(self, options: Any, messages: Sequence[Message]) -> Iterator[str]:
        """Yield warnings about a prompt."""

    @abstractmethod
    def chosen(self, options: Any, text: str) -> str:
        """Return the answer that a reply chooses.

        Raises:
            Unparseable: If the reply chooses no answer.
        """

    @abstractmethod
    def scores(self, options: Any, text: str) -> dict[str, Score]:
        """Return the scores of a reply.

        Raises:
            Unparseable: If the reply chooses no answer.
        """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Validate settings as those of the form that a plug-in brings. Without one, none fit."""
        if cls is not QuestionForm:
            return handler(source)
        return handler.generate_schema(_form())


def _form() -> Any:
    forms = Kind("section_builders")
    return forms.load(_SECTION) if _SECTION in forms.names() else None


def default_form(row: Mapping[str, Any]) -> QuestionForm | None:
    """Return the form of a file whose first row is ``row``, if nothing else sets a prompt."""
    form = _form()
    if form is None or FIELD not in row or {"prompt", "messages", "turns"} & row.keys():
        return None
    default: QuestionForm = form()
    return default
