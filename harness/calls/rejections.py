"""Ends a run whose requests are all rejected for the same reason.

A request that is rejected is the failure of one call: other prompts may be answered. If no request
can be answered, for example because the model takes no system prompt, every prompt gets the same
message, apart from numbers, ids and quotations of the prompt, and the run ends before it has sent
them all. If a request of the run was answered before, it is first sent again as a control: the run
continues if the control is answered.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.calls.calls import PaidElsewhere
from harness.calls.circuit import second_control_request
from harness.calls.signals import Ask
from harness.errors import CallError, FatalCallError, PromptRefused, PromptTooLong, RequestRejected
from harness.records import Message, Reply, Request

MAX_REJECTED_PROMPTS = 20  # so many, rejected in a row with the same message, end the run
_ID_OR_NUMBER = re.compile(r"\b(?=\w*\d)(?=\w*[a-zA-Z])[\w-]{16,}|\b(?=\w*\d)[0-9a-fA-F]{6,}\b|\d+")
"""An id, such as that of a request, or any number."""
_MIN_QUOTE_CHARS = 16  # a shorter part of a prompt may be a word of the reason


@dataclass(eq=False)
class RejectionLimit:
    """The layer that ends the run if `MAX_REJECTED_PROMPTS` in a row are rejected alike.

    Prompts that a content filter refuses and those that are too long do not count. Neither do calls
    that fail otherwise.

    Attributes:
        ask: The layers below.
        find_answered: Returns a request that was answered, in this session or before, or None.
        control: Sends a control call, which is no call of the run.
    """

    ask: Ask
    find_answered: Callable[[], Request | None] = lambda: None
    control: Ask | None = None

    def __post_init__(self) -> None:
        self._reasons: set[str] = set()  # the last reason, with and without quotations
        self._prompts: set[tuple[Message, ...]] = set()  # rejected in a row for this reason

    async def __call__(self, request: Request) -> Reply:
        """Send the request, and return the reply.

        Raises:
            FatalCallError: If too many different prompts have been rejected with the same message.
            CallError: If the call fails otherwise.
        """
        try:
            reply = await self.ask(request)
        except PaidElsewhere:
            self.reset()
            raise
        except (PromptRefused, PromptTooLong):
            raise
        except RequestRejected as error:
            self._record(request, error.message)
            if len(self._prompts) < MAX_REJECTED_PROMPTS:
                raise
            answered_request = self.find_answered()
            if answered_request is not None and self.control is not None:
                self.reset()  # other calls count from zero while the control call is in flight
                if await _is_answered(self.control, second_control_request(answered_request)):
                    raise
            problem = f"{MAX_REJECTED_PROMPTS} different prompts in a row were rejected alike."
            remedy = "Correct the run file, or check the account. Answers so far are saved."
            raise FatalCallError(f"{problem} {error.message}", remedy) from None
        self.reset()
        return reply

    def _record(self, request: Request, message: str) -> None:
        """Add a rejected prompt to those that were rejected in a row with the same message."""
        # Both texts: a short prompt may be a word of the reason by chance, and quote nothing.
        texts = (message, _remove_quotations(message, request.messages))
        reasons = {_ID_OR_NUMBER.sub("", text) for text in texts}
        if reasons.isdisjoint(self._reasons):
            self._prompts.clear()
        self._reasons = reasons
        self._prompts.add(request.messages)

    def reset(self) -> None:
        """Count again from 0, because the model has answered."""
        self._prompts.clear()


def _remove_quotations(text: str, messages: Iterable[Message]) -> str:
    """Return an error's text without its quotations, whole or in part, of a prompt's messages."""
    for message in messages:
        content = " ".join(message.content.split())  # as in the error
        if content and content in text:
            text = text.replace(content, "")
        start = 0
        while (end := start + _MIN_QUOTE_CHARS) <= len(text):
            if text[start:end] not in content:
                start += 1
                continue
            while end < len(text) and text[start : end + 1] in content:
                end += 1
            text = text[:start] + text[end:]
    return text


async def _is_answered(ask: Ask, request: Request) -> bool:
    try:
        await ask(request)
    except CallError:
        return False
    return True
