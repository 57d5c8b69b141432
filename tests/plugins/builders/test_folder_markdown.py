"""Markdown for cards: text from a corpus is never markup."""

from markdown_it import MarkdownIt

from harness.plugins.builders.folder import inline, quoted, rendered


def test_a_card_says_what_it_was_given() -> None:
    facts = {"a|b\n*c*": "<d>", "share": 0.5, "parts": [{"n": 1_000}, {}, {"<e>": None}], "f": {}}
    card = rendered("collie/card.md.j2", name="<i>", instances=2_000, facts=facts)
    html = MarkdownIt("commonmark").enable("table").render(card)
    assert "<h1>&lt;i&gt;</h1>" in html
    assert "2,000 instances" in html
    assert "<td>a|b *c*</td>" in html
    assert "<td>&quot;&lt;d&gt;&quot;</td>" in html
    assert "<td>&lt;e&gt;</td>" in html
    assert html.count("<table>") == 3
    assert html.count("<tr>") == 3 + 2 + 2


def test_values_are_formatted() -> None:
    assert [*map(inline, (None, 1_000, 0.5, "a\tb"))] == ["-", "1,000", "0.500", "a b"]


def test_hostile_text_stays_text() -> None:
    text = "<script>alert(1)</script>\n\n# head\n![x](http://example.org/p.png)\n\x1b[31m"
    for made in (inline(text), quoted(text, 1000)):
        html = MarkdownIt("commonmark").render(made)
        assert "<script" not in html
        assert "<img" not in html
        assert "<h1" not in html
        assert "\x1b" not in html
    assert quoted("a" * 50, 10) == "> aaaaaaaaa…"
