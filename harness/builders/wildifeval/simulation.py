"""What a good model could reply to the stages' questions: for trying the whole way out for nothing.

Nothing of it is a finding: a data set whose models were simulated says so on its card.
"""

from __future__ import annotations

from harness.records import Request

DECOMPOSED = """Task: Write a text.
Context: none
Constraints:
1. The text should be what the message asks for.
2. The text should be complete."""


def simulated_reply(request: Request) -> str:
    """By the form that the last line of our prompts asks for."""
    asked = request.messages[-1].content.rstrip()
    last = asked.rpartition("\n")[2]
    if "yes or no" in last:
        return "Yes"
    if "numbered list" in last:
        return "1. Letters\n2. Stories\n3. Advice"
    if "one kind" in last:
        return "Ensure Quality"
    if "one domain" in last:
        return "1"
    return DECOMPOSED
