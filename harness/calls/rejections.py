"""Ends a run whose requests are all rejected for the same reason.

A request that is rejected is the failure of one call: other prompts may be answered. If no request
can be answered, for example because the model takes no system prompt, every prompt gets the same
message, and the run ends before it has sent them all.
"""

import re
from dataclasses import dataclass

from harness.calls.claimed_calls import PaidElsewhere
from harness.calls.signals import Ask
from harness.errors import FatalCallError, PromptRefused, PromptTooLong, RequestRejected
from harness.records import Message, Reply, Request

DIFFERENT_PROMPTS = 20  # rejected in a row with the same message, they end the run
_ID = re.compile(r"\b(?=\w*\d)(?=\w*[a-zA-Z])[\w-]{16,}")  # such as that of a request


@dataclass(eq=False)
class RejectionLimit:
    """The layer that ends the run if `DIFFERENT_PROMPTS` are rejected alike, one after another.

    Prompts that a content filter refuses and those that are too long do not count. Neither do calls
    that fail otherwise.
    """

    ask: Ask

    def __post_init__(self) -> None:
        self._message = ""  # the last one, without ids
        self._prompts: set[tuple[Message, ...]] = set()  # rejected with this message in a row

    async def __call__(self, request: Request) -> Reply:
        """Send the request, and return the reply.

        Raises:
            FatalCallError: If too many different prompts have been rejected with the same message.
            CallError: If the call fails otherwise.
        """
        try:
            reply = await self.ask(request)
        except PaidElsewhere:
            self.clear()
            raise
        except (PromptRefused, PromptTooLong):
            raise
        except RequestRejected as error:
            message = _ID.sub("", error.message)
            if message != self._message:
                self._message = message
                self._prompts.clear()
            self._prompts.add(request.messages)
            if len(self._prompts) < DIFFERENT_PROMPTS:
                raise
            problem = f"{DIFFERENT_PROMPTS} different prompts in a row were rejected alike."
            remedy = "Correct the run file, or check the account. Answers so far are saved."
            raise FatalCallError(f"{problem} {error.message}", remedy) from None
        self.clear()
        return reply

    def clear(self) -> None:
        """Count again from 0: the model has answered, perhaps from the cache."""
        self._prompts.clear()
