"""What a stage asks, and about what.

>>> Questions(["a", "b"], lambda name: Question(name, f"Who is {name}?"))[1].text
'Who is b?'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from msgspec import Struct

T = TypeVar("T")


class Question(Struct, frozen=True):
    """What is asked, and about what.

    about: the id of a chat, or the name of what else it is about.
    """

    about: str
    text: str


class Questions(Sequence[Question]):
    """Questions that are worded when they are asked: a log's prompts would fill the memory.

    of: what they are about; worded: pure.
    """

    def __init__(self, of: Sequence[T], worded: Callable[[T], Question]) -> None:
        self._of: Sequence[Any] = of
        self._worded: Callable[[Any], Question] = worded

    def __len__(self) -> int:
        return len(self._of)

    @overload
    def __getitem__(self, place: int) -> Question: ...

    @overload
    def __getitem__(self, place: slice) -> Questions: ...

    def __getitem__(self, place: int | slice) -> Question | Questions:
        if isinstance(place, slice):
            return Questions(self._of[place], self._worded)
        return self._worded(self._of[place])
