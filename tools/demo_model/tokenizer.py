"""The demo model's tokenizer: byte-level BPE, trained on a few hundred dialogues of roundtalk."""
import re
from collections import Counter

SPECIAL = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
SPLIT = r"'(?:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# The same for Python's re, which knows no classes of Unicode; roundtalk is ASCII.
WORDS = re.compile(
    r"'(?:[sdmt]|ll|ve|re)|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIALS = re.compile("(" + "|".join(re.escape(token) for token in SPECIAL) + ")")
CHAT_TEMPLATE = ("{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")


def byte_alphabet():
    """The printable character each byte is written as in byte-level BPE."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    out, others = {}, 0
    for byte in range(256):
        if byte in keep:
            out[byte] = chr(byte)
        else:
            out[byte] = chr(256 + others)
            others += 1
    return out


ALPHABET = byte_alphabet()
BYTES = {char: byte for byte, char in ALPHABET.items()}


def spell(word):
    return [ALPHABET[byte] for byte in word.encode()]


def merge_pair(symbols, pair):
    i = 0
    while i + 1 < len(symbols):
        if (symbols[i], symbols[i + 1]) == pair:
            symbols[i:i + 2] = [symbols[i] + symbols[i + 1]]
        else:
            i += 1


class Tokenizer:
    def __init__(self, merges):
        self.merges = [tuple(pair) for pair in merges]
        self.rank = {pair: i for i, pair in enumerate(self.merges)}
        self.tokens = list(ALPHABET.values()) + [left + right for left, right in self.merges] + SPECIAL
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.cache = {}

    @staticmethod
    def train(texts, size):
        words = Counter()
        for text in texts:
            for part in SPECIALS.split(text):
                if part not in SPECIAL:
                    words.update("".join(spell(word)) for word in WORDS.findall(part))
        spelled = {word: list(word) for word in words}
        merges = []
        while 256 + len(merges) + len(SPECIAL) < size:
            pairs = Counter()
            for word, symbols in spelled.items():
                for pair in zip(symbols, symbols[1:]):
                    pairs[pair] += words[word]
            if not pairs:
                break
            best, count = max(pairs.items(), key=lambda item: (item[1], item[0]))
            if count < 2:
                break
            merges.append(best)
            for symbols in spelled.values():
                merge_pair(symbols, best)
        return Tokenizer(merges)

    def encode_word(self, word):
        if word not in self.cache:
            symbols = spell(word)
            never = len(self.merges)
            while len(symbols) > 1:
                rank, i = min((self.rank.get(pair, never), i) for i, pair in enumerate(zip(symbols, symbols[1:])))
                if rank == never:
                    break
                symbols[i:i + 2] = [symbols[i] + symbols[i + 1]]
            if len(self.cache) > 200_000:  # names are drawn without end
                self.cache.clear()
            self.cache[word] = [self.ids[symbol] for symbol in symbols]
        return self.cache[word]

    def encode(self, text):
        out = []
        for part in SPECIALS.split(text):
            if part in SPECIAL:
                out.append(self.ids[part])
            else:
                for word in WORDS.findall(part):
                    out += self.encode_word(word)
        return out

    def decode(self, ids):
        out = bytearray()
        for token in (self.tokens[i] for i in ids):
            out += token.encode() if token in SPECIAL else bytes(BYTES[char] for char in token)
        return out.decode(errors="replace")
