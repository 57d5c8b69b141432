"""Makes a Llama of random weights with a tokeniser and a chat template: nothing is downloaded.

    .venv-vllm/bin/python tests/plugins/vllm/real/tiny_model.py FOLDER [SPREAD]

Adapters of two ranks are in its folders lora8 and lora32.

It writes nonsense, and so any form that its answers have was put on them by the decoder. Only
its first token is a yes or a no more often than others, for judges to have something to read.
"""

from __future__ import annotations

import json
import string
import sys
from pathlib import Path

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|pad|>"]
WORDS = ["yes", "no", "Yes", "No", "true", "false", "the", "and", "count", "colour", "name"]
MOST_TOKENS = 2048
LAYERS, WIDTH = 2, 64
RANKS = (8, 32)


def make(folder: Path, spread: float = 0.02) -> None:
    """Write model, tokeniser and chat template into a folder.

    spread: Standard deviation of the weights. Answers depend more on the prompt if it is greater.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: place for place, token in enumerate([*SPECIAL, *letters])}
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        for end in range(2, len(word) + 1):
            begin, last = word[: end - 1], word[end - 1]
            if begin + last not in vocabulary:
                vocabulary[begin + last] = len(vocabulary)
                merges.append((begin, last))
    assert set(string.ascii_letters) <= vocabulary.keys()
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|end|>",
        pad_token="<|pad|>",
        model_max_length=MOST_TOKENS,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=WIDTH,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=MOST_TOKENS,
        bos_token_id=None,
        eos_token_id=vocabulary["<|end|>"],
        pad_token_id=vocabulary["<|pad|>"],
        tie_word_embeddings=False,
        initializer_range=spread,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        begins = torch.randn(config.hidden_size)
        model.model.embed_tokens.weight[vocabulary["<|assistant|>"]] = begins
        for word in ("yes", "no"):
            model.lm_head.weight[vocabulary[word]] += 0.5 * begins / begins.norm()
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


def make_adapter(folder: Path, rank: int) -> None:
    """Write a LoRA adapter of that model into a folder; other answers than the model's are sure."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(1)
    changed = ["q_proj", "v_proj"]
    weights = {}
    for layer in range(LAYERS):
        for module in changed:
            name = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            weights[f"{name}.lora_A.weight"] = torch.randn(rank, WIDTH)
            weights[f"{name}.lora_B.weight"] = torch.randn(WIDTH, rank)
    folder.mkdir()
    save_file(weights, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 2 * rank}
    (folder / "adapter_config.json").write_text(json.dumps({**config, "target_modules": changed}))


if __name__ == "__main__":
    make(Path(sys.argv[1]), *map(float, sys.argv[2:3]))
    for of_adapter in RANKS:
        make_adapter(Path(sys.argv[1]) / f"lora{of_adapter}", of_adapter)
