"""Builders of benchmarks like COLLIE, ConCodeEval and WildIFEval (``harness build``)."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="Builders of benchmarks like COLLIE, ConCodeEval and WildIFEval.",
    requires=("collie", "concodeeval", "data", "wildifeval"),
    verbs={
        "build": Verb(
            summary="Build your own benchmark.",
            heading="Data and tools",
            target=".verb:build",
            executes=True,
            former_options={"--out": "--output"},
        )
    },
    loaders={
        "gutenberg": ".corpora:GutenbergLoader",
        "jsonl": ".corpora:JsonlLoader",
        "markdown": ".corpora:MarkdownLoader",
        "parquet": ".corpora:ParquetLoader",
        "text": ".corpora:FileLoader",
        "word_list": ".corpora:WordListLoader",
    },
    filters={
        "capitals": ".corpora:capitals",
        "caption": ".corpora:caption",
        "copyright": ".corpora:copyright",
        "no_sentence": ".corpora:no_sentence",
        "pattern": ".corpora:pattern",
        "table": ".corpora:table",
        "url": ".corpora:url",
    },
    post_processors={
        "brackets": ".corpora:brackets",
        "drop_first_line": ".corpora:drop_first_line",
        "markdown": ".corpora:markdown",
        "single_newlines": ".corpora:single_newlines",
        "white_space": ".corpora:white_space",
    },
)
