"""A corpus of our own: English sentences by rule, with the dirt that real corpora have.

The same seed makes the same files. Nothing of others' text is in it.
"""

from __future__ import annotations

from pathlib import Path

from harness.plugins.builders.concodeeval.values import WORDS as NOUNS
from harness.plugins.builders.draws import Draws

NAMES = """
Ada Berta Clement Dorothea Emil Frieda Gustav Hanna Ivo Johanna Klaus Lotte
""".split()  # noqa: SIM905
VERBS = """
carried counted covered followed found kept lifted mended missed moved noticed opened painted
passed pushed raised reached remembered repaired returned sold studied turned used wanted
watched
""".split()  # noqa: SIM905
ADJECTIVES = """
broad broken careful cheap clean cold dark early empty famous gentle green heavy honest hollow
little long narrow ordinary patient plain quiet rough shallow simple slow small steep strange
tall warm wet wide wooden yellow
""".split()  # noqa: SIM905
PLACES = """\
across the yard;along the river;at the market;behind the mill;by the harbor;in the north;
near Dr. Weber's house;on the second floor;over the bridge;under the roof;up the hill;
beyond the wall""".replace("\n", "").split(";")
TIMES = """\
after the rain;at noon;before dawn;for eleven days;in 1887;in the end;long ago;on Sundays;
that winter;the next morning;toward evening;twice a week""".replace("\n", "").split(";")
JOINTS = """
and because but so until when while although
""".split()  # noqa: SIM905
OPENINGS = """
He It Nobody She Somebody They We
""".split()  # noqa: SIM905
SUFFIXES = """
maker keeper like less ward ic matrix club quiz shrub taxi ing er stead worthy
""".split()  # noqa: SIM905

DIRT = (
    "CHAPTER {n}",
    "Fig. {n}: the {noun} and the {other}.",
    "See https://www.example.org/{noun}?n={n} for the {noun} of the {other}.",
    "Copyright {n} by the keepers of the {noun}. All of it.",
    "| {noun} | {n} |",
    "The {noun}, the {other} and {n} more",
)


def sentence(draws: Draws, opening: str = "") -> str:
    """From 3 to some 45 words."""
    subject = opening or draws.choice([draws.choice(NAMES), f"The {noun(draws)}", _opening(draws)])
    said = f"{subject} {draws.choice(VERBS)} the {noun(draws)}"
    for _ in range(draws.integer(0, 3)):
        kind = draws.integer(0, 3)
        if kind == 0:
            said += f" {draws.choice(PLACES)}"
        elif kind == 1:
            said += f" {draws.choice(TIMES)}"
        elif kind == 2:
            said += f" of a {draws.choice(NAMES)}'s {noun(draws)}"
        else:
            said += (
                f", {draws.choice(JOINTS)} {draws.choice(OPENINGS).lower()} "
                f"{draws.choice(VERBS)} {draws.choice(['a', 'the', 'no'])} {noun(draws)}"
            )
    return said + draws.choice([".", ".", ".", ".", ".", "!", "?"])


def paragraph(draws: Draws) -> str:
    """From 1 to 8 sentences; in some, all begin with the same word or are of like length."""
    n = draws.integer(1, 8)
    if draws.chance(0.06):
        word = draws.choice([*OPENINGS, *NAMES])
        return " ".join(sentence(draws, word) for _ in range(max(2, n // 2)))
    if draws.chance(0.3):
        sentences: list[str] = []
        low = draws.choice([10, 16])
        while len(sentences) < draws.integer(3, 4):
            found = sentence(draws)
            if low <= len(found.split()) <= 2 * low:
                sentences.append(found)
        return " ".join(sentences)
    return " ".join(sentence(draws) for _ in range(n))


def document(draws: Draws, characters: int) -> str:
    """Paragraphs between blank lines, folded at about 70 characters, with dirt among them."""
    parts: list[str] = []
    size = 0
    while size < characters:
        if draws.chance(0.12):
            part = draws.choice(DIRT).format(
                n=draws.integer(1, 2000), noun=draws.choice(NOUNS), other=draws.choice(NOUNS)
            )
        else:
            part = paragraph(draws)
            if draws.chance(0.1):
                words = part.split(" ")
                place = draws.integer(0, len(words) - 1)
                words[place] = f"_{words[place]}_ [{draws.integer(1, 99)}]"
                part = " ".join(words)
            part = folded(part)
        parts.append(part)
        size += len(part) + 2
    return "\n\n".join(parts) + "\n"


def folded(text: str) -> str:
    """A text in lines of about 70 characters."""
    lines = [""]
    for word in text.split(" "):
        if len(lines[-1]) + len(word) > 70:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)


def write_corpus(folder: Path, documents: int, characters: int, seed: int = 0) -> Path:
    """A folder of text files.

    characters: of each, at least.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(documents):
        text = document(Draws(seed, "corpus", number), characters)
        (folder / f"{number:04}.txt").write_text(text, encoding="utf-8")
    return folder


def write_words(path: Path, n: int = 4000, seed: int = 0) -> Path:
    """A word list: nouns, and compounds of a noun with another or a suffix."""
    draws = Draws(seed, "words")
    made = dict.fromkeys(NOUNS)
    while len(made) < n:
        made[draws.choice(NOUNS) + draws.choice(draws.choice([NOUNS, SUFFIXES]))] = None
    path.write_text("\n".join(made) + "\n", encoding="utf-8")
    return path


def noun(draws: Draws) -> str:
    """A noun, in two of three cases with an adjective."""
    said = draws.choice(NOUNS)
    return f"{draws.choice(ADJECTIVES)} {said}" if draws.chance(0.66) else said


def _opening(draws: Draws) -> str:
    return draws.choice(OPENINGS)
