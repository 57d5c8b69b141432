"""The 13 constraint structures of COLLIE-v1 (arXiv 2307.08689, table 1), and what they ask."""

STRUCTURES = {
    "word01": "at least n characters",
    "word02": "exactly n characters, of which the 4th, 8th and 11th are given",
    "word03": "exactly n characters, of which the last is given",
    "sent01": "exactly n characters",
    "sent02": "exactly n words, of which the 4th, 8th and 11th are given",
    "sent03": "at least n words of at most m characters",
    "sent04": "contains three given words",
    "para01": "every sentence begins with a given word",
    "para02": "exactly n sentences without any of three given words",
    "para03": "exactly n sentences of at least m and at most k words",
    "para04": "at least n sentences of at least m words",
    "para05": "exactly n sentences that end in given words",
    "pass01": "paragraphs that end in given sentences and have at least n of them",
}
