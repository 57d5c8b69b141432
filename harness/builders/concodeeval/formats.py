"""Strings that have a format, and strings that nearly have it.

The formats are those of Draft 2020-12 (section 7.3), which are those of the paper's recorded
schemas: one of theirs, ``data-time``, is a misspelt ``date-time`` that no validator knows, and so
constrains nothing in 9 of their 150 strings.

Each format has a shortest form, so that a bound on the length leaves something to draw.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.builders.concodeeval.words import WORDS
from harness.builders.draws import Draws

ACCENTED = ("café", "naïve", "über", "señor", "crème", "fjörd")
HEX = "0123456789abcdef"


def _word(draws: Draws) -> str:
    return draws.choice(WORDS)


def _short(draws: Draws) -> str:
    return draws.choice(("a", "b", "x", "id", "go", "ab"))


def _name(draws: Draws) -> str:
    return _short(draws) if draws.chance(0.4) else _word(draws)


def _digits(draws: Draws, low: int, high: int, width: int = 2) -> str:
    return str(draws.integer(low, high)).zfill(width)


def _hex(draws: Draws, size: int) -> str:
    return "".join(draws.choice(HEX) for _ in range(size))


def _date(draws: Draws) -> str:
    if draws.chance(0.2):
        return draws.choice(("2024-02-29", "2000-12-31", "1999-01-01"))
    return f"{draws.integer(1950, 2049)}-{_digits(draws, 1, 12)}-{_digits(draws, 1, 28)}"


def _time(draws: Draws) -> str:
    clock = ":".join((_digits(draws, 0, 23), _digits(draws, 0, 59), _digits(draws, 0, 59)))
    fraction = f".{_digits(draws, 1, 999, 3)}" if draws.chance(0.2) else ""
    return clock + fraction + draws.choice(("Z", "Z", "+01:00", "-05:30"))


def _duration(draws: Draws) -> str:
    if draws.chance(0.2):
        return f"P{draws.integer(1, 9)}W"
    date = "".join(f"{draws.integer(1, 9)}{unit}" for unit in "YMD" if draws.chance(0.5))
    time = "".join(f"{draws.integer(1, 59)}{unit}" for unit in "HMS" if draws.chance(0.4))
    # RFC 3339, appendix A: no unit may be left out between two that are there.
    date = date if "Y" not in date or "D" not in date or "M" in date else date.split("D")[0][:2]
    time = time if "H" not in time or "S" not in time or "M" in time else time.split("H")[0] + "H"
    return f"P{date}T{time}" if time else f"P{date or '1D'}"


def _host(draws: Draws) -> str:
    return f"{_name(draws)}.{draws.choice(('com', 'org', 'io', 'example'))}"


def _email(draws: Draws) -> str:
    tag = draws.choice(("", "", f".{_word(draws)}", f"+{_short(draws)}"))
    return f"{_name(draws)}{tag}@{_host(draws)}"


def _ipv4(draws: Draws) -> str:
    high = draws.choice((9, 255, 255))
    return ".".join(str(draws.integer(0, high)) for _ in range(4))


def _ipv6(draws: Draws) -> str:
    if draws.chance(0.3):
        return draws.choice(("::", "::1", "fe80::1", f"2001:db8::{_hex(draws, 2)}"))
    return ":".join(_hex(draws, 4) for _ in range(8))


def _path(draws: Draws) -> str:
    return "/".join(_name(draws) for _ in range(draws.integer(1, 4)))


def _uri(draws: Draws) -> str:
    if draws.chance(0.3):
        return f"{draws.choice(('urn:a', 'tag', 'data', 'mid'))}:{_name(draws)}"
    query = draws.choice(("", f"?{_short(draws)}={draws.integer(0, 99)}", f"#{_word(draws)}"))
    return f"https://{_host(draws)}/{_path(draws)}{query}"


def _uri_reference(draws: Draws) -> str:
    if draws.chance(0.05):
        return draws.choice(("", "a", "#"))
    forms: tuple[Callable[[], str], ...] = (
        lambda: _uri(draws),
        lambda: f"/{_path(draws)}",
        lambda: f"../{_path(draws)}",
        lambda: f"#{_name(draws)}",
        lambda: f"?{_name(draws)}={draws.integer(0, 9)}",
    )
    return draws.choice(forms)()


def _pointer(draws: Draws) -> str:
    if draws.chance(0.1):
        return ""
    ends = ("", f"/{draws.integer(0, 9)}", "/a~1b", "/m~0n")
    return f"/{_path(draws)}{draws.choice(ends)}"


def _template(draws: Draws) -> str:
    variable = f"{{{draws.choice(('', '', '?', '/', '#'))}{_name(draws)}}}"
    return variable if draws.chance(0.4) else f"https://{_host(draws)}/{_path(draws)}/{variable}"


def _regex(draws: Draws) -> str:
    some = draws.choice(("[a-z]", "[0-9]", ".", "[^,]", "\\w"))
    many = draws.choice(("+", "*", "?", "{2}", "{1,4}"))
    start = draws.choice(("", "^", _word(draws)))
    return f"{start}{some}{many}{draws.choice(('', '$', f'(?:{_word(draws)}|{_short(draws)})'))}"


VALID: dict[str, Callable[[Draws], str]] = {
    "date": _date,
    "time": _time,
    "date-time": lambda draws: f"{_date(draws)}T{_time(draws)}",
    "duration": _duration,
    "email": _email,
    "idn-email": lambda draws: f"{draws.choice(ACCENTED)}@{_host(draws)}",
    "hostname": lambda draws: _name(draws) if draws.chance(0.3) else _host(draws),
    "idn-hostname": lambda draws: f"{draws.choice(ACCENTED)}.{draws.choice(('com', 'org'))}",
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "uri": _uri,
    "uri-reference": _uri_reference,
    "iri": lambda draws: (
        f"tag:{_name(draws)}"
        if draws.chance(0.3)
        else f"https://{_host(draws)}/{draws.choice(ACCENTED)}"
    ),
    "iri-reference": lambda draws: (
        f"/{draws.choice(ACCENTED)}" if draws.chance(0.4) else _uri_reference(draws)
    ),
    "uri-template": _template,
    "uuid": lambda draws: "-".join(_hex(draws, size) for size in (8, 4, 4, 4, 12)),
    "json-pointer": _pointer,
    "relative-json-pointer": lambda draws: (
        f"{draws.integer(0, 9)}{'#' if draws.chance(0.3) else _pointer(draws)}"
    ),
    "regex": _regex,
}
"""Draws a string of each format."""

FORMATS: tuple[str, ...] = tuple(VALID)

INVALID: dict[str, tuple[str, ...]] = {
    "date": ("2023-02-29", "2023-13-01", "2023-4-1", "01/04/2023", "2023-04-31T"),
    "time": ("10:30:00", "25:00:00Z", "10:61:00Z", "10:30Z", "noon"),
    "date-time": ("2023-04-01 10:30:00", "2023-04-01T10:30:00", "2023-04-01T25:00:00Z", "now"),
    "duration": ("P", "1D", "P1H", "P1DT", "PT1D", "P-1Y", "one day"),
    "email": ("anna", "anna@", "@example.com", "anna at example.com", "a@@b.org"),
    "idn-email": ("café", "café@", "@café.com", "naïve at café.com"),
    "hostname": ("-host", "host-.com", "my_host", "a..b", "exa mple.com"),
    "idn-hostname": ("-café", "café..com", "my café.com", "naïve_.org"),
    "ipv4": ("1.2.3", "1.2.3.256", "1.2.3.4.5", "01.2.3.4", "a.b.c.d"),
    "ipv6": ("1::2::3", "12345::", ":1", "1:2:3:4:5:6:7", "fe80::g"),
    "uri": ("example.com", "/a/b", "http://a b.com", "://x", "https://[::1"),
    "uri-reference": ("a b", "%zz", "\\\\a\\b", "#a#b", "http://exa mple.com/"),
    "iri": ("café", "/a/é", "http://a é.com", "://é"),
    "iri-reference": ("a é", "%zé", "\\\\é", "#é#b", "http://caf é.com/"),
    "uri-template": ("{a", "a}", "{}", "https://a.com/{b c}", "/x/{{y}}", "{a b}"),
    "uuid": (
        "550e8400-e29b-41d4-a716",
        "550e8400e29b41d4a716446655440000",
        "550e8400-e29b-41d4-a716-44665544000g",
        "not-a-uuid",
    ),
    "json-pointer": ("a/b", "/a~", "/a~2b", "#/a"),
    "relative-json-pointer": ("/a", "-1/a", "01/a", "a", "1a"),
    "regex": ("[a-z", "(ab", "*a", "a{2,1}", "[z-a]", "a)"),
}
"""Strings that have not the format, most of them by little."""
