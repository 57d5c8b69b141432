"""Run by Inspect's Python: read a log in full, and print what is in it as JSON."""

import json
import sys

from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries

path = sys.argv[1]
header = read_eval_log(path, header_only=True)
log = read_eval_log(path)
assert log.samples
first = log.samples[0]
assert read_eval_log_sample(path, first.id, first.epoch).output == first.output
print(
    json.dumps(
        {
            "status": header.status,
            "task": header.eval.task,
            "model": header.eval.model,
            "epochs": header.eval.config.epochs,
            "summaries": len(read_eval_log_sample_summaries(path)),
            "metrics": {
                score.name: {name: metric.value for name, metric in score.metrics.items()}
                for score in header.results.scores
            },
            "samples": [
                {
                    "id": sample.id,
                    "epoch": sample.epoch,
                    "roles": [message.role for message in sample.messages],
                    "text": sample.output.completion,
                    "scores": {name: score.value for name, score in sample.scores.items()},
                    "error": sample.error.message if sample.error else None,
                    "outcome": sample.metadata["outcome"],
                    "usage": sample.output.usage and sample.output.usage.total_tokens,
                }
                for sample in log.samples
            ],
        }
    )
)
