"""Makes a GGUF file with a Llama of random weights: nothing is downloaded.

    .venv-llama/bin/python tests/backends/servers/tiny_gguf.py FILE

It writes nonsense, and so any form that its answers have was put on them by the decoder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|end|>", "<|begin|>", "<|system|>", "<|user|>", "<|assistant|>"]
NEWLINE, SPACE = "\u010a", "\u0120"  # as in GPT-2's vocabulary
LAYERS, HEADS, WIDTH, INNER = 2, 2, 64, 128
SPREAD = 0.2  # standard deviation of the weights: answers depend on the prompt


def make(path: Path) -> None:
    """Write the model with its tokeniser and chat template into a file."""
    words = ["yes", "no"]
    merges = ["y e", "ye s", "n o"]
    # No bytes of other characters: the server would generate until a character is complete.
    tokens = [*SPECIAL, NEWLINE, SPACE, *map(chr, range(33, 127)), "ye", *words]
    kinds = [gguf.TokenType.CONTROL] * len(SPECIAL)
    kinds += [gguf.TokenType.NORMAL] * (len(tokens) - len(SPECIAL))
    random = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return random.normal(0, SPREAD, shape).astype(np.float32)

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_add_bos_token(True)
    writer.add_chat_template(CHAT_TEMPLATE)
    writer.add_tensor("token_embd.weight", weights(len(tokens), WIDTH))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    output = weights(len(tokens), WIDTH)
    output[: len(SPECIAL)] = 0  # never the likeliest tokens
    writer.add_tensor("output.weight", output)
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights(WIDTH, WIDTH))
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(WIDTH, np.float32))
        writer.add_tensor(f"blk.{layer}.ffn_gate.weight", weights(INNER, WIDTH))
        writer.add_tensor(f"blk.{layer}.ffn_up.weight", weights(INNER, WIDTH))
        writer.add_tensor(f"blk.{layer}.ffn_down.weight", weights(WIDTH, INNER))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
