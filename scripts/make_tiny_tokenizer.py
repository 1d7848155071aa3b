"""Make the tokenizer of slugs/cpu/tiny-qwen3: a byte-level BPE of 512 tokens.

It learns from the licence text of this repository and the sentences below, so that the result is the same on
every machine. It needs the ``tokenizers`` library, which every vLLM engine has:

    ~/.local/share/cockpit/engines/cpu-0.32.0/bin/python scripts/make_tiny_tokenizer.py
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "slugs" / "cpu" / "tiny-qwen3" / "tokenizer.json"
VOCABULARY_SIZE = 512
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SENTENCES = """
system user assistant
You are a helpful assistant.
Write a short story about a lighthouse keeper who counts the ships that pass in the night.
What is the capital of the country, and how many people live there?
The server reads the prompt, fills its cache and then answers one token after another.
A pilot looks at the instruments before the start: fuel, pressure, temperature, speed and height.
Explain in simple words how a language model works, and why the first token takes the longest.
Please give me a list of ten things to do on a rainy day, with one sentence for each of them.
There was a small house at the end of the street, and nobody could say who had built it.
If the numbers do not agree, measure again; if they still do not agree, ask what is being measured.
"""


def main() -> None:
    """Train and write tokenizer.json."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    tokenizer.train_from_iterator([licence, *SENTENCES.splitlines()], trainer)
    if tokenizer.get_vocab_size() != VOCABULARY_SIZE:
        raise SystemExit(f"the vocabulary has {tokenizer.get_vocab_size()} tokens, not {VOCABULARY_SIZE}")
    document = json.loads(tokenizer.to_str())
    TARGET.write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
