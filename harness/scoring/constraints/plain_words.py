"""A shortcut to the words of plain English text, equal to NLTK's to the letter.

NLTK's word tokeniser runs some twenty-five substitutions over each sentence, and
in plain text hardly one of them finds anything to do. `plain_words` recognises
text where all they do comes to this: marks are cut off and dropped, double
quotes become words of their own, and clitics (``'s``, ``n't``) come off. The rest
(``5,000``, ``--``, ``...``, ``cannot``, ``'tis``, letters beyond ASCII, a quote
glued to a sentence's end) is declined, and NLTK itself is asked. The tests hold
the two against each other.

Nor does it matter in such text where sentences end: COLLIE drops a word's final
period whether NLTK cuts it off or not, and where a clitic stands before one, the
text is declined.

>>> plain_words("It's two miles (or so) to St. Ives.")
['It', "'s", 'two', 'miles', 'or', 'so', 'to', 'St', 'Ives']
>>> plain_words("Wait...") is None
True
"""

from __future__ import annotations

import re
import string

MARKS = str.maketrans(dict.fromkeys(",:;?!@#$%&()[]", " "))
"""NLTK makes tokens of these, and COLLIE does not count them as words."""

NOT_PLAIN = re.compile(
    r"""
      [^A-Za-z0-9\ \n.,:;?!@\#$%&()\[\]"'-]     # any other character
    | \.\. | -- | "" | \n"
    | (?<![A-Za-z])' | '(?![A-Za-z])            # an apostrophe that is not inside a word
    | [,:](?![ \n"]|\Z)                         # glued to what follows, as in 5,000
    | (?<![ (\[])(?<!\A)"(?![ \n,;:?!.)\]]|\Z)  # neither opens nor closes
    | (?<=[.?!])"(?![ \n]|\Z)                   # glued to what follows a sentence's end
    """,
    re.VERBOSE,
)

JOINED = ("cannot", "gimme", "gonna", "gotta", "lemme", "wanna")
"""NLTK cuts these in two."""

OPENING_QUOTE = re.compile(r'(?:\A|(?<=[ (\[]))"')

CLITIC = re.compile(r"(.+)('(?:[sSmMdD]|ll|LL|re|RE|ve|VE)|n't|N'T)")


def plain_words(text: str) -> list[str] | None:
    """The words of plain text without their outer periods, None where it is not plain."""
    if NOT_PLAIN.search(text):
        return None
    lowered = text.lower()
    if any(word in lowered for word in JOINED):
        return None
    if '"' in text:
        text = OPENING_QUOTE.sub(" `` ", text).replace('"', " '' ")
    tokens = text.translate(MARKS).split()
    if "'" in text:
        parted = _without_clitics(tokens)
        if parted is None:
            return None
        tokens = parted
    # Of marks alone, only those are left that NLTK leaves: ``, '', - and the like.
    return [token.strip(".") for token in tokens if token not in string.punctuation]


def _without_clitics(tokens: list[str]) -> list[str] | None:
    parted: list[str] = []
    for word in tokens:
        if "'" not in word or word == "''":
            parted.append(word)
            continue
        clitic = CLITIC.fullmatch(word)
        if clitic is None or word.count("'") > 1:
            return None
        parted += clitic.groups()
    return parted
