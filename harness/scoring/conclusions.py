"""The statement in which a reply ends: its last one, without what the reply quotes.

A reply may reason, correct itself and quote other texts before it states its answer. Every reader
of options, verdicts and scores finds statements here, and decides only which ones are valid.
An earlier statement never stands in for a last one that is not valid.

>>> [statement.text for statement in statements("The answer is A. Correction: B")]
['A', 'B']
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

MAX_INTRODUCTION_CHARS = 100  # characters before a quotation that may introduce it
MAX_CLAUSE_CHARS = 60  # characters before an announcement that may withdraw it
MAX_SENTENCE_CHARS = 200  # characters of a statement
MAX_LABELS = 100  # repetitions of an answer's label that are read

# Full-width signs, letters in circles and mathematical letters.
_FORMS = [*range(0xFF01, 0xFF5F), 0x3000, *range(0x24B6, 0x24EA), *range(0x1D400, 0x1D800)]
ASCII_FORMS = {code: unicodedata.normalize("NFKC", chr(code)) for code in _FORMS}
_UNMARKED = ASCII_FORMS | dict.fromkeys(map(ord, "*_`"), " ")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{|<(?:final_?)?answer>", re.I)
_MARKUP = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf)\s*\{|\\[()\[\]]|</?(?:[a-z]|\w\w{1,20})>|<\|\w{1,30}\|>|[*_`\"“”„«»「」$}]"
)
_SPACES = re.compile(r"\s++")
_STRUCK_OUT = re.compile(
    r"~~(?P<plain>[^~\n]+)~~|<(?P<tag>s|del|strike)>(?P<tagged>[^<]*)</(?P=tag)>"
    r"|(?:\S\u0336)+(?:[ \t]+(?:\S\u0336)+)*"
)
CROSSES = "❌❎✗✘✖👎🚫⛔"  # signs that deny what they stand beside


def strip_markup(text: str, boxed: str = "") -> str:
    r"""Return text without emphasis, LaTeX commands, tags, double quotes and repeated spaces.

    ``boxed`` replaces the beginning of a ``\boxed{…}``.
    """
    bare = _MARKUP.sub("", _BOXED.sub(boxed, text.translate(ASCII_FORMS)))
    # Long runs of line breaks, which models repeat endlessly, would make searches quadratic.
    return _SPACES.sub(lambda run: "\n" * min(run[0].count("\n"), 2) or " ", bare).strip()


def without_struck_out(text: str, opening: str = "") -> str:
    """Return text without what is struck out, such as ``~~12~~`` and ``<del>12</del>``.

    With ``opening``, only what begins with it is dropped: a JSON object, not a part of one.
    """

    def drop(struck: re.Match[str]) -> str:
        content = struck["plain"] or struck["tagged"] or ""
        return " " if content.lstrip(" `").startswith(opening) else struck[0]

    return _STRUCK_OUT.sub(drop, text)


def blank_emphasis(text: str) -> str:
    """Return text with spaces for the signs of emphasis, and ASCII letters, at the same offsets."""
    return text.translate(_UNMARKED)


# What announces an answer

_NOUN = (
    r"(?:\b(?:answer|verdict|conclusion|decision|judge?ment|correction|(?:right|correct|actual)\s+one|final(?=\s*:)|(?P<aside>option|choice"
    r"|response|solution|pick|letter)|réponse|antwort|respuesta|resposta|risposta|antwoord|ответ"
    r"|відповідь|odpowied[zź]|svar(?:et)?|cevap|jawaban(?:nya)?|đáp án|उत्तर|الجواب|الإجابة)"
    r"|\bcâu\s+trả\s+lời"
    r"|答案|回答|选项|正解|答え|정답|답)"
)
_LINK = (
    r"(?:(?<![A-Za-z])(?:is|was|would\s+be|turns\s+out\s+to\s+be|must\s+be|should\s+be|will\s+be|remains|est|ist|lautet|es|é|è|jest|är"
    r"|er|adalah|là|это|हैं?|هو|هي|(?<=उत्तर\s))\b|应该是|應該是|是|为|為|选(?!项)|は|은|는|[-=]>|[:=→—\u2013】]|-(?=\s))"
)
_FILL = (
    r"(?:[\s:\uff1a=✅✓✔]|[-•](?=\s)|\b(?:is|the|correct|final|best|right|option|choice|letter|answer"
    r"|(?:should|must|would|will)\s+be|clearly|definitely|probably|likely|most|therefore|thus|indeed|simply|just|actually|now|still"
    r"|instead|rather|that|clear|obvious|simple|as follows|it['\u2019]s|it\s+is"
    r"|la|le|les|el|die|der|das|opción|opção|lettre|letra|a\s+letra|(?-i:(?:a|to)(?=[^\S\n]+[A-Z]\b))|lettera|buchstabe|буква|вариант|correcta|correcte"
    r"|correta|corretta|richtig)\b|选项|選択肢)*+"
)
_QUALIFIED = (  # between the noun and the link, as in "the answer to this question is"
    r"(?:(?P<of>\s+(?:to|for|of|here|in|from|among)\b[^.:;!?\n]{0,60}?)"
    r"|\s+(?:correcta|correcte|correta|corretta|correct|đúng|finale?)\b)?"
)
ANSWER = re.compile(rf"{_NOUN}{_QUALIFIED}\s*{_LINK}{_FILL}", re.I)
SCORE = re.compile(rf"\b(?:score|rating|grade|mark)(?P<aside>){_QUALIFIED}\s*{_LINK}{_FILL}", re.I)
_CONCLUDED = re.compile(
    r"(?:(?:\b(?:I|we|I['\u2019](?:d|ll|m))\s+(?:(?!(?:never|not|hardly|doubt|disagree|deny|refuse|decline|reject|initially|originally)\b)\w{1,20}\s+){0,3}?|\blet(?:['\u2019]?s|\s+me)\s+"
    r"|(?:^|[.!?:;,\n][^\S\n]?|\bso\s)(?=choose|pick|select|go|use\s+[A-Z]\b))"
    r"(?:cho(?:ose|osing|se)|use|pick(?:ing)?|select(?:ing)?|say|answer|mean|meant|think|believe|guess|conclude"
    r"|go(?:ing)?\s+with|opt(?:ing)?\s+for|settle\s+on)\b"
    r"|^[#\t ]{0,8}(?:(?:the|my|final|correct)\s+){0,3}answer\s*\n"
    r"|\bit(?:['\u2019]s|\s+is|\s+(?:must|should)\s+be)\b"
    r"|\b(?:chang|switch|revis|updat|amend|correct)\w*\s+(?:(?:my|the)\s+\w+|it|th(?:is|at))\s+to\b|\bmake\s+that\b"
    r"|\bI(?:['\u2019](?:d|ll)|\s+would|\s+will)?\s+(?:classify|categori[sz]e|label|tag)\s+(?:\w+\s+){1,3}?as\b"
    r"|\b(?:should|must|can|would)\s+(?:best\s+)?be\s+(?:\w+ly\s+|best\s+)?(?:classified|categori[sz]ed|labell?ed|tagged)\s+as\b"
    r"|\b(?:therefore|thus|so|hence|donc|dunque|значит)\b,?"
    r"|\b(?:wait|actually|sorry|oops|on\s+reflection|on\s+second\s+thoughts?)\b[\s,.:;!…—\u2013-]+"
    r"|\b(?:no|nein|non|нет)\s*[,.:;!—\u2013]+"
    r"|(?:\bnot\b|n['\u2019]t\b)[^.!?\n]{0,40}?\bbut\b"
    r"|\b(?:nicht|pas|no|non|не)\s[^.!?\n]{0,40}?\b(?:sondern|mais|sino|ma|bensì|\u0430)\b|不是[^。\n]{0,40}?而是|(?:では?|じゃ)なくて?、?|[가이]\s?아(?:니라|닌)|\bbetween\b[^.!?\n]{0,60}?,"
    r"|\b(?:that\s+)?leaves\b|所以|因此|(?:(?<=我会)|(?<=我會)|(?<![不没別别未会會误誤想能易人]))(?:选择|選擇|选(?!项))|不对[,\uff0c]|よって|따라서)"
    + _FILL,
    re.I | re.M,
)

# What withdraws an announcement, before it or around it

_WITHDRAWN = re.compile(
    r"(?:\b(?:for|of|behind|about)\s+(?:(?:the|my|this|that|your|correct|right|final)\s+){0,3}\Z"
    r"|(?:\b(?:if|whether|why|unless|doubt|disagree|dispute|object|refuse|deny|reject|no\s+way|hardly|thought|says|claims|may|might|could"
    r"|(?<!\bI\s)(?:said|claim(?:ed)?)|stated|(?:state|insist|assert)s|insisted|misconceptions?|myth|mistakes?|misled|nobody|no\s+one"
    r"|error\s+is|(?:would|['\u2019]d)\s+conclude|textbooks?\s+(?:\w+\s+){0,4}say"
    r"|(?:some|many|others|people|you|they|who|one)\s+(?:\w+\s+)?"
    r"(?:say|think|choose|pick|believe|argue))"
    r"|(?:\bnot|n['\u2019]t)\s+(?:think|believe|say|sure|see)|never"
    r"|(?:false|wrong|incorrect|untrue)\s+(?:that|to))\b[^.!?;:,\n]{0,40}\Z"
    r"|\bnot\s+(?:(?:the|my)\s+)?(?:(?:right|correct|final)\s+)?\Z"
    r"|以为[^。\n]{0,20}\Z|\bviele\s+(?:denken|glauben|meinen),?[^.!?;:,\n]{0,40}\Z"
    r"|\b(?:initially|intuitively|originally|at\s+first(?:\s+(?:glance|sight))?)\b,?[^.!?;:,\n]{0,40}\Z)",
    re.I,
)
ASIDE = re.compile(  # words that make an answer one that the reply does not give
    r"\b(?:each|every|wrong|incorrect|false|rejected|excluded|eliminated|worst|worse|least|unlikely|(?:second|next)(?:[\s-]best)?|common"
    r"|popular|frequent|trick|trap|naive|intuitive|decoy|previous|former|initial|original|old|earlier|tempting|attractive|alternative|other|another|runner[\s-]up"
    r"|their|his|her|human|maximum|baseline|(?:the|your|a)\s+(?!question|problem)\w+['\u2019]s)\b[^.!?;:,\n]{0,20}\Z",
    re.I,
)
_QUOTED = re.compile(  # what a text or a person says, before the statement that it quotes
    r"\b(?:texts?|essay|answer|response|reply|passage|stor\w+|poem|it|user|student|assistant"
    r"|candidate\w*(?:['\u2019]s)?"
    r"|model|author|prompt|instruction|line|he|she|they)\b[^.!?\n]{0,40}\b(?:says?|said|claims?(?:\s+that)?|states?"
    r"|writes?|wrote|reads?|(?:ends?|closes|begins|starts|conclude[sd]?)(?:\s+with)?|asks?(?:\s+for)?|asked\s+(?:for|me|us)"
    r"|(?:contains?|includes?)(?=[^.!?\n]{0,30}\b(?:instruction|line|sentence|statement|words?|phrase|claim|command)s?\W*\Z)"
    r"|tries|wants|line)\b[^.!?\n]{0,40}\s*\Z",
    re.I,
)
_YOURS = re.compile(r"\byour\s+(?:\w+\s+)?\Z", re.I)
_HYPOTHETICAL = re.compile(
    r"(?:^|[.!?;\n]\s*)(?:if(?!\s+I\b)|had|under|without|(?:for|in|with)\b(?!\s+(?:this|these|that|those|short|all)\b))"
    r"\b[^.!?\n]{0,200},\s*(?:the\s+|my\s+)?(?:\w+\s+)?\Z",
    re.I,
)
_CONDITIONAL = re.compile(  # in the sentence of a statement
    r"\A\W*(?:had|were)\b"
    r"|\b(?:if|unless|when(?:ever)?|in\s+(?:which\s+)?case|provided|assuming|only)\b"
    r"|(?:^|:\s*)\W*(?:for|under|among|with|in(?!\s+(?:conclusion|summary|total|fact|short|sum|reality|general"
    r"|any|this|other\s+words|the\s+end)\b))\b[^.!?\n,]{1,60},",
    re.I,
)
_ANOTHER_QUESTION = re.compile(
    r"\b(?:an)?other\b|\b(?:different|follow-?up|next|previous|opposite|reverse|converse)\b", re.I
)
_WERE = re.compile(r"\bif\b.*\bwere\b", re.I | re.S)
_WOULD = re.compile(r"\bwould\s+be\b", re.I)
_CONDITIONALLY = re.compile(r"\b(?:would|might|may|could)\b|['\u2019]d\b", re.I)
_WITHDRAWN_CONCLUSION = re.compile(
    r"\b(?:because|since|although|though|while|when|as|that|than)\s+\Z", re.I
)

_NO_ANSWER = re.compile(
    r"n(?:one|othing|either)\b|un(?:known|clear|decided|determined)|impossible|n/a|all\b|both\b"
    r"|not\s+(?:listed|among|given|here|in|known|clear|possible|available|any|one)\b",
    re.I,
)
_NAME = re.compile(r"(?:(?:a|an|the)\s+)?(?:[A-Z\d]|\w\b(?=\W*\Z))")
_LETTER = re.compile(r"[A-Z]\W*")
_UNDECIDED = re.compile(
    r"\b(?:I\s+(?:\w{1,20}\s+)?(?:do\s+not|don['\u2019]t)\s+know(?:\s+(?:the\s+answer|it|this|that))?"
    r"|I(?:['\u2019]m|\s+am)\s+(?:not\s+|un)sure"
    r"|I\s+(?:can\s?not|can['\u2019]t)\s+(?:decide|tell|say|answer|determine|choose)"
    r"(?:\s+(?:between|among)\s+[^.!?\n]{1,60}?)?"
    r"|(?:can\s?not|can['\u2019]t|could\s+not|impossible\s+to)\s+(?:be\s+)?"
    r"(?:determined?|decided?|known?|say|said|tell|told|answer(?:ed)?|calculated?|solved?)"
    r"|(?:not\s+enough|insufficient|too\s+little)\s+(?:information|data)(?:\s+(?:is\s+)?\w+){0,4}"
    r"|there\s+is\s+no\s+(?:valid\s+)?(?:solution|answer)"
    r"|(?:answer|result|value|solution)\s+is\s+(?:undefined|unknown|indeterminate|undetermined)"
    r"|(?:ich\s+)?weiß\s+(?:ich\s+)?(?:es\s+)?nicht"
    r"|(?:lässt|kann)\s+(?:man\s+)?(?:sich\s+)?nicht\s+(?:bestimmen|sagen|beantworten|berechnen)"
    r"|keine\s+(?:der|dieser)\s+(?:\w+\s+)?(?:Optionen|Antworten|Möglichkeiten)(?:\s+(?:ist|passt))?(?:\s+(?:richtig|korrekt|zutreffend))?"
    r"|je\s+ne\s+(?:le\s+)?sais\s+pas|on\s+ne\s+peut\s+pas\s+(?:le\s+)?(?:répondre|savoir|déterminer|conclure|dire)"
    r"|aucune\s+(?:de\s+ces|des)\s+(?:réponses|options|propositions)"
    r"|no\s+(?:lo\s+)?sé|no\s+se\s+puede\s+(?:saber|determinar|responder|calcular)"
    r"|ninguna\s+de\s+las\s+(?:anteriores|opciones|respuestas)(?:\s+anteriores)?"
    r"|não\s+sei|não\s+(?:é\s+possível|se\s+pode|dá\s+para)\s+(?:saber|determinar|responder|calcular|dizer)"
    r"|nenhuma\s+das\s+(?:anteriores|opções|alternativas|respostas)"
    r"|non\s+(?:lo\s+)?so|non\s+si\s+può\s+(?:sapere|determinare|rispondere|calcolare|dire)"
    r"|nessuna\s+delle\s+(?:precedenti|opzioni|risposte)"
    r"|(?:я\s+)?не\s+знаю|невозможно\s+(?:определить|сказать|ответить|вычислить)"
    r"|ни\s+один\s+из\s+вариантов"
    r"|(?<![A-Za-z][.):]\s)none\s+of\s+(?:the|these|them|those)(?:\s+(?:above|options|answers|choices))*"
    r"|none\s+of\s+(?:the|these|them|those)(?:\s+(?:above|options|answers|choices))*\s+"
    r"(?:(?:is|are|seems?|looks?|can\s+be)\s+(?:correct|right|true|valid)"
    r"|(?:fits?|match(?:es)?|works?)(?:\s+(?:really|well|exactly))?)"
    r")(?=\s*(?:[.!]|\n|\Z))"
    r"|(?<!如果)(?:不知道|不[确確]定|不清楚|[无無]法(?:[确確]定|判[断斷]|回答|[计計]算|得出|知道))(?=[^。\n]{0,6}(?:[。!\n]|\Z))"
    r"|(?:わか|分か|判り|判断でき|決められ|答えられ)(?:りません|らない|ない|ません)|모르겠|알\s?수\s?없",
    re.I,
)
_SENTENCE = re.compile(r"(?:[^.!?\n。]|\.(?=\w))*")


_SENTENCE_BREAK = re.compile(r"[.!?;][*_)\"'\u201d]*\s+|\n|[\u3002\uff01\uff1f]")
_WHOLE_SENTENCE = re.compile(r"(?:[^.!?\n\u3002]|[.](?=\w))+[.!?\u3002)\"*_]*")
_TURN = re.compile(  # what follows is stated by the text itself
    r"\b(?:but|however|yet|whereas|actually|in\s+(?:fact|truth|reality)|so(?!\s+(?:that|many|much|long|far))|therefore|thus|hence"
    r"|instead|while|although|though)\b|:\s+(?=[^:\n=]*=)|:\s+(?=(?:the|my)\s+(?:\w+\s+)?answer\b)",
    re.I,
)
_OTHERS = (
    r"(?:some(?:one|body|\s+(?!would\b)\w+)?|many(?:\s+\w+)?|most(?:\s+\w+)?|others?|people|students|beginners|learners|readers|annotators|experts|critics"
    r"|opponents|skeptics|scholars|textbooks|sources|you|one|nobody|no\s+one)"
)
_ADVERBS = (
    r"(?:(?:would|will|might|may|could|should|has|have|had|often|sometimes|usually|always|once|used\s+to|then|also|still|now|long"
    r"|tend\s+to|like\s+to|be\s+tempted\s+to|even|\w+ly)\s+)*"
)
_THINKS = (
    r"(?:sa(?:y|ys|id)|th(?:ink|inks|ought)|believe[sd]?|claim(?:s|ed)?|argue[sd]?|insist(?:s|ed)?|suggest(?:s|ed)?|assume[sd]?"
    r"|tells?|told|wrote|has\s+it)\b"
)
_ANSWERS = (
    r"(?:answer(?:s|ed)?|cho(?:ose|se|sen)|pick(?:s|ed)?|guess(?:es|ed)?|conclude[sd]?"
    r"|expect(?:s|ed)?|insist)\b"
)
_PERSON = (
    r"(?:(?:an?|the|my|your|his|her|their|another)\s+(?:[\w-]+\s+){0,2}[\w-]+"
    r"|(?-i:[A-Z][\w-]+)|he|she|they)"
)
_ATTRIBUTED = re.compile(  # before a statement
    rf"(?:\A|[,:(]\s*|\bthat\s+|\bwhat\s+)\W*(?:{_OTHERS}\s+{_ADVERBS}(?:{_THINKS}|{_ANSWERS})|{_PERSON}\s+{_ADVERBS}{_THINKS})"
    r"|\b(?:according\s+to|contrary\s+to|in\s+the\s+(?:opinion|view|eyes)\s+of)\s+(?!(?:my|our|the\s+(?:question|problem|table|text|passage|data|graph|chart|given"
    r"|equation|formula|rule|definition|order))\b)"
    r"|\b(?:it\s+(?:is|was)|it['\u2019]s)\s+(?:\w+\s+){0,2}(?:tempting|believed|said|claimed|thought|assumed|argued|(?:false|wrong|untrue)\s+(?:that|to\s+(?:say|think|answer|claim|conclude))"
    r"|easy\s+to\s+(?:think|believe|say|assume|answer|choose|pick)|not\s+(?:the\s+case|true|correct|right))\b"
    r"|\b(?:would|could|might)\s+be\s+(?:an?\s+(?:mistake|error)|wrong|incorrect|tempt\w+)\b"
    r"|\b(?:common|typical|frequent|classic|popular|usual|easy)\s+(?:\w+\s+)?(?:mistake|error|misconception|trap|pitfall|slip|answer|choice|guess)s?\b"
    r"|\b(?:misconception|myth|distractor|tempt(?:ed|ing|s)|naive|intuitive(?:ly)?|intuition|trap)\b"
    r"|\b(?:do\s+not|don['\u2019]?t)\s+(?:be\s+\w+|fall|think|assume|believe|confuse|choose|pick|answer|use|say)\b"
    r"|\bI\s+(?:can(?:not|['\u2019]t)|would(?:\s+not|n['\u2019]t)|do\s+not|don['\u2019]t)\s+(?:agree|accept|say|claim|think|believe)\b"
    r"|\bI\s+(?:almost|nearly|was\s+(?:going|about|tempted)\s+to|would\s+have|briefly)\b",
    re.I,
)
_ATTRIBUTED_AFTER = re.compile(  # after it
    rf"[,(\u2014\u2013\"\u201d-]\s*(?:according\s+to\s+|as\s+)?(?:some|many|most|others)(?:\s+\w+)?(?:\s+{_ADVERBS}(?:{_THINKS}|{_ANSWERS})|\W*(?:[.]|\Z))"
    r"|\b(?:is|was|are)\s+(?:\w+ly\s+)?(?:what\s+(?:most|many|some|others?|people)\b|(?:only|just)\s+(?:for|used)\b|reserved\b|(?:often|sometimes|usually|commonly)\s+(?:chosen|picked|given|confused|mistaken)\b)"
    r"|\b(?:(?:many|most|some|others|people)\s+(?:would|might|will|may)\s+(?:give|choose|pick|say))\b"
    r"|\bwould\s+(?:only\s+)?(?:apply|need|require|mean|be\s+(?:right|correct|used|given|reserved))\b"
    r"|\bonly\s+(?:if|when|for)\b|\bseems?\s+\w+\s+at\s+first\b|\d\s+(?:means|requires|represents)\b",
    re.I,
)
_CONDITION = re.compile(
    r"\b(?:if(?!\s+I\b)|unless|without|otherwise|ignoring|assuming|except|in\s+case)\b|(?:\A|,\s*)\W*(?:had|were)\b"
    r"|\A\W*(?:for|with|in|under)\s+(?:(?:an?|the)\s*)?(?:other|different|old|previous|original|next)\b"
    r"|\b(?:perfect|ideal|flawless|alternative)\b",
    re.I,
)
_OWN = re.compile(  # the words before an announcement, or with it, that is the text's own
    r"(?:[\W\d]*(?:\b(?:and|or|then|now|here|ok(?:ay)?|well|oh|ah|no|yes|wait|sorry|oops|hmm+|rather|clearly|indeed|next|also|likewise|finally|final|rounded"
    r"|consequently|accordingly|ultimately|altogether|overall|in\s+(?:conclusion|summary|short|total|sum|all|the\s+end)|all\s+in\s+all|conclusion|summary"
    r"|correct(?:ion|ed)|step|part|answer|solution|result|question|note|case|(?:up)?on\s+(?:second\s+thoughts?|re\w+|closer\s+\w+))\b[\W\d]*)*)"
    r"(?:(?:because|since|as|after|by|from|using|adding|subtracting|multiplying|dividing|rounding|simplifying|solving|combining|taking|checking|looking"
    r"|considering|based|given)\b.{0,200},[\W\d]*|.{0,200}\b(?:I|we|us|let|my|our|this\s+(?:is|means|gives|makes|leaves|implies|yields|shows|case|time|year)|which|means|implies|gives|yields|follows)\b.{0,100})?"
    r"(?:\b(?:the|my|a|an|our|final|correct|right|best|actual|real|true|only|new|updated|revised|overall|most|likely|proper|exact|closest|predicted|chosen)\b\W*)*"
    rf"(?:{ANSWER.pattern}|{_CONCLUDED.pattern})?",
    re.I | re.S,
)


_LATIN_WORD = re.compile(r"[A-Za-z]{2}")
_NAMED = re.compile(r"\bthe\s+\w+\s+\Z", re.I)
_OWN_VERB = re.compile(r"(?:I|we|it)\b", re.I)
_PARTLY = re.compile(r"\b(?:to|of|for)\s+(?:part|step|the\s+(?:first|second|other))\b", re.I)


_SAMPLE = re.compile(  # the end of an introduction to what is no answer of the reply's own
    r"(?:\A|[.!?\n,;:]\s*)\W*(?:(?:but|so|and)\s+)?(?:(?:the|an?|your)\s+)?(?:[\w-]+\s+){0,2}(?:format|template|schema)"
    r"\s+(?:is|was|would\s+be|looks\s+like)\W*\Z"
    r"|\b(?:format|template)\b[^.!?\n]{0,20}\bwould\s+be\W*\Z"
    r"|\b(?:will|would|can|could|I['\u2019](?:ll|d))\b[^.!?\n]{0,80}"
    r"\b(?:in\s+(?:this|the|that|your|an?)\s+(?:\w+\s+){0,2}form(?:at)?|like(?:\s+this)?|such\s+as)\W*\Z"
    r"|\bI\s+(?:could|might)\s+(?:answer|say|reply|return)\W*\Z"
    r"|(?:\A|[.!?\n]\s*|\b(?:an|your|that)\s+)\W*examples?(?:\s+(?:answer|output|response|reply|json|format))?(?:\s+of\s+(?:the|a)\s+\w+)?\W*\Z"
    r"|(?:\A|[.!?\n]\s*)\W*(?:you|the\s+user)\s+(?:said|wrote|gave|sent|wants?)\b[^.!?\n]{0,40}\Z"
    r"|\byour\s+(?:previous|earlier|last|former|old)\s+\w+\s+(?:is|was)\W*\Z"
    r"|(?:\A|[.!?\n]\s*)\W*(?:input|template|sample|prompt)(?:\s+\w+)?\s*:\W*\Z"
    r"|\b(?:e\.g|i\.e\.\s+like)[.,]?\W*\Z|\bfor\s+(?:example|instance)\W*\Z|\bsuch\s+as\W*\Z",
    re.I,
)
_SAMPLE_AFTER = re.compile(
    r"[\W_]{0,12}(?:is|was)\s+(?:(?:only|just)\s+)?(?:the|an?|your)\s+(?:\w+\s+)?(?:example|format|template|sample|placeholder)\b"
    r"|[\W_]{0,12}would\s+be\s+(?:the|an?)\s+(?:\w+\s+)?(?:example|format|valid\s+\w+|reply|answer)\b",
    re.I,
)
_IN_FORM = re.compile(r"\b(?:format|form)\b", re.I)
_WILLING = re.compile(
    r"(?:['\u2019](?:ll|d)|\b(?:will|would|can|could))\s+\Z", re.I
)  # I'll answer in
_OPENING_FENCE = re.compile(r"`{3,}[ \t]*\w*\s*\Z")
_LABEL_BEFORE = re.compile(
    r"(?:\b(?:the|my)\s+)?(?:\b(?:final\s+)?answer\b)?[\s:\uff1a\"'\u201c\u201e\u00ab`*_]*\Z", re.I
)


class Statement(NamedTuple):
    """What a reply announces as its answer.

    A ``binding`` statement decides even if it is not valid, as in "Final answer: unknown".
    """

    start: int
    text: str  # the rest of the sentence
    named: bool  # by a noun, such as "answer"
    binding: bool


def statements(text: str, announced: re.Pattern[str] = ANSWER) -> list[Statement]:
    """Return the statements of a `strip_markup` text in their order.

    ``announced`` matches what announces them: `ANSWER` or `SCORE`.
    """
    in_order = []
    for match in announced.finditer(text):
        if is_aside(text, match):
            continue
        stated = _sentence(text, match.end())
        binding = bool(_LETTER.fullmatch(stated) or _NO_ANSWER.match(stated))
        if match["of"] is None and not binding:
            has_colon = match["aside"] is None and not set(":=→").isdisjoint(match[0])
            binding = has_colon or _NAME.match(stated) is not None
        in_order.append(Statement(match.end(), stated, True, binding))
    for match in _CONCLUDED.finditer(text):
        clause = text_before(text, match.start())
        if _WITHDRAWN.search(clause) or _WITHDRAWN_CONCLUSION.search(clause):
            continue
        if _CONDITIONALLY.search(match[0]) and _hypothesis(text, match.start()):
            continue  # as in "If it were red, I would pick B"
        if _OWN_VERB.match(match[0]) and is_remark(text, match.start(), match.end()):
            continue
        stated = _sentence(text, match.end())
        binding = _LETTER.fullmatch(stated) is not None
        in_order.append(Statement(match.end(), stated, False, binding))
    return sorted(in_order)


def is_aside(text: str, announcement: re.Match[str]) -> bool:
    """Return whether an announcement does not state the reply's own answer.

    It is then withdrawn, quoted, hypothetical, a sample of the format, or about another question.
    """
    start = announcement.start()
    clause = text_before(text, start)
    if _WITHDRAWN.search(clause) or ASIDE.search(clause) or is_quoted(text, start):
        return True
    end = (
        announcement.start("stated")
        if "stated" in announcement.re.groupindex
        else announcement.end()
    )
    if is_remark(text, start, end) or is_sample(text, start):
        return True
    if announcement["of"] and _IN_FORM.search(announcement["of"]) and _WILLING.search(clause):
        return True
    if ":" not in announcement[0] and _YOURS.search(clause):
        return True
    if announcement["of"] and _ANOTHER_QUESTION.search(announcement["of"]):
        return True
    hypothesis = _hypothesis(text, start)
    if hypothesis is None:
        return False
    return bool(_WOULD.search(announcement[0]) or _WERE.search(hypothesis[0]))


def is_sample(text: str, start: int, end: int | None = None) -> bool:
    """Return whether an answer is only a format, an example or what another text contains.

    Examples are "The format would be: Answer: B" and "I will answer in this form:" on a line of
    its own before the answer.

    Args:
        text: The reply.
        start: The start of the answer, or of its announcement.
        end: The end of the answer, if what follows it may say so.
    """
    if end is not None and _SAMPLE_AFTER.match(text, end):
        return True
    before = _OPENING_FENCE.sub("\n", text_before(text, start, MAX_SENTENCE_CHARS))
    introduction = _LABEL_BEFORE.sub("", before)
    is_on_new_line = "\n" in before[len(introduction) :]
    if is_on_new_line and introduction.endswith((".", "!", "?")):
        return False
    introductions = (blank_emphasis(introduction), blank_emphasis(before))
    return any(_SAMPLE.search(words) is not None for words in introductions)


def is_withdrawn(text: str, start: int) -> bool:
    """Return whether the words before an offset say that what follows is not (or no more) meant."""
    return _WITHDRAWN.search(text_before(text, start)) is not None


def is_quoted(text: str, start: int) -> bool:
    """Return whether the words before an offset say that another text states what follows."""
    return _QUOTED.search(text, max(0, start - MAX_INTRODUCTION_CHARS), start) is not None


def is_conditional(text: str, start: int) -> bool:
    """Return whether the sentence at an offset states something under a condition only."""
    before = text_before(text, start, MAX_SENTENCE_CHARS)
    begin = max(before.rfind(end) for end in (". ", "! ", "? ", "\n")) + 1
    return _CONDITIONAL.search(before[begin:] + _sentence(text, start)) is not None


def is_remark(text: str, start: int, end: int) -> bool:
    """Return whether what a text states is another's answer, or holds only under a condition.

    A clause that begins with a word such as "but" is no part of such a remark.

    Args:
        text: The text.
        start: The start of the statement.
        end: The end of its introduction.
    """
    before = blank_emphasis(_sentence_before(text, start))
    introduction = _TURN.split(before + blank_emphasis(text[start:end]))[-1]
    rest = _TURN.split(blank_emphasis(_sentence(text, start)))[0]
    if _ATTRIBUTED.search(introduction) or _ATTRIBUTED_AFTER.search(rest):
        return True
    sentence = _TURN.split(before)[-1] + rest.partition(" (")[0]
    return bool(_CONDITION.search(sentence) and _CONDITIONALLY.search(sentence))


def is_doubtful(text: str, start: int) -> bool:
    """Return whether it is uncertain that a later announcement replaces an earlier one.

    It is uncertain if its sentence has a condition, or does not state it (`is_own_statement`).
    """
    return is_conditional(text, start) or not is_own_statement(text, start)


def is_own_statement(text: str, start: int, earlier: int | None = None) -> bool:
    """Return whether only words such as "So" and "I think that" precede an offset in a sentence.

    Words that also precede the offset ``earlier`` are such words.
    """
    words = text_before(text, start).split()
    if words and earlier is not None and words[-1:] == text_before(text, earlier).split()[-1:]:
        return True
    clauses = _TURN.split(blank_emphasis(_sentence_before(text, start)))
    before = clauses[-1]
    if len(clauses) > 1:  # Thus, the coherency score
        before = _NAMED.sub("", before)
    if _PARTLY.search(before) is not None:
        return False
    return bool(_OWN.fullmatch(before) or CORRECTION.search(before)) or not _LATIN_WORD.search(
        before
    )


def without_remarks(text: str) -> str:
    """Return a text without the sentences that are remarks (`is_remark`) in whole."""
    return _WHOLE_SENTENCE.sub(_drop_remark, text)


def _drop_remark(sentence: re.Match[str]) -> str:
    words = blank_emphasis(sentence[0])
    if _TURN.search(words):
        return sentence[0]
    is_attributed = _ATTRIBUTED.search(words) or _ATTRIBUTED_AFTER.search(words)
    is_hypothetical = _CONDITION.search(words) and _CONDITIONALLY.search(words)
    return " " if is_attributed or is_hypothetical else sentence[0]


def _sentence_before(text: str, end: int) -> str:
    before = text_before(text, end, MAX_SENTENCE_CHARS)
    starts = [match.end() for match in _SENTENCE_BREAK.finditer(before)]
    return before[starts[-1] :] if starts else before


def undecided_offsets(text: str) -> list[int]:
    """Return the offsets of sentences such as "I don't know." and "None of the above."."""
    return [match.start() for match in _UNDECIDED.finditer(text)]


def _hypothesis(text: str, start: int) -> re.Match[str] | None:
    """Return the condition before an offset that makes what follows an answer to another question.

    An example is "If it were red, …".
    """
    return _HYPOTHETICAL.search(text_before(text, start, MAX_SENTENCE_CHARS))


def text_before(text: str, end: int, length: int = MAX_CLAUSE_CHARS) -> str:
    """Return at most ``length`` characters of a text before an offset."""
    return text[max(0, end - length) : end]


def _sentence(text: str, start: int) -> str:
    match = _SENTENCE.match(text, start, start + MAX_SENTENCE_CHARS)
    return match[0].strip() if match else ""


# What denies an answer or takes it back, after it

ANSWER_NOUN = (  # what a reply may call its answer
    r"(?:answers?|labels?|categor(?:y|ies)|class|classifications?|results?|totals?|sentiment|verdict|predictions?|tags?"
    r"|outputs?|conclusion|decision|judge?ment|choice|options?|selection|solution|json|object|response|reply|guess)"
)
_JUDGE_NOUN = r"(?:score|rating|grade|mark|verdict|assessment|evaluation|judge?ment)"
_WORKING_NOUN = (
    r"(?:numbers?|figures?|values?|sums?|amounts?|counts?|estimate|calculations?|computations?"
    r"|reasoning|steps?|equation)"
)
_EARLIER = r"(?:above|previous|last|first|earlier|final|original|initial|preceding|given|current)"
_PLACED = (
    r"(?:(?:\s+(?:above|before|given|stated|shown"
    r"|(?:that\s+)?I\s+(?:have\s+)?(?:gave|given|stated|wrote|chose))){1,2})"
)
_BEFORE_RETRACTION = (
    r"(?:(?<=[.!?\n。\uff01\uff1f।…;)}])|\A)[\s*_—\u2013-]{0,10}"
    r"(?:(?:but|however|though|yet|still|unfortunately|actually|wait|hmm+|oops|sorry|no|in\s+fact|on\s+\w+),?\s+){0,2}"
    r"(?:I\s+(?:now\s+)?(?:see|think|believe|realis?ze|notice)\s+(?:now\s+)?(?:that\s+)?)?"
)
_CALLED_WRONG = (
    r"(?:\s+(?:is|was|are|were|seems?|looks?|appears?(?:\s+to\s+be)?|must\s+be)\s+(?:\w+ly\s+|too\s+)?"
    r"(?:wrong|incorrect|mistaken|false|untrue|invalid|inaccurate|inappropriate|not\s+(?:right|correct|accurate|valid)"
    r"|an?\s+(?:mistake|error)|(?<=too\s)(?:high|low)(?!-))"
    r"|\s+(?:(?:is|was|are|were)n['\u2019]t|can(?:not|['\u2019]t)\s+be)\s+(?:right|correct))\b(?!\s+(?:to|that|for|if|when|in)\b)"
)
_TO_BE_IGNORED = (
    r"(?:(?:please|let['\u2019]?s)\s+)?"
    r"(?:scratch|scrap|strike|disregard|ignore|forget|cancel|delete|undo|discard)\s+"
)
_ANSWER_WRONG = re.compile(  # at the beginning of a sentence: "This answer is wrong."
    rf"{_BEFORE_RETRACTION}(?:(?:th(?:is|at|ese|ose)|my)\s+(?:{_EARLIER}\s+){{0,2}}(?:{ANSWER_NOUN}|{_WORKING_NOUN}){_PLACED}?"
    rf"|the\s+(?:{_EARLIER}\s+){{1,2}}(?:{ANSWER_NOUN}|{_WORKING_NOUN}){_PLACED}?"
    rf"|the\s+(?:{ANSWER_NOUN}|{_WORKING_NOUN}){_PLACED}|the\s+(?:answer|label|classification|result|verdict|category|json|output)){_CALLED_WRONG}"
    rf"|{_BEFORE_RETRACTION}(?:(?:this|that|it)\s+(?:is|was)|I\s+(?:\w+\s+){{1,2}}?)\s*\bthe\s+wrong\s+{ANSWER_NOUN}\b"
    rf"|{_BEFORE_RETRACTION}{_TO_BE_IGNORED}(?:(?:the|my|everything|all)\s+(?:\w+\s+){{0,2}}above"
    rf"|(?:the|my|that|this)\s+(?:{_EARLIER}\s+)?(?:\w+\s+)?{ANSWER_NOUN})\b"
    r"|(?:(?<=[.!?\n。;)}])|\A)\W{0,10}(?:diese[rs]?|die|das|cette|ce|la|le|est?a|este|essa|questa|questo|deze|dit|het)\s+"
    r"(?:antwort|ergebnis|zahl|einstufung|klassifi\w+|kategorie|label|réponse|résultat|classification|étiquette|catégorie"
    r"|respuesta|resultado|clasificación|etiqueta|categoría|risposta|risultato|classificazione|etichetta|categoria|resposta"
    r"|classificação|antwoord|resultaat)\s+(?:\w+\s+)?(?:ist|war|est|était|es|era|é|è|is|was)\s+"
    r"(?:falsch|fauss?e?|incorrecte?|incorrect[ao]|errónea|incorret[ao]|errad[ao]|sbagliat[ao]|errat[ao]|fout|onjuist)\b",
    re.I,
)
_SCORE_WRONG = re.compile(  # likewise of a judge
    rf"{_BEFORE_RETRACTION}(?:th(?:is|at)|my|the)\s+(?:{_EARLIER}\s+){{0,2}}{_JUDGE_NOUN}{_PLACED}?{_CALLED_WRONG}",
    re.I,
)
_RETRACTION = re.compile(  # at the beginning of a sentence
    r"(?:(?<=[.!?\n。\uff01\uff1f।…;)}])|\A)[\s*_—\u2013-]{0,10}"
    r"(?:(?:oh|oops|ups|wait|hold\s+on|hmm+|sorry|no|nein|non|нет|well|but|actually|(?:u[nm]\s+)?moment[oi]?(?:\s+mal)?|halt|stopp?"
    r"|warte|esper[ae]|attend(?:s|ez)|wacht(?:\s+even)?|aspett[ai]|(?:khoan|đợi)(?:\s+đã)?|bekle(?:yin)?|dur|chwila|chwileczkę|czekaj"
    r"|zaraz|vänta|vent|tunggu|počkej"
    r"|подожди\w*|стоп|等等|等一下|待って|잠깐만?요?|잠시만요?|रुको|रुकिए|انتظر|لحظة|مهلا)[\s,.!…—\u2013\uff0c،、-]+){0,3}"
    rf"(?:{_TO_BE_IGNORED}(?:that|this|it|my|(?:the|everything)\s+above)\b"
    r"|(?:that|this|it|my\s+\w+)"
    r"(?:(?:['\u2019]s|\s+(?:is|was|seems|looks|must\s+be))\s+(?:\w+ly\s+|too\s+)?"
    r"(?:wrong|incorrect|mistaken|not\s+(?:right|correct)|an?\s+(?:mistake|error|slip|typo)|false|untrue|(?<=too\s)(?:high|low)(?!-)"
    r"|generous|harsh|strict|lenient)"
    r"|\s+(?:(?:is|was)n['\u2019]t|can(?:not|['\u2019]t)\s+be)\s+(?:right|correct))\b(?!\s+(?:to|that|for|if|when)\b)"
    r"|(?:\w+\s+){0,2}I\s+(?:(?:was|am)\s+(?:wrong|mistaken)|made\s+an?\s+(?:\w+\s+)?(?:mistake|error)"
    r"|mis(?:read|counted|calculated|spoke)|overlooked|take\s+(?:that|it)\s+back|forgot|disagree)\b"
    r"|(?:[^.!?\n,]{1,40},\s+)?I\s+(?:now\s+)?meant\b(?!\s+(?:well|to)\b)"
    r"|(?:[^.!?\n,]{1,40},\s+)?I(?:['\u2019]m|\s+am)?\s+(?:(?!(?:not|never|can|cannot|could|might|may)\b)\w+\s+){0,2}(?:(?:change|revise|correct|amend|update|switch)"
    r"|(?:chang|revis|correct|amend|updat|switch)ing)\s+(?:it|that|this(?=\s+to\b|\s*[.,:;!\n]|\s*\Z)"
    rf"|(?:my|the|this|that)\s+(?:\w+\s+){{0,2}}?(?:{ANSWER_NOUN}|{_JUDGE_NOUN}))\b"
    r"|(?:[^.!?\n,]{1,40},\s+)?I(?:['\u2019]ve|\s+have)?\s+changed\s+my\s+mind\b"
    r"|(?:this|that|it)\b[^.!?\n]{0,80}\bso\s+something\s+(?:went|is|must\s+be)\s+wrong\b"
    r"|[^.!?\n]{1,80}\bthe\s+(?:real|actual|true|correct)\s+"
    r"(?:total|answer|result|value|number|amount|sum|price|cost|score)\s+(?:is|must\s+be|would\s+be)\s+(?:lower|higher|less|more|smaller|larger)\b"
    r"|(?:it|that|this|the\s+(?:answer|result))\s+(?:should|must|ought)\b"
    r"(?!\s+(?:also\s+)?be\s+(?:noted|said|added|mentioned|pointed|stressed|emphasi[sz]ed|remembered|clear)\b)"
    r"|(?:please\s+)?(?:read|use|take)\s+[^.!?\n]{1,60}?\s+instead\b(?!\s+of\b)"
    r"|let\s+me\s+re(?:compute|calculate|count|consider|do)\b|on\s+(?:second\s+thoughts?|reflection|closer\s+(?:inspection|look))\b"
    r"|(?:probably|maybe|perhaps|I\s+(?:guess|think|suppose))\s+not\b|just\s+kidding\b"
    r"|(?<!\?)(?<!\?\s)(?<!\?\n\n)(?:no|nope|nah|not\s+really|nein|non|нет|wrong|incorrect)\W*\Z|never\s?mind\b|I\s+(?:retract|withdraw)\b"
    r"|I(?:['\u2019]m|\s+am)\s+(?:really\s+)?(?:not\s+(?:really\s+)?|un)sure\b"
    r"|(?:he|she|they)\s+(?:is|are)\s+(?:wrong|mistaken)\b|or\s+is\s+it\b|my\s+(?:mistake|bad|error)\b|correction\b"
    r"|(?:das|dies|es)\s+(?:ist|war)\s+(?:\w+\s+)?(?:falsch|verkehrt|(?<=nicht\s)(?:richtig|korrekt))"
    r"|(?:das\s+)?(?:stimmt\s+(?:so\s+)?nicht|kann\s+nicht\s+stimmen)|falsch[.!,]|korrektur\b"
    r"|det\s+[äe]r\s+(?:fel|forkert|feil)\s*[.!,]|itu\s+salah\b|to\s+je\s+(?:špatn[ěé]|chyba)"
    r"|ich\s+(?:korrigiere|habe\s+mich\s+(?:geirrt|ver\w+))"
    r"|c['\u2019](?:est|était)\s+(?:faux|incorrect|une\s+erreur)|ce\s+n['\u2019]est\s+pas\s+(?:correct|juste|exact)"
    r"|je\s+me\s+(?:suis\s+tromp|corrige)|faux[.!,]"
    r"|(?:est?o\s+)?(?:(?:es|está)\s+(?:mal|incorrecto|equivocado|un\s+error)|no\s+es\s+(?:correcto|cierto))\b"
    r"|me\s+(?:he\s+)?equivo\w+|corrección\b"
    r"|(?:mi\s+sono|ho)\s+sbagliat\w+|(?:(?:questo|ciò)\s+)?(?:è\s+(?:sbagliato|errato|un\s+errore)|non\s+è\s+(?:corretto|giusto))"
    r"|(?:is[st]o\s+)?(?:(?:está|é)\s+(?:errado|incorreto|um\s+erro)|não\s+(?:está|é)\s+(?:certo|correto))|me\s+enganei"
    r"|d[ai]t\s+(?:klopt\s+niet|is\s+(?:fout|onjuist|verkeerd|niet\s+(?:juist|correct)))|ik\s+heb\s+me\s+vergist|correctie\b"
    r"|(?:(?:điều\s+)?(?:đó|này)\s+(?:là\s+)?)?(?:sai|không\s+đúng|nhầm)(?:\s+rồi)?\s*[.!,]"
    r"|(?:(?:bu|o)\s+)?(?:yanl\u0131ş|hatal\u0131|doğru\s+değil)\s*[.!,]"
    r"|(?:to\s+)?(?:jest\s+)?(?:błąd|błędne?|źle|nieprawda)\s*[.!,]|to\s+nie\s+jest\s+(?:poprawn|prawidłow)\w+|pomylił\w+\s+się"
    r"|(?:это\s+)?(?:не(?:верно|правильно)|не\s+так|ошибка)[.!,]|я\s+ошиб\w+"
    r"|(?:这|這|我|上面)?(?:是|算|答)?(?:不对|不對|[错錯](?:了|误|誤)|更正|纠正)|間違|訂正"
    r"|(?:(?:그건|이건|그것은|이것은|계산이|답이)\s*)?(?:틀렸|잘못)|그게\s*아[니닙]|(?:(?:هذا|هذه|ذلك)\s+)?(?:خطأ|غير\s+صحيح)|(?:(?:यह|ये|वह)\s+)?(?:ग़?लत|मैंने\s+ग़?लती|सही\s+नहीं)"
    r"|(?:(?:no|nein|non|não|нет|いや|아니|لا|नहीं|不)\s*[,、\uff0c،]\s*"
    r"(?:(?:it['\u2019]s|it\s+is|es\s+ist|c['\u2019]est|en\s+realidad(?:\s+es)?|en\s+fait"
    r"|in\s+realtà|na\s+verdade|eigentlich|tatsächlich)\s+)?|(?:actually|sorry)\s*,\s*)"
    r"[^\s.!?。]{1,20}(?:[.!。]|\Z))",  # No, fifteen.
    re.I,
)
_TAKEN_BACK = re.compile(  # anywhere after the answer, in languages whose sentences are not parsed
    r"\b(?:perdón|perdona|disculp[ae]\w*|lo\s+siento|equivoqu[eé]|equivocad[oa]|mejor\s+dicho|scusa(?:te|mi)?"
    r"|mi\s+dispiace|(?:ho|mi\s+sono)\s+sbagliat[oa]|anzi|desculp[ae]\w*|errei|enganei|aliás|quer\s+dizer"
    r"|pardon|désolée?|(?:suis|me)\s+tromp\w+|entschuldigung|sorry(?!\s+for\s+(?:the|any)\s+(?:delay|wait|inconvenience|length)\b)|verrechnet|vertan|geirrt|beziehungsweise\s+eher|correzione|correção|correctie|rättelse|rettelse|düzeltme|korekta|oprava|koreksi"
    r"|doch\s+(?:eher|lieber|nur)|vielmehr|plutôt|przepraszam|pomyli\w+|yanl\u0131ş\w*|hatal\u0131|düzelt\w+|excuses|vergis\w+"
    r"|förlåt|ursäkta|undskyld|unnskyld|maaf|xin\s+lỗi|нет|поправк\w+|исправ\w+|уточнени\w+|извин\w+|ошиб\w+|прости\w*|неверн\w+|неправильн\w+|точнее|скорее)\b"
    r"|(?:^|[.!?。\n])\W{0,10}(?:nein|non|não|нет|いや|いいえ|아니[요오]?|لا|नहीं|不|nie|hay\u0131r|nee|nej|לא|ไม่)\s*[,、\uff0c،.!—\u2013]"
    r"|틀렸|틀린|잘못|죄송|실수|정정|間違|まちが|訂正|すみません|すいません|ごめん|失礼|抱歉|对不起|對不起|不好意思|[算写看弄搞]错|[算寫看弄搞]錯"
    r"|סליחה|טעיתי|טעות|عذر|عفو|آسف|خطأ|ببخشید|اشتباه|माफ़?|ग़?लत|ขอโทษ|แก้ไข",
    re.I,
)
_IN_DOUBT = re.compile(  # directly after the answer
    r"\W{0,4}(?:or\s+is\s+it\b|I\s+(?:guess|think|suppose)\s+not\b)"
    r"|[^\w\n]{0,4}[,\u2013\u2014-]\s*(?:no|nope|nah|nein|non|não|нет|sorry)\s*[,:;!\u2013\u2014]",
    re.I,
)
# Words that begin a correction. What the latter begin may also confirm the answer.
_CORRECTING = (
    r"(?:oops|whoops|argh|ugh|er+m?(?=\s*[,.:;…\u2014\u2013-])|u[hm]+(?=\s*[,.:;…\u2014\u2013-])|no,?\s+wait|wait,?\s+no"
    r"|not\s+quite|(?:my\s+)?apologies|I\s+(?:do\s+)?apologi[sz]e|(?:or\s+)?rather(?!\s+than)"
    r"|I\s+mean(?=[\s:,])(?!\s+to\b)|I\s+meant\b(?!\s+(?:well|to)\b)|make\s+that|(?:scratch|strike)\s+that|correction|corrected(?=\s*:)|revised(?=\s*:)"
    r"|let\s+me\s+(?:correct|fix)|I\s+(?:need|have)\s+to\s+(?:correct|re-?check)|changed\s+my\s+mind|my\s+(?:mistake|bad|error)"
    r"|I\s+(?:was\s+wrong|misread|made\s+an?\s+(?:mistake|error))|(?:sorry|pardon)(?=\s*[,.:;!…\u2014\u2013-])"
    r"|on\s+(?:second\s+thoughts?|reflection)|(?:up)?on\s+re(?:view|-?reading|-?checking|consideration)|looking\s+back"
    r"|(?:to\s+be\s+(?:more\s+)?(?:precise|exact|correct),?\s+)?it\s+(?:should|ought\s+to)(?:\s+\w+)?\s+be"
    r"|nope(?=\s*[,.:;!\u2014\u2013-])|better(?=\s*:)|I\s+misspoke"
    r"|(?:th(?:at|is)|it|those)(?:['\u2019]s|\s+(?:is|was|were))\s+(?:only\s+|just\s+)?(?:(?:for|about)\s+(?:last|another|a\s+different|yesterday"
    r"|the\s+(?:previous|old|former|first|other|wrong|earlier|original|last))|the\s+(?:old|previous|former)(?=\s)"
    r"|for\s+[^.!?\n:]{1,40}[.;,]\s+(?:for|in|this|today|now|the\s+(?:current|new))\b[^.!?\n:]{0,40}(?=:))"
    r"|I\s+(?:should|ought\s+to)\s+have\s+(?:said|written|answered|put|chosen|picked|labell?ed|classified|called|rated|marked)"
    r"|(?:please\s+)?(?:disregard|ignore|forget|cancel|delete|undo)\s+(?:(?:that|this|it)(?=\s*(?:[.,:;!\n\u2014\u2013-]|and\b|\Z))"
    r"|(?:my|the)\s+(?:previous|last|first|earlier|above)|(?:everything|what\s+is|all)\s+above)"
    r"|I(?:['\u2019](?:d|ll)|\s+(?:would|should|will|must|(?:have|need|want)\s+to))\s+(?:now\s+)?(?:change|revise|correct|amend)\s+"
    r"(?:it|this|that|(?:my|the)\s+(?:\w+\s+)?(?:answer|choice|result))(?=\s*(?:[.,:;!\n]|to\b|\Z))"
    r"|(?:please\s+)?replace\s+(?:it|this|that|my\s+\w+|the\s+(?:above|answer)|(?<=please\sreplace\s)[^.!?\n]{1,60}?)\s+(?:with|by)"
    r"|(?:oh|ah|well|but|however|though|yet|hmm+|actually),?\s+(?:the|this)\s+(?:question|problem|task|exercise|prompt)"
    r"\s+(?:\w+ly\s+)?(?:asks?|asked|wants?|says?|said|is\s+asking|was\s+asking|specifies|states)"
    r"|korrektur|perdón|corrección|désolée?|plutôt)"
)
_RECONSIDERING = (
    r"(?:wait|hold\s+on|edit|update|hmm+|en\s+fait|en\s+realidad|na\s+verdade|in\s+realtà|eigentlich"
    r"|actually(?!,?\s+it\s+is\s+(?:\w{1,6}\s+)?(?:easy|simple|clear|obvious|trivial)))"
)
_LEADING = r"(?:(?:oh|ah|well|but|or|however|though|yet|hmm+|no),?\s+){0,2}"
_RECONSIDERED = re.compile(  # at the beginning of a sentence after the answer
    rf"(?:(?<=[.!?\n。)}}*…])|\A)[^\w\n]{{0,10}}{_RECONSIDERING}"
    r"(?:\s*[,.:;!…\u2014\u2013-]|\s+(?:I|that|it|this|the|no|not|we|let)\b)"
    r"(?!.{0,300}\b(?:yes|checks?\s+out|confirm\w*|is\s+(?:right|correct|fine|good))\b)",
    re.I | re.S,
)
_CORRECTED = re.compile(  # at the beginning of a sentence after the answer, or in parentheses
    rf"(?:(?<=[.!?\n。)}}*`…—])|\A)[^\w\n]{{0,10}}{_LEADING}{_CORRECTING}\b"
    r"|[(\[]\s*(?:edit|update|correct(?:ed|ion)|revised|oops|sorry|actually|scratch\s+that|should\s+be)\b",
    re.I,
)
CORRECTED_TO = re.compile(rf"(?<!\w){_LEADING}{_CORRECTING}\b\W*\Z", re.I)
_RIGHT_ONE = (
    r"(?:right|correct(?:ed)?|actual|real|true|revised|updated|proper)\s+"
    r"(?:one|value|result|output|option|choice|name|word|label|number)"
)
CORRECTION = re.compile(  # what begins a correction, also within a sentence
    r"(?:(?<=[.,;:!…\n(—\u2013-])|(?<=[.,;:!…—\u2013-]\s)|(?<=[。\uff0c\uff01\uff1b、]))"
    rf"(?:{_LEADING}(?:{_CORRECTING}|{_RECONSIDERING}|(?:re-?|double[\s-])check\w*|let\s+me\s+(?:re|double))\b"
    r"|(?:no|nein|non|não|нет)\s*[,.:;!—\u2013]|不对|不對|更正|纠正|不[\uff0c,。]|いや|訂正|아니"
    rf"|(?:the|my)\s+{_RIGHT_ONE}\s*:|replace\s+[^.!?\n]{{1,60}}?\s+(?:with|by)\b)"
    r"|(?<=\s)or\s+rather\b",
    re.I,
)
_OWN_MISTAKE = re.compile(
    r"\bI\s+(?:retract|withdraw|take\s+(?:that|it)\s+back|(?:was|am)\s+(?:wrong|mistaken)"
    r"|made\s+an?\s+(?:\w+\s+)?(?:mistake|error))\b|\bscratch\s+that\b|\bcorrection\s*:"
    r"|\bmy\s+(?:mistake|bad|error)\b"
    r"|\bon\s+(?:second\s+thoughts?|reflection|closer\s+(?:inspection|look))\b"
    r"|(?:list|verdict|answer)\s+above\s+is\s+(?:wrong|incorrect)\b",
    re.I,
)
_WRONG = (
    r"(?:wrong|incorrect|false|untrue|invalid|mistaken|extraneous|spurious|inadmissible|(?:rejected|discarded|excluded"
    r"|eliminated|ruled\s+out|dismissed|ignored|impossible)(?!\s+(?:to|by|from)\b))"
)
_DENIED_AFTER = re.compile(  # directly after a number
    rf"(?:[^\S\n]?[^\W\d_]{{1,12}})?[^\w\n?:,(≠{CROSSES}\u2013\u2014-]{{0,6}}(?:"
    r"(?:,\s*(?:(?:which|that|but\s+(?:this|that|it))\s+)?)?(?:"
    r"(?:is|was|seems|looks|(?:must|would|has\s+to)\s+be)\s+(?:\w+ly\s+|of\s+course\s+)?"
    rf"(?:{_WRONG}|not\s+(?:the|my|it|right|correct|possible|valid|true)|off\b|too\s+(?:high|low|large|small|big|many|few|much)"
    r"|an?\s+(?:\w+\s+)?(?:distractor|trap|mistake|error))\b"
    r"|(?:is|was|does|did|can|could)(?:n['\u2019]?t|\s?not)\s+(?:be|it|right|correct|the|work|fit|satisfy|hold|match|make|apply|count)\b"
    r"|makes?\s+no\s+sense\b"
    r"|can['\u2019]t\s+be\b|fails\b)"
    rf"|[:,(\u2013\u2014-]+\s*(?:is\s+)?(?:{_WRONG}|nope|no(?=\s*(?:[.!)]|wait\b|\Z)))(?!\w)"
    rf"|\?\W*(?:{_WRONG}|no|nope|nah|not|hardly|never)(?!\w)|\?\W*\Z"
    rf"|[^\w\n]{{0,4}}[≠{CROSSES}])",
    re.I,
)
_DENIED_BEFORE = re.compile(  # the label of a number
    r"(?:\b(?:wrong|incorrect|false|rejected|discarded|eliminated|impossible)(?:\s+\w+){0,2}\s*:"
    r"|\b(?:new|updated|revised|corrected|final|current)\s+(?P<label>\w+)\s*:[^\n]*"
    r"\b(?:old|previous|earlier|former|original|initial)\s+(?P=label)\s*:"
    r"|(?:\bnot|n['\u2019]t|\bnever)\s+(?:return|output|answer|write|give|print|submit|say|(?:answer|reply|respond)\s+with)"
    r"|\b(?:reject|discard|dismiss|disregard|ignor|exclud|eliminat)\w*\s+"
    r"(?:(?!(?:so|and|then|thus|to|but|we|of|from|by)\b)\w+\s+){0,4}(?:[A-Za-z]\w?\s*=)?"
    rf"|[{CROSSES}])[^\w\n]*(?:\n+```\w*\s*)?\Z",
    re.I,
)
_NEXT_TURN = re.compile(
    r"^[ \t#*]*+(?:(?:next|new)[ \t]+)?(?:question|q|problem|exercise|frage|pregunta|问题|問題|질문"
    r"|вопрос|human|user|instruction)[ \t]*+\d*+[ \t*]*+[:\uff1a]"
    r"|<\|(?:endoftext|end_of_text|im_end|eot_id)\|>",
    re.I | re.M,
)


def is_retracted(text: str, end: int, *, by_judge: bool = False) -> bool:
    """Return whether a sentence after an offset takes back what the text states before it.

    Examples are "Scratch that.", "That answer is wrong.", "No, fifteen." and "Hold on. The problem
    says …". With ``by_judge``, "That answer is wrong." is about the judged text, and only "That
    score is wrong." takes a score back.
    """
    if _IN_DOUBT.match(text, end):
        return True
    called_wrong = _SCORE_WRONG if by_judge else _ANSWER_WRONG
    patterns = (_RETRACTION, _RECONSIDERED, _TAKEN_BACK, _CORRECTED, called_wrong)
    return any(pattern.search(text, end) for pattern in patterns)


def is_reconsidered(text: str, end: int) -> bool:
    """Return whether a judge takes back, after an offset, the verdict that precedes it.

    Unlike in `is_retracted`, "That is wrong." takes nothing back: it may be about the judged text.
    """
    return any(pattern.search(text, end) for pattern in (_OWN_MISTAKE, _RECONSIDERED))


def is_denied(text: str, start: int, end: int) -> bool:
    """Return whether the words around a number or a JSON object deny it.

    Examples are "72 is not the answer", "72? No." and "Incorrect answer: 72".
    """
    if _DENIED_AFTER.match(text, end):
        return True
    return _DENIED_BEFORE.search(text_before(text, start, MAX_SENTENCE_CHARS)) is not None


def first_turn(text: str, has_answer: Callable[[str], bool]) -> str:
    """Return a reply without a further question or turn that the model has made up.

    A reply that has no answer before the question, such as one that repeats it, is returned whole.
    """
    match = _NEXT_TURN.search(text)
    if match is None or not has_answer(text[: match.start()]):
        return text
    return text[: match.start()]


# Announcements that a user's pattern matches

ABOUT_ANSWER = re.compile(  # words that describe an answer or lead to it
    r"\W*(?:as|at|below|above|here|given|shown|found|obtained|computed|calculated|verified|confirmed|checked"
    r"|reasonable|valid|consistent|plausible|exact|rounded|expressed|in|to|by|on|let\w*|we|this|these|first"
    r"|step\w*|using|based|clear|obvious|supported|explanation|solution|reasoning|integer|number|positive|negative|even|odd|wrong|incorrect"
    r"|true|known|unique|required|not|follow\w*|如下|以下|次の|下)(?!\w)|\W*(?:如下|以下|次の|下)",
    re.I,
)
_ANNOUNCES = re.compile(rf"{ANSWER.pattern}|(?<![</_\w])answers?\b(?!>)|####|答案", re.I)
_LATER = re.compile(
    rf"{ANSWER.pattern}|\banswer\s+-\s|<(?:final_?)?answer>|[\"']answer[\"']\s*:"
    rf"|\\boxed\s*\{{|^[#\t ]{{0,8}}(?:(?:the|my|final"
    rf"|correct)\s+){{0,3}}answer\s*\n\s*|^####[ \t]*",
    re.I | re.M,
)
_ENCLOSED = re.compile(
    r"\([^()\n]*\)?|\[[^\[\]\n]*\]|(?<!\w)\"[^\"\n]+\"|[“„][^“”\n]+[“”]|«[^«»\n]+»|「[^「」\n]+」|`[^`\n]+`|(?<!\w)'[^\n]+?'(?!\w)"
)
_MENTIONING = re.compile(
    r"\b(?:thought|format|example|e\.g|such\s+as|draft|instead\s+of|rather\s+than|not|so\s+far|until\s+now|at\s+first"
    r"|first|template)\b[^.!?,;:\n]{0,40}\Z",
    re.I,
)
_LIMIT = re.compile(
    r"\b(?:max(?:imum)?|min(?:imum)?|highest|lowest|possible|achievable|attainable|passing|threshold|reference|perfect|previous|former)\.?\s+\Z",
    re.I,
)
_IN_QUESTION = re.compile(
    r"[^\w\n?]{0,4}(?:\?|\b(?:if|unless)\b)|[^\w\n]{0,4}(?:is|was)\s+(?:wrong|incorrect|not)\b",
    re.I,
)
_REVISED = re.compile(
    r"\b(?:on\s+second\s+thoughts?|on\s+reflection|hmm+|scratch\s+that|let\s+me\s+re\w+|correction|erratum"
    r"|(?:the|my)\s+(?:right|correct(?:ed)?|real|actual|revised|updated)\s+(?:one|answer|option|result|value|output)\s+(?:is|should|must))\b",
    re.I,
)


_CALLED_RIGHT = re.compile(
    r"(?:\bin\s+fact|\bactually|\b(?:having|after|on)\s+(?:\w+\s+){1,3}?(?:again|twice|once\s+more)),?\s+"
    r"(?!(?:that|this|it|which|(?:my|the)\s+(?:\w+\s+)?answer)\b)(?P<name>[^.,:;!?\n]{1,60}?)\s+is\s+"
    r"(?:the\s+)?(?:right|correct)\b"
    rf"|\b(?:the|my)\s+{_RIGHT_ONE}\s*:\s*(?P<value>[^\n]{{1,60}})",
    re.I,
)
_REPLACED = re.compile(r"\breplace\s+(?P<replaced>[^.!?\n]{1,60}?)\s+(?:with|by)\b", re.I)


def announces(text: str) -> bool:
    """Return whether a text announces an answer: "Answer: Paris", "#### 72"."""
    return _ANNOUNCES.search(blank_emphasis(text)) is not None


def is_mentioned(text: str, start: int, end: int) -> bool:
    """Return whether an announcement is one that the reply does not make.

    Examples are quotations, asides in parentheses and wrong answers.
    """
    line_start = text.rfind("\n", 0, start) + 1
    line_end = end + len(text[end:].partition("\n")[0])
    for match in _ENCLOSED.finditer(text, line_start, line_end):
        rest_of_line = text[line_start : match.start()] + text[match.end() : line_end]
        if match.start() < start and end <= match.end() and re.search(r"\w", rest_of_line):
            return True
    return ASIDE.search(blank_emphasis(text_before(text, start))) is not None or is_remark(
        text, start, end
    )


def is_limit(text: str, start: int) -> bool:
    """Return whether the words before a label make it one of what can be, not of what is."""
    return _LIMIT.search(blank_emphasis(text_before(text, start))) is not None


def is_superseded(text: str, start: int, end: int, answer: str) -> bool:
    """Return whether an announced answer is a first thought, taken back, or followed by another.

    Args:
        text: The reply.
        start: The start of the announcement of the answer.
        end: The end of the announcement of the answer.
        answer: The answer. An announcement that repeats it does not supersede it.
    """
    clause = blank_emphasis(text_before(text, start))
    if is_quoted(text, start) or _WITHDRAWN.search(clause) or _MENTIONING.search(clause):
        return True
    if is_retracted(text, end) or _IN_QUESTION.match(text, end):
        return True
    if len(answer) <= MAX_CLAUSE_CHARS and CORRECTION.search(answer):
        return True
    return has_other_answer(text, end, answer)


def has_other_answer(text: str, end: int, answer: str) -> bool:
    """Return whether a text announces another answer than ``answer`` after an offset."""
    if _REVISED.search(text, end):
        return True
    plain_text = blank_emphasis(text)
    if answer and is_replaced(plain_text, end, answer):
        return True
    for match in _LATER.finditer(plain_text, end):
        stated = _sentence(plain_text, match.end()).strip(" \t\r\"'([{$\\:\uff1a")
        stated = stated or plain_text[match.end() :].lstrip()[:MAX_SENTENCE_CHARS]
        is_repeated = stated.casefold().startswith(answer.casefold()) and answer
        if not stated or is_repeated or ABOUT_ANSWER.match(stated):
            continue
        if not is_mentioned(text, match.start(), match.end()):
            return True
    return False


def is_replaced(plain_text: str, end: int, answer: str) -> bool:
    """Return whether a text after an offset calls another answer right, or replaces this one."""
    for match in _CALLED_RIGHT.finditer(plain_text, end):
        stated = match["name"] or match["value"]
        if not stated.strip(" \"'").casefold().startswith(answer.casefold()):
            return True
    replaced = (match["replaced"] for match in _REPLACED.finditer(plain_text, end))
    return any(text.strip(" \"'").casefold() == answer.casefold() for text in replaced)
