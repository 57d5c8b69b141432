"""Tasks in lm-eval's own form, over local JSON: the shapes that people's tasks have."""

from __future__ import annotations

import json
from pathlib import Path

HEAD = """
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}, train: {train}}}}}
test_split: test
metadata: {{version: 1.0}}
"""
ASKS = """
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{answer}}"
output_type: generate_until
generation_kwargs: {until: ["\\n\\n", "Question:"], max_gen_toks: 32, do_sample: false}
"""
EXACT = "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]\n"
CHOICE = """
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_choice: "{{choices}}"
doc_to_target: "{{gold}}"
output_type: multiple_choice
"""
DIGITS = """
  - name: digits
    filter: [{function: regex, regex_pattern: "(-?\\\\d+)"}, {function: take_first}]
"""

SHAPES = {
    "filtered": ASKS
    + EXACT
    + "filter_list:\n  - {name: as-is, filter: [{function: take_first}]}"
    + DIGITS,
    "plain_choice": CHOICE + "metric_list: [{metric: acc}]\n",
    "normalised_choice": CHOICE
    + "metric_list: [{metric: acc}, {metric: acc_norm}, {metric: acc_bytes}]\n",
    "mutual_information": CHOICE + "metric_list: [{metric: acc}, {metric: acc_mutual_info}]\n",
    "rolling": """
doc_to_text: ""
doc_to_target: "{{passage}}"
output_type: loglikelihood_rolling
metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]
""",
    "fixed_shots": ASKS
    + EXACT
    + """
num_fewshot: 2
filter_list:"""
    + DIGITS
    + """
fewshot_config:
  sampler: first_n
  samples:
    - {question: "What is 1 and 1?", answer: "2", choices: [], gold: 0, passage: ""}
    - {question: "What is 2 and 3?", answer: "5", choices: [], gold: 0, passage: ""}
""",
    "sampled_shots": CHOICE
    + "training_split: train\nnum_fewshot: 3\nmetric_list: [{metric: acc}, {metric: acc_norm}]\n",
    "many_metrics": ASKS
    + """
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true, regexes_to_ignore: [" "]}
  - {metric: bleu, aggregation: bleu, higher_is_better: true}
  - {metric: chrf, aggregation: chrf, higher_is_better: true}
""",
    "choice_metrics": CHOICE
    + "metric_list: [{metric: acc}, {metric: mcc}, {metric: brier_score}, {metric: exact_match}]\n",
    "majority": ASKS
    + EXACT
    + """
repeats: 3
filter_list:
  - name: maj@3
    filter:
      - {function: regex, regex_pattern: "(-?\\\\d+)"}
      - {function: majority_vote}
      - {function: take_first}
  - name: first
    filter: [{function: regex, regex_pattern: "(-?\\\\d+)"}, {function: take_first}]
""",
    "own_code": ASKS
    + """
process_docs: !function own.without_the_first
process_results: !function own.closeness
metric_list:
  - {metric: near, aggregation: !function own.worst, higher_is_better: true}
  - {metric: acc, aggregation: mean, higher_is_better: true}
""",
    "last_word": """
doc_to_text: "{{passage.rsplit(' ', 1)[0]}}"
doc_to_target: "{{' ' + passage.rsplit(' ', 1)[1]}}"
output_type: loglikelihood
metric_list: [{metric: perplexity}, {metric: acc}]
""",
    "two_contexts": """
doc_to_text: "{{gold % 2}}"
doc_to_choice: "{{[choices[0] + ' is', choices[1] + ' is']}}"
doc_to_target: "what {{question}} asks."
output_type: multiple_choice
metric_list: [{metric: acc}]
""",
    "tagged_a": CHOICE + "tag: tagged\nmetric_list: [{metric: acc}]\n",
    "tagged_b": ASKS + EXACT + "tag: tagged\n",
}
LEAVES = {
    "leaf_small": CHOICE + "metric_list: [{metric: acc}]\ntest_split: train\n",
    "leaf_large": CHOICE + "metric_list: [{metric: acc}, {metric: acc_norm}]\n",
}
GROUP = """
group: weighed
task: [leaf_small, leaf_large]
aggregate_metric_list:
  - {metric: acc, aggregation: mean, weight_by_size: true}
metadata: {version: 1.0}
"""
CODE = """
import re


def without_the_first(docs):
    return docs.select(range(1, len(docs)))


def closeness(doc, results):
    found = re.search(r"-?\\d+", results[0])
    near = -abs(int(found.group()) - int(doc["answer"])) if found else -100
    return {"near": near, "acc": near == 0}


def worst(items):
    return min(items)
"""
CHAT = (
    """
doc_to_text: "Question: {{question}}"
doc_to_target: "{{answer}}"
output_type: generate_until
description: "Answer with a number."
training_split: train
num_fewshot: 2
gen_prefix: "The answer is"
generation_kwargs: {until: ["\\n\\n", "Q:", "a", "b", "c"], max_gen_toks: 32, top_p: 0.9}
filter_list:
  - {name: as-is, filter: [{function: take_first}]}
"""
    + DIGITS
    + EXACT
)

NAMES = [*SHAPES, "weighed"]


def document(number: int, totals: int = 23) -> dict[str, object]:
    """A row; its sum is less than ``totals``."""
    total = 3 * number % totals
    return {
        "question": f"What is {number} and {total - number}?",
        "answer": str(total),
        "choices": [
            f"it is {total}",
            f"é°—{total + 1}, {number}",
            f"no, {number}",
            f"x{number}, or so",
        ],
        "gold": number % 4,
        "passage": f"{number} and {total - number} are {total}, as naïve Zoë says on day {number}.",
    }


def write(folder: Path, documents: int = 12, totals: int = 23, generation: str = "") -> Path:
    """Write the tasks and their data, and return the folder of tasks.

    ``generation``: further keys of ``generation_kwargs``, in YAML.
    """
    tasks = folder / "tasks"
    (tasks / "deeper").mkdir(parents=True)
    paths = {}
    for name, numbers in (("data", range(documents)), ("train", range(100, 107))):
        paths[name] = folder / f"{name}.json"
        lines = [json.dumps(document(number, totals)) + "\n" for number in numbers]
        paths[name].write_text("".join(lines), "utf-8")
    head = HEAD.format(**paths)
    for name, text in {**SHAPES, **LEAVES, "chat": CHAT}.items():
        place = tasks / "deeper" if name.startswith("tagged") else tasks
        text = text.replace("max_gen_toks: 32", f"max_gen_toks: 32{generation}")
        (place / f"{name}.yaml").write_text(f"task: {name}\n{head}{text}", "utf-8")
    (tasks / "weighed.yaml").write_text(GROUP)
    (tasks / "own.py").write_text(CODE)
    return tasks
