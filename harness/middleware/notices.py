"""What the call stack has to tell the user while a run goes on: why it waits, what it met."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str], None]
"""Says what the matter is; an empty text says that it is over."""


class Notices:
    """What is the matter now, by who says so.

    listen: is told each new text.
    """

    def __init__(self, listen: Tell | None = None) -> None:
        self._now: dict[str, str] = {}
        self._listen = listen

    def teller(self, source: str) -> Tell:
        """Where a part of the stack says its own; the latest text counts.

        source: whose, for several models side by side; shown before the text.
        """

        def tell(text: str) -> None:
            if not text:
                self._now.pop(source, None)
                return
            self._now[source] = f"{source}: {text}" if source else text
            if self._listen is not None:
                self._listen(self._now[source])

        return tell

    @property
    def now(self) -> list[str]:
        """What is the matter."""
        return list(self._now.values())
