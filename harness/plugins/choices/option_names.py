"""The options that a text names, by their letters or their texts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from string import ascii_uppercase
from typing import NamedTuple

from harness.scoring.conclusions import (
    ASIDE,
    CORRECTION,
    CROSSES,
    is_conditional,
    is_quoted,
    is_remark,
    is_retracted,
    is_sample,
    strip_markup,
)

LONGEST_KIND = 12  # characters before an option, such as "the option "
LONGEST_STATEMENT = 120  # characters of a sentence that names the only option
WHOLE = (  # after a letter that is not part of a longer name, such as C++, C-14, B.C. or A's
    r"(?![A-Za-z0-9+#_]|-\w|\.[A-Za-z](?![a-z])|['\u2019](?![dt][i\u0131uü]r)[A-Za-z])"
)
_WRONG = (  # words of other languages
    r"(?:falsch\w*|fau(?:x|sse)|incorrect[aoe]?s?|errón\w+|errad[ao]|incorret[ao]|sbagliat[ao]|errat[ao]|scorrett[ao]|błędn\w+|niepoprawn\w+"
    r"|fout|onjuist|verkeerd|fel(?:aktig\w*)?|forkert|feil|yanl\u0131ş\w*|salah|sai|неверн\w*|неправильн\w*|ошибочн\w*|невірн\w*)(?!\w)"
)
DENIED = re.compile(
    r"[^\S\n]*(?:(?:is|was|are)\s*)?(?:n['\u2019]t|wrong|incorrect|false|not(?!\s+[A-Z]\b))\b"
    rf"|(?:[^\S\n]|[-\u2013—:(,])*(?:(?:wrong|incorrect|false|nope|nah|no(?=\s*(?:[.,;)]|\n|\Z)))\b|[{CROSSES}])"
    r"|[\s、]*(?:[がは]?(?:では?(?:な[いく]|ありません)|じゃな[いく])|[가이은는]?\s?아[니닌닙]|नहीं|değil)"
    r"|(?:,\s*(?:of\s+course|obviously|clearly|certainly|however),)?\s+is\s+(?:\w+ly\s+)?(?:wrong|incorrect|false|out|off|eliminated|excluded|rejected|ruled\s+out|(?:the\s+)?worst"
    r"|an?\s+(?:(?:\w+\s+)?(?:distractor|trap|decoy|red\s+herring)|(?:bad|poor|wrong)\s+\w+))\b"
    r"|\s+is\s+what\b(?!\s+I\b)|,\s+I\s+(?:guess|think|suppose)\s+not\b"
    r"|(?<!\bno)(?<!false)(?<!wrong)[^\S\n]*[-\u2013—:(,]+[^\S\n]*(?:(?:but\s+)?(?:(?<!,\s)(?:this|that|it)|(?<=but\s)(?:this|that|it)|which)\s+)?"
    r"(?:(?:is|was|seems|looks)\s+)?(?:\w+ly\s+)?(?:(?:wrong|incorrect|false)\b|(?:not|isn['\u2019]t)\s+(?:the\s+)?(?:correct|right|true)\b)"
    r"|\s+(?:is|was|seems)\s+(?:\w+ly\s+)?(?:an?|the)\s+(?:\w+\s+){0,2}?(?:common|popular|frequent|typical|tempting)\s+(?:\w+\s+)?"
    r"(?:misconception|mistake|error|choice|answer|trap|pick|guess)\b"
    rf"|[^\S\n]*(?:[-\u2013—:(,\uff08\uff0c]+[^\S\n]*)?(?:(?:ist|est|es|é|è|está|jest|är|er|это|cevab\u0131)\s+)?{_WRONG}"
    rf"|[^\S\n]+is\s+(?:fout|onjuist|verkeerd)\b"
    r"|[\s(\uff08\uff0c、]*(?:选项|選項|答案)?[是也显顯然都很]{0,3}(?:[错錯]|不(?:正确|正確|对|對)|误|誤(?!り))"
    r"|[\s(\uff08、]*(?:は|が|の選択肢は|を選ぶのは)?(?:誤り|間違|まちが|不正解)"
    r"|[\s(]*(?:번)?\s?[은는이가]?\s?(?:정답[이은]?\s?(?:아[니닙닌])|오답|틀[렸린리])"
    r"|[\s(]*(?:هو\s+|هي\s+)?(?:خاطئ|خطأ|غير\s+صحيح|ليس)|[\s(]*(?:\S{1,10}\s+)?(?:ग़?लत)",
    re.I,
)
_COMPARES = re.compile(r"\b(?:better|more|most)\b", re.I)
_PREFERRED_TO = re.compile(  # after an option
    r"[)\]]?(?:,\s+not\s+(?:option\s+)?\w+,)?[^\S\n]+(?:(?:is|seems|looks|appears|feels|(?:would|might|may|could)\s+be)\s+(?:to\s+be\s+)?(?:\w+ly\s+|much\s+|far\s+|the\s+|an?\s+){0,2}"
    r"(?:(?:more|most)\s+(?:appropriate|accurate|suitable|fitting|plausible|precise|correct|likely(?!\s+to\b))"
    r"|better(?:\s+suited)?(?:\s+(?:\w+\s+)?(?:answer|option|choice|fit|match|one))?)"
    r"|(?:fits|suits|matches|works)\s+(?:\w+\s+){0,3}?better)\b"
    r"(?!\s+(?:if|when|unless)\b)(?:(?P<than>[^.!?\n]{0,30}?\sthan\s+)|(?=[^.!?\n]{0,40}(?:[.!?\n]|\Z)))",
    re.I,
)
_AFFIRMED = re.compile(r"(?:[^\S\n]|[-\u2013—:(])+(?:(?:correct|right|true|yes)\b|[✓✔✅])", re.I)
NOT = re.compile(r"(?:\bnot|n['\u2019]t|\bneither|\bnor)\s+(?:be\s+|the\s+)?\Z", re.I)
LABEL = re.compile(r"(?:[ .:,)/=\-\u2013—]|\bwhich\s+is\b|\bi\.e\.)*")
KIND = (
    r"vitamin|hepatitis|influenza|plan|type|group|grade|class|category|difficulty|confidence|level"
    r"|rating|score|figure|table|section|part|team|point|angle|vertex|side|line|set|event|node"
)
_OF_A_KIND = re.compile(rf"\b(?:{KIND})s?(?:\s+(?:is|was)|\s*:)?\s+\Z", re.I)
_INITIAL = re.compile(r"\.\s(?!(?:The|It|Its|This|That|Because|Since|As|In|A|An|I)\b)[A-Z][a-z]")
_CAPITALISED = re.compile(r"\b[A-Z][\w.]*[^\S\n]\Z")
PREFERRED = re.compile(
    r"\s*(?:[.!;)\]。\uff01\uff1b]|\n|\Z|です|だ|(?:is|seems)\s+(?:better|best|right|correct|the)\b)"
)
_CLAUSE_END = re.compile(r"[,;.!]\s|[^\S\n]*\n\s*\S")
_SENTENCE_END = re.compile(r"[.!?](?=\s|\Z)|[\n。\uff01\uff1f।؟]")
_EXPLAINS = re.compile(  # words of English, whose corrections are known
    r"\b(?:the|and|are|because|its|this|these|with|has|have|which|would|only|than|if|while"
    r"|also|less|some|might|may|could|one|is\s+it|why|how|to\s+be|is\s+(?:a|in|not))\b",
    re.I,
)
_BELIEVED = re.compile(
    r",?\s+(?:which|and)\s+(?:I\s+\w+\s+)?(?:that\s+)?(?:is|seems)\s+(?:right|correct|better)\b",
    re.I,
)
_DENIES = re.compile(  # words of other languages, after the option that they deny
    r"\b(?:falsch|faux|fausse|pas|niet|nicht|fout|onjuist|incorrect[aoe]?s?|fals[oa]|errad[oa]"
    r"|sbagliat[oa]|błędn\w*|не|неверн\w*|неправильн\w*|yanl\u0131ş|değil|गलत|नहीं|خطأ|ليس\w*"
    r"|salah|bukan|sai|fel|inte)\b|[错錯误誤不]|틀|아니|ない|ผิด",
    re.I,
)
_DOUBT = re.compile(
    r"\b(?:not|no|never|hardly|barely|refus\w+|declin\w+|den(?:y|ie[sd])|reject\w*|discard\w*|disput\w+|object\w*|forget|skip|bad|distractors?|neither|nor|cannot|wrong|incorrect|false|least|unlikely|(?<!without\sa\s)doubt\w*|tempting"
    r"|eliminat(?:es?|ed|ing)|exclud\w+|except|rul\w+\s+out|might|may|maybe|perhaps|could|if|unless|whether"
    r"|before|until|formerly|than|instead|either|avoid|disagree|fails?|opposite|starts?|begins?|your|old|but(?=\s+[A-Z]\b)|pas|nicht|kein\w*|niet|geen|inte|ikke|ingen|όχι|não|non|не|нет|không|bukan|tidak|değil|nie|není|nu|δεν"
    r"|ei|לא|نیست|ليس|ليست)\b|n['\u2019]t\b|[?\uff1f≠❌✗✘✖不没非]|ない|ません|아니|नहीं|ไม่",
    re.I,
)
_POSSIBLY = re.compile(r"\b(?:could|might|may|maybe|perhaps|possibly|sure|whether)\b", re.I)
_IN_PASSING = re.compile(
    r"\s(?!(?:sagen|wählen|nehmen|is|it|seems|looks|because|since|as|which|and|but)\b)[a-z]"
)
_ASSERTED = re.compile(
    r"\s*(?:[.!;)\]]|\n|\Z|,\s+(?:of\s+course|because|since|I)\b"
    r"|is\s+(?:the\s+)?(?:(?:only|best)\s+)?(?:correct|right|answer)\b)"
)
_LINKED = re.compile(
    r"(?:\A\W*(?:\w+\W+)?|\A\W*(?:the|this)\s+(?!question|problem|task|other)\w+\s+is\s+(?:\w+ly\s+)?about\s+(?:an?\s+|the\s+)?|,\s+|\b(?:is|are|was|be|must\s+be)\s+(?:the\s+)?)\Z",
    re.I,
)
_IS_THE_ONE = re.compile(  # after an option that begins a reply of one sentence
    r"\s+is\s+the\s+(?!(?:same|opposite|name|least|wrong|other|alternative|usual|old|former|first|last|second|third|next|most\s+\w+\s+(?:answer"
    r"|choice|option))\b)[^.,;:!?\n]{1,80}[.!]?\s*\Z"
)
_LETTERED = re.compile(r"\w\s[A-Z]\b")
_CONTINUED = re.compile(r"[^\W_]|[.,:/^]\d|\s(?:hundred|thousand|million|billion)\b", re.I)
_VERBS = (  # words that do not follow an article
    r"is|it\s+is|was|are|seems|fits|works|makes|and|or|nor|because|since|ist|wäre|stimmt|est|es|é|è|jest|är"
    r"|on|olmal\u0131|doğru|richtig|juist|correct|right|better"
)

_JUDGED_LABEL = re.compile(
    r"(?:^|[\n,;。\uff0c]\s*)[\W_]{0,4}?(?:选项\s*)?([A-Z])"
    r"(?=[.):,、]|\s*(?:选项|選項)|\s+[-\u2013—:]|\s*[正错錯])",
    re.M,
)
_CALLED_RIGHT = re.compile(
    r"[✅✓✔]|\b(?:correct|right|true|yes|richtig|vrai|correcto|correcta|verdadero|correto|corretto|vero"
    r"|juist)\b|正确|正確|对|對|正しい",
    re.I,
)
_CALLED_WRONG = re.compile(
    rf"[{CROSSES}]|\b(?:incorrect|wrong|false|no|not\s+(?:correct|right|true)|falsch|faux|incorrecto|incorrecta"
    r"|falso|incorreto|errado|sbagliato|onjuist|fout)\b|不正确|不正確|不对|不對|[错錯](?:误|誤)?|間違い|正しくない",
    re.I,
)


class Mention(NamedTuple):
    """An option that a text names, by its letter or its text."""

    start: int
    end: int
    letter: str
    spelt: bool
    denied: bool


def bare_text(text: str) -> str:
    """Return a text in lower case without markup, repeated spaces and final full stops."""
    return " ".join(strip_markup(text).lower().split()).rstrip(".!。")


class OptionNames:
    """The names of a question's options, and what a text says about the options it names."""

    def __init__(self, choices: Sequence[str]) -> None:
        self._letters = ascii_uppercase[: len(choices)]
        self._longest = 2 * max(map(len, choices)) + 40
        bare = [bare_text(choice) for choice in choices]
        single = {text for text in bare if text and bare.count(text) == 1}
        self._texts = {
            text: letter
            for text, letter in zip(bare, self._letters, strict=True)
            if text in single and text.upper() not in {*self._letters}
        }
        names = [re.escape(text) for text in sorted(self._texts, key=len, reverse=True)]
        if "no" in names:
            names[names.index("no")] = r"no(?!\s+\w)"  # "no idea" names no option
        spelt = "|".join(names) or r"(?!)"
        article = r"(?:(?<=I)|(?<=\AA)|(?<=[.!?:\n]A)|(?<=[.!?:\n]\sA))"
        word = rf"{article}\s+(?!(?:{_VERBS})\b)[a-z\u00df-\u024f]"
        self._option_names = re.compile(
            rf"(?<!\w)(?<!\d[.,])(?!(?<=[-\u2212])\d)(?i:({spelt}))(?!\w|[.,]\d)"
            rf"|(?<![A-Za-z0-9'\u2019.+-])([{self._letters}]){WHOLE}(?!{word})"
        )
        self._lettered = any(_LETTERED.search(choice) for choice in choices)

    def _spelt(self, text: str, start: int) -> tuple[str, int]:
        """Return the letter of the option whose text is at an offset, or "", and its end."""
        line = text[start : start + self._longest].partition("\n")[0].lower()
        options = [
            option
            for option in self._texts
            if line.startswith(option) and not _CONTINUED.match(line, len(option))
        ]
        if not options:
            return "", start
        longest = max(options, key=len)
        return self._texts[longest], start + len(longest)

    def _opening(self, text: str, start: int) -> str:
        """Return the letter of the option whose text opens the sentence at an offset, or "".

        That sentence is the first of the reply: "No, it is odd, so yes, …" chooses nothing.
        """
        letter, end = self._spelt(text, 0)
        is_same_sentence = _SENTENCE_END.search(text, end, start) is None
        return letter if text.startswith(",", end) and is_same_sentence else ""

    def _first_words(self, text: str) -> str:
        """Return the letter of the option whose text opens a reply that names no other, or ""."""
        letter, end = self._spelt(text, 0)
        if not letter or not _CLAUSE_END.match(text, end):
            return ""
        letters = {mention.letter for mention in self._mentions(text) if not mention.denied}
        return letter if letters == {letter} else ""

    def _mentions(self, text: str) -> list[Mention]:
        mentions = []
        for match in self._option_names.finditer(text):
            letter = self._texts[bare_text(match[1])] if match[1] else match[2]
            before = text[max(0, match.start() - 30) : match.start()]
            if match[2] and (_OF_A_KIND.search(before) or self._is_initial(text, match)):
                continue
            label = LABEL.match(text, match.end())
            spelt_letter, end = self._spelt(text, label.end() if label else match.end())
            if spelt_letter != letter:
                end = match.end()
            closed = end + text.startswith((")", "]"), end)
            denied = NOT.search(before) or DENIED.match(text, end) or DENIED.match(text, closed)
            mentions.append(Mention(match.start(), end, letter, bool(match[1]), bool(denied)))
        return mentions

    def _preferred(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the offset and the letter of each option that a sentence calls better.

        The sign ">" follows it, and the letter of the other option that the sentence names.
        """
        if _COMPARES.search(text) is None:
            return
        mentions = self._mentions(text)
        for mention, next_mention in zip_longest(mentions, mentions[1:]):
            match = _PREFERRED_TO.match(text, mention.end)
            if match is None or mention.denied or is_remark(text, mention.start, match.end()):
                continue
            if match["than"] is None:
                yield mention.start, f"{mention.letter}>"
                continue
            is_named = next_mention is not None and next_mention.start <= match.end() + LONGEST_KIND
            yield mention.start, f"{mention.letter}>{next_mention.letter if is_named else '?'}"

    def _is_initial(self, text: str, match: re.Match[str]) -> bool:
        """Return whether a letter is one of a name, as in "John B. Smith"."""
        if not _INITIAL.match(text, match.end()) or self._spelt(text, match.end() + 2)[0]:
            return False
        return bool(_CAPITALISED.search(text[max(0, match.start() - 30) : match.start()]))

    def _corrected(self, text: str, start: int, letter: str) -> str:
        """Return the letter that corrects a choice at an offset, "" if unclear, or the choice."""
        mentions = self._mentions(text)
        marks = [match.end() for match in CORRECTION.finditer(text, start)]
        if not marks:
            return "" if _is_contradicted(text, start, letter, mentions) else letter
        last = next(
            (mark for mark in reversed(marks) if mentions and mentions[-1].start >= mark), len(text)
        )
        later = [mention for mention in mentions if mention.start >= last]
        if not later:
            return "" if _is_contradicted(text, start, letter, mentions) else letter
        sentence = _SENTENCE_END.search(text, later[0].end)
        end = sentence.end() if sentence else len(text)
        later = [mention for mention in later if mention.start < end]
        options = {mention.letter for mention in later if not mention.denied}
        if not options:
            return "" if any(mention.letter == letter for mention in later) else letter
        if options == {letter}:
            return letter
        if len(options) > 1 or is_conditional(text, later[0].start):
            return ""
        is_doubtful = _POSSIBLY.search(text, last, later[0].start) is not None
        is_clear = PREFERRED.match(text, later[0].end) and not is_doubtful
        return options.pop() if is_clear else ""

    def _alone(self, text: str) -> str:
        """Return the only option that a text names or affirms, or does not deny, or ""."""
        mentions = self._mentions(text)
        affirmed = {mention.letter for mention in mentions if _AFFIRMED.match(text, mention.end)}
        denied = {mention.letter for mention in mentions if mention.denied}
        letters = {mention.letter for mention in mentions} - denied
        if denied and len(affirmed) == 1 and affirmed.isdisjoint(denied):
            return affirmed.pop()
        if len(letters) != 1 or len(denied) not in (0, len(self._letters) - 1):
            return ""
        (letter,) = letters
        if denied:
            return letter
        outer = (mentions[0], mentions[-1])
        return letter if any(self._is_stated(text, mention) for mention in outer) else ""

    def _judged(self, text: str) -> str:
        """Return the only option that a text calls right, if it calls each other one wrong."""
        labels = list(_JUDGED_LABEL.finditer(text))
        if "".join(label[1] for label in labels) != self._letters:
            return ""
        right = []
        for number, label in enumerate(labels):
            next_start = labels[number + 1].start() if number + 1 < len(labels) else len(text)
            judgement = text[label.end() : next_start].strip(" \n,;.")
            is_wrong = _CALLED_WRONG.search(judgement) is not None
            is_right = _CALLED_RIGHT.search(_CALLED_WRONG.sub("", judgement)) is not None
            if is_wrong == is_right or "\n" in judgement:
                return ""
            if is_right:
                right.append(label[1])
        return right[0] if len(right) == 1 else ""

    def _lists_options(self, text: str) -> bool:
        """Return whether a text lists all options, in their order, and says something of each."""
        labels = "".join(label[1] for label in _JUDGED_LABEL.finditer(text))
        return len(labels) > 1 and labels == self._letters

    def _is_called_wrong(self, text: str) -> bool:
        """Return whether a text consists of a letter and a word such as "False"."""
        letter = _JUDGED_LABEL.match(text)
        if letter is None:
            return False
        verdict = text[letter.end() :].strip(" .:-)\n")
        is_wrong = _CALLED_WRONG.fullmatch(verdict) is not None
        return is_wrong and self._texts.get(bare_text(verdict)) != letter[1]

    def _is_stated(self, text: str, mention: Mention) -> bool:
        """Return whether the first or last sentence of a text states an option without doubt."""
        start = 0
        for match in _SENTENCE_END.finditer(text, 0, mention.start):
            start = match.end()
        ending = _SENTENCE_END.search(text, mention.end)
        end = ending.end() if ending else len(text)
        if end - start > LONGEST_STATEMENT:
            return False
        if is_sample(text, mention.start):
            return False
        if is_quoted(text, mention.start) or is_retracted(text, mention.end):
            return False
        if is_remark(text, mention.start, mention.end):
            return False
        for doubt in _DOUBT.finditer(text, start, end):  # an option may be "False"
            if not mention.start <= doubt.start() < mention.end:
                return False
        if ASIDE.search(text[start : mention.start].rstrip(" :\n-•*")):
            return False
        if mention.spelt:
            if not text[: mention.start].strip() and _IS_THE_ONE.match(text, mention.end):
                return True
            linked = _LINKED.search(text[start : mention.start])
            return bool(linked and _ASSERTED.match(text, mention.end) and not text[end:].strip())
        if self._lettered or _IN_PASSING.match(text, mention.end):
            return False
        return not text[:start].strip() or not text[end:].strip()


def _is_contradicted(text: str, start: int, letter: str, mentions: Sequence[Mention]) -> bool:
    """Return whether a sentence after the choice may correct it in words of any language.

    Such a sentence takes the choice back without naming another option. Or it names the only other
    option that is named after the choice, and the words around it neither explain nor deny it.
    """
    ending = _SENTENCE_END.search(text, start)
    if ending is None:
        return False
    later = [mention for mention in mentions if mention.start >= ending.end()]
    others = {mention.letter for mention in later if not mention.denied} - {letter}
    if all(mention.letter == letter for mention in later):
        rest = text[ending.end() :]
        for mention in reversed(later):  # an option may be "No"
            if mention.spelt:
                rest = rest[: mention.start - ending.end()] + rest[mention.end - ending.end() :]
        return is_retracted(rest, 0)
    if len(others) != 1:
        return False
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    by_sentence: dict[int, list[Mention]] = defaultdict(list)
    for mention in later:
        by_sentence[bisect_right(ends, mention.start)].append(mention)
    for number, in_sentence in by_sentence.items():
        sentence_end = ends[number] if number < len(ends) else len(text)
        if {mention.letter for mention in in_sentence} != others:
            continue
        introduction = text[max(0, ends[number - 1] - LONGEST_STATEMENT) : in_sentence[0].start]
        if _BELIEVED.match(text, in_sentence[0].end):
            return True
        is_explained = (
            ASIDE.search(introduction.rstrip(" :\n-•*"))
            or is_remark(text, in_sentence[0].start, in_sentence[-1].end)
            or _EXPLAINS.search(text, ends[number - 1], sentence_end)
            or _DENIES.search(text, in_sentence[0].end, sentence_end)
        )
        if not is_explained:
            return True
    return False
