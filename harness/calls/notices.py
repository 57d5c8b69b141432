"""What the call stack has to tell the user while a run goes on: why it waits, what it met."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str], None]
"""Says what the matter is; an empty text says that it is over."""


class Notices:
    """What is the matter now, by who says so; told from any thread.

    listen: is told each new text, where somebody sets it.
    """

    def __init__(self) -> None:
        self.listen: Tell | None = None
        self._now: dict[str, str] = {}

    def teller(self, source: str) -> Tell:
        """Where a part of the stack says its own; the latest text counts.

        source: whose, for several models side by side; shown before the text.
        """

        def tell(text: str) -> None:
            if not text:
                self._now.pop(source, None)
                return
            self._now[source] = f"{source}: {text}" if source else text
            if self.listen is not None:
                self.listen(self._now[source])

        return tell

    @property
    def now(self) -> list[str]:
        """What is the matter."""
        return list(self._now.values())
