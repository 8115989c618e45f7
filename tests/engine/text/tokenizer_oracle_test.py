"""Compares Rally's tokenizers, token for token, with the packages `tokenizers` and `tiktoken`.

    tokenizer_oracle_test.py TOKENIZE_MAIN [--tiktoken-ranks gpt2.tiktoken]

Small tokenizers of every supported family are trained on seeded mixed text, saved, and run over
the whole text by both sides. Exit code 77 (skipped) without the package `tokenizers`.
"""

import argparse
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

try:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
    from tokenizers import pre_tokenizers, processors, trainers
except ImportError:
    print("skipped: the Python package `tokenizers` is not installed")
    sys.exit(77)

GPT2_REGEX = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
LLAMA3_REGEX = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
                r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2_REGEX = LLAMA3_REGEX.replace(r"\p{N}{1,3}", r"\p{N}")
SP_SPECIAL = ["<unk>", "<s>", "</s>"]


# ---- the text ----

CODE = """def f(x):\n    return  x + 1\n\n\nfor (int i = 0; i < n; ++i) {\n\tsum += a[i] * b[i];\n}

if (!ok) throw std::runtime_error("it's 100% wrong: 0x1F600");\r\n\r\n  /* we'll, WE'LL, I'Ve
 */\n"""
SCRIPTS = [
    (0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA),
    (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE5B), (0x1100, 0x11FF), (0x3041, 0x30FF),
    (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x300, 0x36F), (0x2000, 0x206F), (0x2150, 0x2BFF),
    (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF), (0xFB00, 0xFDFF), (0x1D400, 0x1D7FF),
]
EMOJI = ["\U0001F469\u200D\U0001F469\u200D\U0001F467\u200D\U0001F466", "\U0001F44D\U0001F3FD",
         "\U0001F1E9\U0001F1EA", "\u2764\uFE0F", "\U0001F999"]
BLANKS = [" ", "  ", "    ", "\t", "\n", "\r\n", "\n\n  ", "\u00a0", "\u3000", "\u2028", "\x85",
          "\u180e", "\u200b", " " * 37, "\t" * 9, "\n" * 12, " \n \r\n  ", "\x0b\x0c"]
WORDS = ("the of and it's I'll we've DON'T naïve café cafe\u0301 A\u030A ſ 'S 'ſ Straße ﬁn "
         "hello Hello world 12345 3.14159 1,000,000 ٣٤٥ Ⅷ ½ x² foo_bar __init__ -> != ... "
         "ά α\u0301β ▁ ▁▁a _ <0x0A> <s> </s> <|endoftext|> <|im_end|> <tool_call> [INST] "
         "\u1e9b\u0323 각 "
         "مرحبا بالعالم שלום 你好世界 こんにちは 안녕하세요 Привет čeština").split(" ")
EDGES = ["", " ", "  ", "a  b", "    return  x", "\n\n  x", "x   ", " x", "\t\tx", "\u00a0 x",
         "a\r\nb", "\r\n", "a \n b", "'", "''s", "'S's", "a'lL", "1234567", "１２３４", " 1", "- -",
         "<|endoftext|>", "a<|endoftext|> b", "<|endoftext", "<<|endoftext|>>", " <tool_call> ",
         "<tool_call><tool_call>", "e\u0301", "\u0301", "\u0344", "\ufb1d", "\u0958", "\u2126",
         "\u1100\u1161\u11a8", "▁", " ▁", "▁ ", "\x00", "\ufeff", "\ufffd"]


def pseudo_word(rng):
    low, high = rng.choice(SCRIPTS)
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 8)))


def mixed_text(rng, size):
    makers = [lambda: rng.choice(WORDS), lambda: rng.choice(WORDS), lambda: pseudo_word(rng),
              lambda: rng.choice(EMOJI), lambda: str(rng.randint(0, 10 ** rng.randint(1, 12)))]
    parts, length = [], 0
    while length < size:
        part = CODE if rng.random() < 0.01 else rng.choice(makers)()
        blank = " " if rng.random() < 0.7 else rng.choice(BLANKS + [""])
        parts += [part, blank]
        length += len((part + blank).encode())
    text = "".join(parts)
    # Code points that the oldest of the compared Unicode tables do not know are another matter.
    return "".join(c for c in text if unicodedata.category(c) not in ("Cn", "Cs"))


def broken_bytes(rng, size):
    pieces = [b"\xff", b"\xc0\xaf", b"\xe2\x96", b"\xf0\x9f\xa6", b"\xed\xa0\x80",
              b"\xf4\x90\x80\x80", b"\x80", b"ok ", "é".encode(), "🦙".encode(),
              b"\xf0\x80", b"\xe0\x80", b"\xc3"]
    return b"".join(rng.choice(pieces) for _ in range(size // 2))


def make_records(seed):
    rng = random.Random(seed)
    records = [edge.encode() for edge in EDGES]
    records += [mixed_text(rng, rng.choice([30, 300, 3000])).encode() for _ in range(300)]
    records += [mixed_text(rng, 60_000).encode() for _ in range(12)]
    records += [broken_bytes(rng, 200) for _ in range(50)]
    records += [bytes(rng.randrange(256) for _ in range(300)) for _ in range(50)]
    records += [c.encode() * 3000
                for c in ["a", "_", "中", " ", "\n", "\u0301", "🦙", "1", "a "]]
    return records


# ---- the tokenizers ----

def train_bpe(texts, pre_tokenizer, normalizer=None, vocab_size=1500):
    """The vocabulary and merges of a small BPE model, as in tokenizer.json."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    byte_level = "ByteLevel" in repr(pre_tokenizer)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, show_progress=False, limit_alphabet=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if byte_level else [])
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def split_stages(name):
    """The pre-tokenizer behind a name of `tokenizer.ggml.pre`, as tokenizer.json files have it."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if name in ("gpt-2", "default"):
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if name in ("smollm", "refact", "starcoder"):
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    regex = {"llama-bpe": LLAMA3_REGEX, "qwen2": QWEN2_REGEX}[name]
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(regex), behavior="isolated", invert=False), byte_level])


def byte_level_tokenizer(vocab, merges, name, special, added=()):
    tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=name == "llama-bpe"))
    tokenizer.pre_tokenizer = split_stages(name)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    if name == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    tokenizer.add_tokens(list(added))
    return tokenizer


def with_bos(tokenizer, bos):
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))])
    return tokenizer


def sentencepiece_tokenizer(vocab, merges, style):
    """Llama 2's tokenizer.json (style "legacy") and those with Metaspace."""
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    if style == "legacy":
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        scheme, split = style
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if style == "legacy" or style[0] != "never":
        steps.append(decoders.Strip(content=" ", left=1))
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t in SP_SPECIAL])
    return with_bos(tokenizer, "<s>")


def gguf_byte_level_tokenizer(fields):
    """The `tokenizers` object for a "gpt2" model's GGUF fields (names as in GgufVocabulary)."""
    types = fields["token_types"]
    vocab = {t: i for i, t in enumerate(fields["tokens"])}
    special = [t for i, t in enumerate(fields["tokens"]) if types[i] in (2, 3)]
    added = [AddedToken(t, normalized=False)
             for i, t in enumerate(fields["tokens"]) if types[i] == 4]
    merges = [tuple(line.split(" ")) for line in fields["merges"]]
    tokenizer = byte_level_tokenizer(vocab, merges, fields["pre"], special, added)
    if fields["add_bos"]:
        with_bos(tokenizer, fields["tokens"][fields["bos_id"]])
    return tokenizer


def gguf_fields(path):
    """The fields of GgufVocabulary from a GGUF file, through the package `gguf`."""
    from gguf import GGUFReader
    reader = GGUFReader(path)

    def get(key, default):
        field = reader.fields.get("tokenizer.ggml." + key)
        return default if field is None else field.contents()
    return {"model": get("model", ""), "pre": get("pre", ""), "tokens": get("tokens", []),
            "scores": get("scores", []), "token_types": get("token_type", []),
            "merges": get("merges", []), "bos_id": get("bos_token_id", -1),
            "eos_id": get("eos_token_id", -1), "unknown_id": get("unknown_token_id", -1),
            "add_bos": get("add_bos_token", False)}


def merges_of_scores(vocab, scores):
    """The merges that transformers derives from a SentencePiece model."""
    merges = []
    for piece in vocab:
        pairs = [(piece[:i], piece[i:]) for i in range(1, len(piece))
                 if piece[:i] in vocab and piece[i:] in vocab]
        merges += sorted(pairs, key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
    return sorted(merges, key=lambda pair: -scores[vocab[pair[0] + pair[1]]])


# ---- the comparison ----

def run_rally(program, tokenizer_path, records_path, special):
    command = [program, tokenizer_path, records_path] + (["special"] if special else [])
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.stderr.decode()}")
    lines = done.stdout.decode("ascii").split("\n")
    return [([int(i) for i in ids.split()], bytes.fromhex(text).decode())
            for ids, text in zip(lines[0::2], lines[1::2])]


def first_difference(ours, theirs):
    return next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b),
                min(len(ours), len(theirs)))


class Comparison:
    def __init__(self, program, folder, records):
        self.program, self.folder, self.records = program, folder, records
        self.records_path = folder / "records"
        self.records_path.write_bytes(
            b"".join(struct.pack("<I", len(record)) + record for record in records))
        self.texts = [record.decode("utf-8", errors="replace") for record in records]
        self.failures = 0

    def check(self, name, path, encode, decode, special=False):
        tokens, failures = 0, []
        results = run_rally(self.program, path, self.records_path, special)
        assert len(results) == len(self.records)
        for number, (text, (ids, decoded)) in enumerate(zip(self.texts, results)):
            expected = encode(text)
            tokens += len(expected)
            if ids != expected:
                at = first_difference(ids, expected)
                failures.append(f"record {number}, token {at}: {ids[at:at + 8]} instead of "
                                f"{expected[at:at + 8]}, which is {decode(expected[at:at + 8])!r}")
            elif decoded != decode(expected):
                at = first_difference(decoded, decode(expected))
                failures.append(f"record {number} decodes to {decoded[at:at + 20]!r} instead of "
                                f"{decode(expected)[at:at + 20]!r} at {at}")
        print(f"{name}{' (special)' if special else ''}: {tokens} tokens, "
              f"{len(failures)} differences")
        print("\n".join("  " + failure for failure in failures[:10]), end="\n" * bool(failures))
        self.failures += len(failures)

    def check_tokenizer(self, name, tokenizer, path=None):
        modes = (False,) if path else (False, True)  # one is enough for other forms of a model
        if path is None:
            path = self.folder / name
            path.mkdir()
            tokenizer.save(str(path / "tokenizer.json"))
        for special in modes:
            tokenizer.encode_special_tokens = not special
            self.check(name, path, lambda text: tokenizer.encode(text).ids,
                       lambda ids: tokenizer.decode(ids), special)


def check_byte_level(comparison, training_texts):
    special = ["<|endoftext|>", "<|im_end|>"]
    for name in ("gpt-2", "smollm", "llama-bpe", "qwen2"):
        normalizer = normalizers.NFC() if name == "qwen2" else None
        vocab, merges = train_bpe(training_texts, split_stages(name), normalizer)
        if name == "llama-bpe":
            merges = merges[:600]  # leaves pieces that only ignore_merges reaches
        added = [AddedToken("<tool_call>", normalized=False), AddedToken("ά"),
                 AddedToken("[INST]", lstrip=True, rstrip=True)]
        tokenizer = byte_level_tokenizer(vocab, merges, name, special, added)
        if name == "llama-bpe":
            with_bos(tokenizer, "<|endoftext|>")
        comparison.check_tokenizer(name, tokenizer)
        if name == "gpt-2":
            check_vocab_files(comparison, vocab, merges)
        check_gguf_byte_level(comparison, name, vocab, merges)
    tokenizer = byte_level_tokenizer(vocab, merges, "gpt-2", special)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    comparison.check_tokenizer("prefix-space", tokenizer)


def check_vocab_files(comparison, vocab, merges):
    path = comparison.folder / "vocab-and-merges"
    path.mkdir()
    vocab = dict(vocab) | {"<|endoftext|>": len(vocab)}
    (path / "vocab.json").write_text(json.dumps(vocab))
    lines = ["#version: 0.2"] + [" ".join(merge) for merge in merges]
    (path / "merges.txt").write_text("\n".join(lines) + "\n")
    tokenizer = byte_level_tokenizer(vocab, merges, "gpt-2", ["<|endoftext|>"])
    comparison.check_tokenizer("vocab-and-merges", tokenizer, path)


def check_gguf_byte_level(comparison, name, vocab, merges):
    tokens = sorted(vocab, key=vocab.get) + ["<|endoftext|>", "<|im_end|>", "<tool_call>"]
    fields = {"model": "gpt2", "pre": name, "tokens": tokens, "scores": [],
              "token_types": [1] * len(vocab) + [3, 3, 4],
              "merges": [" ".join(merge) for merge in merges], "bos_id": len(vocab),
              "eos_id": len(vocab) + 1, "unknown_id": -1, "add_bos": name == "llama-bpe"}
    path = comparison.folder / f"gguf-{name}.json"
    path.write_text(json.dumps(fields))
    comparison.check_tokenizer(f"gguf-{name}", gguf_byte_level_tokenizer(fields), path)


def check_sentencepiece(comparison, training_texts):
    learned, merges = train_bpe(training_texts, pre_tokenizers.Metaspace())
    # `tokenizers` would let merges make a control token out of plain text; Rally does not.
    merges = [(a, b) for a, b in merges if a + b not in SP_SPECIAL]
    tokens = SP_SPECIAL + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += [token for token in sorted(learned, key=learned.get) if token not in tokens]
    vocab = {token: i for i, token in enumerate(tokens)}
    comparison.check_tokenizer("sp-legacy", sentencepiece_tokenizer(vocab, merges, "legacy"))
    for scheme, split in (("first", False), ("always", True), ("never", False)):
        name = f"sp-{scheme}-{'split' if split else 'whole'}"
        comparison.check_tokenizer(name, sentencepiece_tokenizer(vocab, merges, (scheme, split)))

    scores = [0.0] * 259 + [-float(i) for i in range(len(tokens) - 259)]
    fields = {"model": "llama", "pre": "default", "tokens": tokens, "scores": scores,
              "token_types": [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259), "merges": [],
              "bos_id": 1, "eos_id": 2, "unknown_id": 0, "add_bos": True}
    path = comparison.folder / "gguf-llama.json"
    path.write_text(json.dumps(fields))
    pieces = {token: i for token, i in vocab.items() if i >= 259}
    tokenizer = sentencepiece_tokenizer(vocab, merges_of_scores(pieces, scores), "legacy")
    comparison.check_tokenizer("gguf-llama", tokenizer, path)


def check_tiktoken(comparison, ranks_path):
    try:
        import tiktoken
        from tiktoken.load import load_tiktoken_bpe
    except ImportError:
        print("tiktoken: skipped, the package is not installed")
        return
    if not ranks_path or not pathlib.Path(ranks_path).is_file():
        print("tiktoken: skipped, no ranks file was given")
        return
    path = comparison.folder / "tiktoken"
    path.mkdir()
    (path / "gpt2.tiktoken").write_bytes(pathlib.Path(ranks_path).read_bytes())
    encoding = tiktoken.Encoding("gpt2", pat_str=GPT2_REGEX,
                                 mergeable_ranks=load_tiktoken_bpe(str(path / "gpt2.tiktoken")),
                                 special_tokens={"<|endoftext|>": 50256})
    comparison.check("tiktoken", path, encoding.encode_ordinary, encoding.decode)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--tiktoken-ranks")
    parser.add_argument("--gguf", default=os.environ.get("RALLY_SMOLLM2_GGUF"),
                        help="also a real byte-level GGUF file, by the package `gguf`")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    records = make_records(arguments.seed)
    print(f"{len(records)} records, {sum(map(len, records))} bytes, seed {arguments.seed}")
    rng = random.Random(arguments.seed + 1)
    training_texts = [mixed_text(rng, 2000) for _ in range(100)]
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(arguments.program, pathlib.Path(folder), records)
        check_byte_level(comparison, training_texts)
        check_sentencepiece(comparison, training_texts)
        check_tiktoken(comparison, arguments.tiktoken_ranks)
        if arguments.gguf:
            fields = gguf_fields(arguments.gguf)
            path = comparison.folder / "gguf-file.json"
            path.write_text(json.dumps(fields))
            comparison.check_tokenizer("gguf-file", gguf_byte_level_tokenizer(fields), path)
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    sys.exit(main())
