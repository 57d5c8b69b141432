"""The texts that models are asked with: templates in the top-level folder ``prompts/``.

`read` gives the template of a name, `harness.prompts.template` says what a template may hold.

>>> read("concodeeval/generation_chat").render({"input": "JSON", ...})  # doctest: +SKIP
"""

from harness.prompts.library import Prompt, named, read, read_file

__all__ = ["Prompt", "named", "read", "read_file"]
