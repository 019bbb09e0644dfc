"""Writes small tokenizers of the kinds that published models have, and what Hugging Face's own library (in Rust, by its Python
package) makes of some texts: pip install tokenizers==0.23.3; python make_tokenizers.py ../../../src/tokenizer/pattern.ts

- shunya: trained here by that library with the pattern of this project, to compare its trainer with ours.
- gpt2, llama2, llama3, qwen, smollm: the parts of those models' tokenizer.json, with small vocabularies of our own.
"""

import json
import os
import random
import re
import sys

from tokenizers import Regex, Tokenizer, decoders as D, models, normalizers as N, pre_tokenizers as P
from tokenizers import processors as X, trainers as T

here = os.path.dirname(os.path.abspath(__file__))
text = open(os.path.join(here, "text.txt"), encoding="utf8", newline="").read()
lines = text.split("\n")
alphabet = P.ByteLevel.alphabet()
end = "<|endoftext|>"


def our_pattern(source):
    """The pattern as the project's source spells it."""
    names = dict(re.findall(r'^const (\w+) = "(.*)";$', source, re.M))
    parts = re.search(r"wordPattern = \[(.*?)\]\.join", source, re.S).group(1)
    strings = re.findall(r'[`"](.*?)[`"],\n', parts)
    filled = "|".join(re.sub(r"\$\{(\w+)\}", lambda m: names[m.group(1)], s) for s in strings)
    return filled.replace("\\u200C", "\u200c").replace("\\u200D", "\u200d").replace("\\\\", "\\")


def byte_level(pattern, size, normalizer=None, ignore_merges=False, before=None):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        t.normalizer = normalizer
    parts = [P.Split(Regex(pattern), "isolated")] if pattern else []
    t.pre_tokenizer = P.Sequence(parts + [P.ByteLevel(add_prefix_space=False, use_regex=not pattern)])
    t.decoder = D.ByteLevel()
    specials = [end, "<|im_start|>", "<|im_end|>"]
    trainer = T.BpeTrainer(vocab_size=size, special_tokens=specials, initial_alphabet=alphabet, show_progress=False)
    t.train_from_iterator(lines, trainer)
    if before:
        t.pre_tokenizer = P.Sequence([before] + parts + [P.ByteLevel(add_prefix_space=False, use_regex=not pattern)])
    return t


def llama2():
    specials = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])
    t.pre_tokenizer = P.Metaspace(prepend_scheme="never")
    t.train_from_iterator(lines[:8], T.BpeTrainer(vocab_size=600, special_tokens=specials, show_progress=False))
    j = json.loads(t.to_str())
    j["pre_tokenizer"] = None
    j["added_tokens"] = j["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(j))
    t.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    t.post_processor = X.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def llama3():
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    t = byte_level(pattern, 500, ignore_merges=True)
    start = X.TemplateProcessing(single=f"{end} $A", special_tokens=[(end, 0)])
    t.post_processor = X.Sequence([X.ByteLevel(trim_offsets=False), start])
    return t


def qwen():
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    return byte_level(pattern, 500, normalizer=N.NFC())


def odd_texts():
    """Text that nobody writes: white space of all kinds, marks, joiners, control characters, characters that no token has."""
    random.seed(1)
    pool = list(" \t\n\r\u0085\u00a0\u200b\u200c\u200d\ufeff\u3000\u2028'aZé9०१भािक्षத்தி👩❤\ufe0f🙂!?-_.0\u0000\u001c\ufffd\U0010ffff")
    texts = ["".join(random.choice(pool) for _ in range(random.randint(1, 24))) for _ in range(60)]
    return texts + ["\ufeffa\ufeff", "१२ a१ 12", " ", "\n\n\n x", "e\u0301 क\u093c", f"a{end}b", "<s> x </s><|im_start|>", "<|end"]


def main():
    pattern = our_pattern(open(sys.argv[1], encoding="utf8").read())
    made = {
        "shunya": byte_level(pattern, 490),
        "gpt2": byte_level(None, 500),
        "llama2": llama2(),
        "llama3": llama3(),
        "qwen": qwen(),
        "smollm": byte_level(None, 500, before=P.Digits(individual_digits=True)),
    }
    texts = [line for line in lines if line] + [text[:400]] + odd_texts()
    expected = {}
    for name, t in made.items():
        t.save(os.path.join(here, f"{name}.json"), pretty=False)
        rows = []
        for s in texts:
            ids = t.encode(s, add_special_tokens=False).ids
            around = t.encode(s).ids
            extra = {} if around == ids else {"before": around[: len(around) - len(ids)]}
            decoded = t.decode(ids, skip_special_tokens=False)
            rows.append({"ids": ids, **extra, **({} if decoded == s else {"decoded": decoded})})
        expected[name] = rows
    with open(os.path.join(here, "expected.json"), "w", encoding="utf8") as f:
        rows = ",\n".join(f"{json.dumps(n)}: [\n" + ",\n".join(json.dumps(r) for r in e) + "\n]" for n, e in expected.items())
        f.write('{"pattern": %s,\n"texts": %s,\n%s}\n' % (json.dumps(pattern), json.dumps(texts), rows))


main()
