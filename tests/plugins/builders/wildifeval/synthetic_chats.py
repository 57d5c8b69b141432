"""A chat log of our own making, and a model that knows how it was made.

Every message says by its form what it is, so that what a build makes of it is known beforehand:
a constrained task names its constraints after "It must", with semicolons between.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from harness.plugins.mock.answers import Answer
from harness.plugins.mock.wire import MockRequest

KINDS = ["a letter", "a short story", "a speech", "a product description", "a news item"]
TOPICS = [
    *("a bakery that opens on Monday", "the old bridge of our town", "a lost umbrella"),
    *("a bicycle tour along the river", "the first day at school", "a garden in autumn"),
    *("a train that never arrives", "moving to a new flat", "a concert in the park"),
    *("learning to swim as an adult", "a museum of clocks", "the neighbour's apple tree"),
]
CONDITIONS = [
    *("be at most 90 words long", "mention the weather", "end with a question"),
    *("be friendly in tone", "speak as a grandmother", "have three paragraphs"),
    *("avoid technical terms", "stress how old things are", "contain no rhymes"),
]
REPEATED = "be signed with the initial R"

SPANISH = "Escribe una carta muy corta sobre {} para mi abuela, que vive en el campo, número {}."
GERMAN = "Schreib mir bitte eine kurze Geschichte über den Herbst und das Meer, Nummer {}, für {}."
FRENCH = (
    "Peux-tu écrire une petite histoire sur la mer et les bateaux pour mes enfants, numéro {} ?"
)
SHAPES = [
    "Why does this not work?\ndef add_{0}(a, b):\n    return a + b\nprint(add_{0}(1, 2))",
    "What is wrong here\n```\nx{0} = 1\n```",
    "SELECT name FROM friends WHERE age > {0}\nSELECT town FROM friends WHERE age < {0}",
]


def rows() -> Iterator[tuple[str, str]]:
    """Kind and text of 870 first messages: 150 for the screening, 180 tasks, 540 others."""
    numbers = itertools.count(1)
    for i in range(60):
        form = (SPANISH, GERMAN, FRENCH)[i % 3]
        yield "foreign", form.format(i, i)
    for i in range(25):
        yield "code", f"Write code that sorts {i + 3} names, and say how it works."
        yield "code", SHAPES[i % 3].format(i)
    for i in range(40):
        yield "toxic", f"You fucking idiot, write about {TOPICS[i % 12]}, you stupid bitch {i}."
    for i in range(60):
        yield "repeated", task(next(numbers), [CONDITIONS[i % 9], REPEATED])
    for _ in range(10):
        yield "nine", task(next(numbers), list(CONDITIONS))
    for _ in range(5):
        yield "none", task(next(numbers), [])
    for i in range(105):
        yield "task", task(next(numbers), [f"name the number {i}", f"be told in {i + 2} parts"])
    for i in range(180):
        yield "question", f"When was {TOPICS[i % 12]} talked about in the paper, on day {i}?"
        yield "not whole", f"Shorten the text that I sent you on day {i}. It must be short."
        yield "plain", f"Write {KINDS[i % 5]} about {TOPICS[i % 12]}, for day {i}."


def task(number: int, conditions: list[str]) -> str:
    wanted = f"{KINDS[number % 5]} about {TOPICS[number % 12]}"
    return f"Please write {wanted} for page {number}. It must {'; '.join(conditions)}."


def write_chats(path: Path) -> dict[str, str]:
    """Write the log, with 50 tasks said again; the kind of each conversation by its id."""
    kinds: dict[str, str] = {}
    lines: list[str] = []
    made = list(rows())
    again = [("duplicate", f"  {made[200 + i][1]} ") for i in range(50)]
    for number, (kind, text) in enumerate([*made, *again]):
        name = f"chat-{number}"
        kinds[name] = kind
        turns = [{"role": "user", "content": text}, {"role": "assistant", "content": "Well."}]
        shapes = [
            {"conversation_id": name, "conversation": turns},
            {"id": name, "messages": turns},
            {"id": name, "prompt": text},
        ]
        lines.append(json.dumps(shapes[number % 3], ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n")
    return kinds


MESSAGE = re.compile(r"<message>\n(.*?)\n</message>", re.DOTALL)


def answer(ask: MockRequest, _: int) -> str | Answer:
    """What a model says that knows how the messages were made."""
    last = ask.prompt.rstrip().rpartition("\n")[2]
    message = (MESSAGE.findall(ask.prompt) or [""])[-1]
    if "yes or no" in last:
        return sure("please write" in message.lower())
    if "one kind" in last:
        return category(ask.prompt)
    if "numbered list" in last:
        if "</names>" in ask.prompt:
            return "\n".join(f"{i}. Field {i}" for i in range(1, 21))
        first = int(re.findall(r"for page (\d+)", ask.prompt)[0])
        return "\n".join(f"{i}. Area {first + i}" for i in range(1, 11))
    if "one domain" in last:
        number = int(re.findall(r"for page (\d+)", message)[0])
        return f"Field {number % 20 + 1}"
    conditions = message.strip().removesuffix(".").partition("It must")[2].strip()
    listed = [f"The text should {one.strip()}." for one in conditions.split(";") if one.strip()]
    numbered = "\n".join(f"{i}. {one}" for i, one in enumerate(listed, start=1)) or "none"
    return f"Task: Write something.\nContext: none\nConstraints:\n{numbered}"


def sure(yes: bool) -> Answer:
    likely, other = ("Yes", "No") if yes else ("No", "Yes")
    return Answer(likely, [{likely: -0.05, other: -3.0}])


def category(prompt: str) -> str:
    if "words long" in prompt:
        return "4. Length"
    return "Other: *Numbering*" if "name the number" in prompt else "Include / Avoid"
