"""Ranked search over the sections of the documentation's pages."""

import posixpath
import re
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from math import log2
from pathlib import Path
from typing import NamedTuple

import yaml

from harness.errors import ConfigError

WEIGHTS = {"title": 1.0, "heading": 8.0, "links": 5.0, "label": 0.3, "text": 1.0, "code": 0.5}
"""Of a word in the page's title, the section's heading, the texts of links to it, the first cell of
a table's row, and the whole passage, which is text or code."""
SYNONYM_WEIGHT = 0.9  # of a match of a synonym, against 1 for one of the word itself
PHRASE_WEIGHT = 0.5  # of two terms that are next to each other in the question and in a passage
LINK_WEIGHT = 0.12  # of each doubling of the number of links to a section
HEADING_SHARE_WEIGHT = 1.0  # of a heading of which all words match
COVERAGE_EXPONENT = 0.75  # of the share of the terms that a passage has
LEAST_SHARE = 0.3  # of the best score, below which a section is not listed
SHORTEST_STEM = 4  # letters of a word with synonyms, of which an ending may be removed
LONGEST_TERM = 3  # words of the longest term with synonyms

KNOWLEDGE = Path(__file__).with_name("search.yaml")
LINK = re.compile(r"\[([^][]+)\]\(([\w./-]*)(#[\w-]+)?\)")


class DocumentSection(NamedTuple):
    """A section of a page, without its subsections."""

    page: str  # the page's name, such as "tutorials/study"
    title: str  # the page's title
    heading: str
    level: int  # of the heading: 1 for the page's title
    lines: Sequence[str]

    @property
    def anchor(self) -> str:
        """The section's part of a link, as the documentation's site has it."""
        words = re.sub(r"[^\w\s-]", "", self.heading).strip().lower()
        return re.sub(r"[-\s]+", "-", words)

    @property
    def place(self) -> str:
        """The page's name if this is its first section, otherwise PAGE#ANCHOR."""
        return self.page if self.heading == self.title else f"{self.page}#{self.anchor}"


class Match(NamedTuple):
    """A section that answers a question."""

    section: DocumentSection
    context: str  # its best passage, from the first sentence with one of the words


def sections_of(page: str, title: str, text: str) -> Iterator[DocumentSection]:
    """Yield the sections of a page's Markdown. Lines before the first heading are no section."""
    section: DocumentSection | None = None
    lines: list[str] = []
    in_code = False
    for line in text.splitlines():
        in_code ^= line.startswith("```")
        if line.startswith("#") and not in_code:
            if section is not None:
                yield section
            heading = line.lstrip("#")
            lines = []
            section = DocumentSection(page, title, heading.strip(), len(line) - len(heading), lines)
        else:
            lines.append(line)
    if section is not None:
        yield section


class SectionIndex:
    """A full-text index of sections, ranked by BM25 (SQLite's FTS5) on Porter's stems.

    What other sections call a section when they link to it counts, as in a search of the web, and
    so does the number of these links.

    Args:
        sections: The sections to search.

    Raises:
        ConfigError: If Python's SQLite has no full-text search.
    """

    def __init__(self, sections: Iterable[DocumentSection]) -> None:
        knowledge = yaml.safe_load(KNOWLEDGE.read_text("utf-8"))
        self._synonyms = {str(term): words for term, words in knowledge["synonyms"].items()}
        self._stop_words = frozenset(knowledge["stop_words"].split())
        self._page_weights: dict[str, float] = knowledge["weights"]
        self._sections = list(sections)
        self._links = _texts_of_links(self._sections)
        self._database = sqlite3.connect(":memory:")
        columns = ", ".join(WEIGHTS)
        tokenizer = "porter unicode61 remove_diacritics 2"
        try:
            self._database.execute(
                f"CREATE VIRTUAL TABLE passage USING fts5({columns}, tokenize='{tokenizer}')"
            )
        except sqlite3.OperationalError as error:
            problem = f"Python's SQLite cannot search texts ({error})."
            raise ConfigError(problem, "'harness docs' lists the pages.") from error
        self._passages = list[tuple[int, str]]()  # the section's number, and the text
        rows = []
        for number, section in enumerate(self._sections):
            links = "\n".join(self._links[section.place])
            for passage, is_code in passages_of(section):
                place = len(self._passages)
                self._passages.append((number, passage))
                label = passage.split("|")[1] if passage.startswith("|") else ""
                text = passage.replace("or example,", "")  # "for example" is not about examples
                texts = ("", text) if is_code else (text, "")
                rows.append((place, section.title, section.heading, links, label, *texts))
        self._database.executemany(
            f"INSERT INTO passage(rowid, {columns}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            rows,
        )

    def search(self, text: str) -> list[Match]:
        """Return the sections that answer a question, best first.

        A section counts with its best passage, and each term of the question with its best match
        there: that of the word, or that of one of its synonyms.
        """
        terms = terms_of(text, self._synonyms, self._stop_words)
        totals: dict[int, float] = defaultdict(float)  # by passage
        of_headings: dict[int, float] = defaultdict(float)  # the part of terms in the heading
        n_terms: dict[int, int] = defaultdict(int)
        n_in_heading: dict[int, int] = defaultdict(int)
        for alternatives in terms:
            in_heading = self._in_headings(alternatives)
            for place, score in self._best_scores(alternatives).items():
                totals[place] += score
                n_terms[place] += 1
                if place in in_heading:
                    of_headings[place] += score
                    n_in_heading[place] += 1
        for first, second in pairwise(terms):
            phrase = f"{first[0]} {second[0]}"
            for place, score in self._best_scores([phrase]).items():
                totals[place] += PHRASE_WEIGHT * score
        best: dict[int, tuple[float, int]] = {}  # by section: its best score and passage
        for place, total in totals.items():
            number, _ = self._passages[place]
            section = self._sections[number]
            heading_words = set(section.heading.lower().split()) - self._stop_words
            share = min(1.0, n_in_heading[place] / max(1, len(heading_words)))
            score = total + HEADING_SHARE_WEIGHT * share * of_headings[place]
            score *= (n_terms[place] / len(terms)) ** COVERAGE_EXPONENT
            score *= 1 + LINK_WEIGHT * log2(1 + len(self._links[section.place]))
            score *= self._page_weights.get(section.page, 1.0)
            if number not in best or score > best[number][0]:
                best[number] = (score, place)
        order = sorted(best, key=lambda number: (-best[number][0], number))
        words = [alternative for alternatives in terms for alternative in alternatives]
        matches = []
        for number in order:
            score, place = best[number]
            if score >= LEAST_SHARE * best[order[0]][0]:
                context = context_of(self._passages[place][1], words)
                matches.append(Match(self._sections[number], context))
        return matches

    def suggestions(self, text: str) -> list[str]:
        """Return words of headings, and words that have synonyms, similar to those of a text."""
        words = set(self._synonyms)
        for section in self._sections:
            words.update(re.findall(r"[a-z]{3,}", section.heading.lower()))
        similar: list[str] = []
        for word in text.lower().split():
            similar += get_close_matches(word, sorted(words), n=2, cutoff=0.7)
        return list(dict.fromkeys(similar))

    def _best_scores(self, alternatives: Sequence[str]) -> dict[int, float]:
        best: dict[int, float] = defaultdict(float)
        for place, term in enumerate(alternatives):
            weight = SYNONYM_WEIGHT if place else 1.0
            weights = ", ".join(map(str, WEIGHTS.values()))
            rows = self._database.execute(
                f"SELECT rowid, -bm25(passage, {weights}) FROM passage WHERE passage MATCH ?",  # noqa: S608
                (_quoted(term),),
            )
            for number, score in rows:
                best[number] = max(best[number], weight * score)
        return best

    def _in_headings(self, alternatives: Sequence[str]) -> set[int]:
        terms = " OR ".join(map(_quoted, alternatives))
        rows = self._database.execute(
            "SELECT rowid FROM passage WHERE passage MATCH ?", (f"heading: ({terms})",)
        )
        return {number for (number,) in rows}


def _quoted(term: str) -> str:
    return '"' + term.replace('"', " ") + '"'


def _texts_of_links(sections: Sequence[DocumentSection]) -> Mapping[str, list[str]]:
    """Return the texts of the links to each section, by the section's place."""
    titles = {section.page: section for section in sections if section.heading == section.title}
    texts: dict[str, list[str]] = defaultdict(list)
    for section in sections:
        folder = posixpath.dirname(section.page)
        for text, file, anchor in LINK.findall(" ".join(section.lines)):
            page = posixpath.normpath(posixpath.join(folder, file)) if file else section.page
            page = page.removesuffix(".md")
            place = f"{page}{anchor}"
            if page in titles and anchor == f"#{titles[page].anchor}":
                place = page
            texts[place].append(text)
    return texts


def terms_of(
    text: str, synonyms: Mapping[str, Sequence[str]], stop_words: Collection[str]
) -> list[list[str]]:
    """Return the terms of a question, each with its synonyms.

    A term is a word, or several words that have synonyms together. Stop words, such as "how" and
    "the", are left out, unless there are no others.
    """
    words = [word.strip(".,:;?!'\"()") for word in text.lower().split()]
    words = [word for word in words if re.search(r"\w", word)]
    terms: list[list[str]] = []
    skipped: list[list[str]] = []
    start = 0
    while start < len(words):
        for length in range(LONGEST_TERM, 0, -1):
            term = " ".join(words[start : start + length])
            entry = _entry(term, synonyms)
            if entry is not None or length == 1:
                break
        if entry is None and term in stop_words:
            skipped.append([term])
        else:
            terms.append([term, *synonyms.get(entry or "", ()), *_family_of(term)])
        start += len(term.split())
    return terms or skipped


def _family_of(term: str) -> list[str]:
    """Return the letters before a version, such as "gpt" for "gpt-4o"."""
    name = re.fullmatch(r"([a-z]{3,})[-.]?\d.*", term)
    return [name[1]] if name else []


def _entry(term: str, synonyms: Mapping[str, Sequence[str]]) -> str | None:
    """Return a term as it is in the table of synonyms, perhaps without an ending, or None."""
    if term in synonyms:
        return term
    for ending in ("s", "es", "d", "ed", "ing"):
        stem = term.removesuffix(ending)
        if len(stem) >= SHORTEST_STEM and stem in synonyms:
            return stem
    return None


def passages_of(section: DocumentSection) -> Iterator[tuple[str, bool]]:
    """Yield the paragraphs, rows of tables, items of lists and blocks of code of a section.

    Each comes with whether it is a block of code.

    Blocks of text, which show what a command prints, are left out.
    """
    lines: list[str] = []
    in_code = False
    is_output = False
    for line in [*section.lines, ""]:
        is_fence = line.startswith("```")
        is_start = not line.strip() or line.startswith(("|", "- "))
        if lines and (is_fence or (is_start and not in_code)):
            yield "\n".join(lines), in_code
            lines = []
        if is_fence:
            in_code = not in_code
            is_output = line.startswith("```text")
        elif line.strip() and not is_output and not re.fullmatch(r"[|:\s-]+", line):
            lines.append(line)


def context_of(passage: str, terms: Sequence[str]) -> str:
    """Return a passage from its first sentence or line of code with one of the terms.

    If there is none, or if the passage is a row of a table, return all of it.
    """
    if passage.startswith("|"):
        return passage
    stems = [re.escape(term[:-1] if len(term) > SHORTEST_STEM else term) for term in terms]
    pattern = re.compile("|".join(rf"\b{stem}" for stem in stems), re.IGNORECASE)
    sentences = re.split(r"(?<=[.]) +|\n(?=harness )", passage.replace(".\n", ". "))
    for number, sentence in enumerate(sentences):
        if pattern.search(sentence):
            return " ".join(sentences[number:])
    return passage
