"""Builders of benchmarks like COLLIE, ConCodeEval and WildIFEval (``harness build``)."""

from harness.plugin import Plugin, Verb

plugin = Plugin(
    summary="Builders of benchmarks like COLLIE, ConCodeEval and WildIFEval.",
    requires=("collie", "concodeeval", "data", "wildifeval"),
    verbs={
        "build": Verb(
            summary="Build your own benchmark.",
            heading="Data and tools",
            place=".verb:build",
            executes=True,
            former_options={"--out": "--output"},
        )
    },
    loaders={
        "gutenberg": ".loaders:GutenbergLoader",
        "jsonl": ".loaders:JsonlLoader",
        "markdown": ".loaders:MarkdownLoader",
        "parquet": ".loaders:ParquetLoader",
        "text": ".loaders:FileLoader",
        "word_list": ".loaders:WordListLoader",
    },
    filters={
        "capitals": ".filters:capitals",
        "caption": ".filters:caption",
        "copyright": ".filters:copyright",
        "no_sentence": ".filters:no_sentence",
        "pattern": ".filters:pattern",
        "table": ".filters:table",
        "url": ".filters:url",
    },
    post_processors={
        "brackets": ".filters:brackets",
        "drop_first_line": ".filters:drop_first_line",
        "markdown": ".filters:markdown",
        "single_newlines": ".filters:single_newlines",
        "white_space": ".filters:white_space",
    },
)
