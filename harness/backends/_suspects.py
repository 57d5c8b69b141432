"""Requests that were in flight when an engine died: asked again with care, and not without end.

One prompt can kill an engine, and would kill it again whenever it is asked. So a prompt that was
in flight at two deaths is asked alone, and one that the engine then dies of is given up. Its
other samples are not asked at all. Whatever else was in flight is answered sooner or later, and
stands clear.

>>> suspects = Suspects()
>>> for life in (1, 2):
...     suspects.died(request, life, alone=False)  # doctest: +SKIP
>>> suspects.alone(request)  # doctest: +SKIP
True
"""

from __future__ import annotations

from collections.abc import Hashable

from harness.errors import RequestRejected
from harness.records import Request

DEATHS = 2
"""So many deaths that it was in flight at make a prompt a suspect."""


class Suspects:
    """The prompts that some engines of one model may have died of."""

    def __init__(self) -> None:
        self._deaths: dict[Hashable, set[Hashable]] = {}
        self._guilty: set[Hashable] = set()

    def alone(self, request: Request) -> bool:
        """Whether a request must be the only one that its engine works on.

        Raises: RequestRejected for one whose prompt has killed an engine.
        """
        if not self._deaths:  # the rule, and a request's name takes time
            return False
        if (name := _name(request)) in self._guilty:
            raise self._refusal(name)
        return len(self._deaths.get(name, ())) >= DEATHS

    def died(self, request: Request, life: Hashable, *, alone: bool) -> None:
        """An engine died while it worked on a request.

        life: tells this life of the engine from its other ones.
        alone: the request was the only one.

        Raises: RequestRejected where that makes it the one to blame.
        """
        name = _name(request)
        self._deaths.setdefault(name, set()).add(life)
        if alone:
            self._guilty.add(name)
            raise self._refusal(name)

    def answered(self, request: Request) -> None:
        """An engine has survived a request."""
        if self._deaths:
            self._deaths.pop(_name(request), None)

    def _refusal(self, name: Hashable) -> RequestRejected:
        return RequestRejected(
            f"vLLM has died {len(self._deaths[name])} times of this prompt, at last with nothing "
            "else in flight."
        )


def _name(request: Request) -> Hashable:
    """What the samples of a prompt have in common."""
    return request.model, request.messages, repr(request.decoding)
