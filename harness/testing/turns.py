"""Checks of conversations: instances as of their later turns, given answers to earlier turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness import ports
from harness.records import Instance, Message
from harness.testing.plugin_check import WRONG, PlugInCheck

NEXT = "What else?"  # of a played user


def later_turns(check: PlugInCheck, instance: Instance[Any]) -> Iterator[Instance[Any]]:
    """Yield an instance as of each turn after the first, and check the conversations.

    Each earlier turn is answered by its reference answer or, without one, by a wrong answer.
    """
    task, where = check.plugin, f" for {instance.id!r}"
    opening = check.call("messages", instance, ()) or ()
    if isinstance(task, ports.Played) and check.call("user_role", instance) is not None:
        answer = Message("assistant", check.call("reference", instance) or WRONG)
        said = (*opening, answer, Message("user", NEXT))
        for last in (False, True):
            turn = _asked(check, "at_played_turn", instance, said, last)
            if turn is not None:
                if tuple(check.call("messages", turn, ()) or ()) != said:
                    check.add("at_played_turn", f"does not have the conversation{where}.")
                yield turn
    if not isinstance(task, ports.Scripted):
        return
    turns = check.call("turns", instance, where=where) or 1
    if turns < 1:
        check.add("turns", f"is {turns}{where}: every instance has at least one turn.")
    if _asked(check, "at_turn", instance, ()) != instance:
        check.add("at_turn", f"changes the instance without answers{where}.")
    asked: Instance[Any] | None = instance
    said, answers = opening, list[str]()
    for _ in range(1, turns):
        answers.append(check.call("reference", asked) or WRONG)
        asked = _asked(check, "at_turn", instance, tuple(answers))
        if asked is None:
            return
        now = tuple(check.call("messages", asked, ()) or ())
        if problem := _misplaced(now, said, answers[-1]):
            check.add("at_turn", f"{problem} after {len(answers)} answers{where}.")
        said = now
        yield asked


def _asked(
    check: PlugInCheck, member: str, instance: Instance[Any], *given: Any
) -> Instance[Any] | None:
    """Return the instance that a task's method ``member`` returns for a turn.

    If the method fails, record the problem and return None.
    """
    with check.calling(member, f" for {instance.id!r}"):
        found = getattr(check.plugin, member)(instance, *given)
        if isinstance(found, Instance):
            return found
        check.add(member, f"returns {found!r:.60}, not an Instance.")
    return None


def _misplaced(now: Sequence[Message], before: Sequence[Message], answer: str) -> str:
    expected = [*before, Message("assistant", answer)]
    if list(now[: len(expected)]) != expected:
        return "does not repeat the conversation so far, with the latest answer,"
    if not now[len(expected) :] or now[-1].role != "user" or not now[-1].content.strip():
        return "does not end with a non-empty turn of the user"
    return ""
