"""Polishing: a second model rewrites what the user's turn says, as COLLIE's authors offer.

A rewriting is used only where it keeps every value that the checker will look
for; else the text stays as it was. Either way the call is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal

from harness.calls.calls import Calls
from harness.errors import CallError, FatalCallError
from harness.records import Call, Decoding, Message, Origin, Request, Rewriting

ASK = (
    "Rewrite the text between the lines so that it reads fluently. Keep its meaning, every "
    "number and every quoted text exactly. Answer with the rewritten text alone.\n"
    "---\n{text}\n---"
)


def keeps(text: str, values: Iterable[str]) -> bool:
    """Whether a text holds every value; a number counts only as a whole number.

    >>> keeps("at least 11 letters", ["11"]), keeps("at least 110 letters", ["11"])
    (True, False)
    """
    return all(
        bool(re.search(rf"(?<!\d){value}(?!\d)", text)) if value.isdecimal() else value in text
        for value in values
    )


class Polisher:
    """Rewrites texts by a second model.

    calls: the second model's call stack.
    model: its name.
    decoding: how it is asked to decode.
    cost: what a call cost, None where that is not known.
    """

    def __init__(
        self, calls: Calls, model: str, decoding: Decoding, cost: Callable[[Call], float | None]
    ) -> None:
        self._calls = calls
        self._model = model
        self._decoding = decoding
        self._cost = cost

    async def __call__(
        self, text: str, values: Iterable[str], of: Literal["instruction", "feedback"], for_: Origin
    ) -> tuple[str, Rewriting]:
        """The text to use, and the record of the call.

        values: what a rewriting must keep, as far as the text has it.
        of: what the text is.

        Raises: a FatalCallError; Stopping.
        """
        messages = (Message("user", ASK.format(text=text)),)
        request = Request(self._model, messages, self._decoding, 0, for_)
        try:
            call = await self._calls(request)
        except FatalCallError:
            raise
        except CallError as error:
            return text, Rewriting(of, False, error=f"{type(error).__name__}: {error}")
        reply = call.reply
        rewritten = reply.text.strip()
        held = [value for value in values if keeps(text, [value])]
        used = bool(rewritten) and reply.finish_reason == "stop" and keeps(rewritten, held)
        return rewritten if used else text, Rewriting(
            of,
            used,
            call_id=call.id,
            usage=reply.usage,
            cost_usd=self._cost(call),
            cached=call.cached,
        )
