"""Markdown for cards: text from a corpus is never markup."""

from markdown_it import MarkdownIt

from harness.plugins.builders.folder import inline, quoted, table


def test_a_table_says_what_it_was_given() -> None:
    row = {"name": "a|b\n*c*", "n": 1_000, "share": 0.5}
    made = table([row, {"name": "<d>", "n": None, "share": None}])
    html = MarkdownIt("commonmark").enable("table").render(made)
    assert "<td>a|b *c*</td>" in html
    assert "<td>&lt;d&gt;</td>" in html
    assert ">1,000</td>" in html
    assert ">0.500</td>" in html
    assert html.count("<tr>") == 3


def test_hostile_text_stays_text() -> None:
    text = "<script>alert(1)</script>\n\n# head\n![x](http://example.org/p.png)\n\x1b[31m"
    for made in (inline(text), quoted(text, 1000)):
        html = MarkdownIt("commonmark").render(made)
        assert "<script" not in html
        assert "<img" not in html
        assert "<h1" not in html
        assert "\x1b" not in html
    assert quoted("a" * 50, 10) == "> aaaaaaaaa…"
