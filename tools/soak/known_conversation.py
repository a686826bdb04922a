"""What a conversation must hold, as ids. They are kept beside the server's, and by other means than its own.

Written for the demo model's template, `<|role|>text<|end|>`: special tokens part its texts, so what stands between two
of them is encoded the same alone and in place."""
import dataclasses
import json
import os


class Vocabulary:
    """The demo model's tokens as bytes. `encode` is a server's /tokenize, remembered."""

    def __init__(self, folder, encode):
        with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as file:
            data = json.load(file)
        letters = [*range(33, 127), *range(161, 173), *range(174, 256)]
        alphabet = {chr(byte): byte for byte in letters}  # GPT-2's, which shows the other bytes as letters from 256 on
        alphabet |= {chr(256 + i): byte for i, byte in enumerate(b for b in range(256) if b not in letters)}
        self.specials = {token["id"]: token["content"] for token in data["added_tokens"]}
        self.bytes_of = {id: bytes(alphabet[letter] for letter in token)
                         for token, id in data["model"]["vocab"].items() if id not in self.specials}
        self.id_of = {spelled: id for id, spelled in self.bytes_of.items()}
        self.id_of |= {content.encode(): id for id, content in self.specials.items()}
        self.end = self.id_of[b"<|end|>"]
        self.encode = encode

    def id_shown_as(self, token):
        """None for what JSON shows alike for several ids: bytes that are no UTF-8."""
        return self.id_of.get(token.encode())

    def text(self, ids):
        """The text of some ids; special tokens have none."""
        return b"".join(self.bytes_of.get(id, b"") for id in ids).decode("utf-8", "replace")


@dataclasses.dataclass
class Round:
    user: str      # what was asked, as the server lists it
    messages: list  # what was asked, as it was sent
    asked: list    # ids from the end of the round before to the answer's first
    text: str      # of the answer
    kept: list     # ids of the answer, as a later prompt has them, but for the end token
    tokens: int    # the server's figure


class KnownConversation:
    def __init__(self, vocabulary):
        self.vocabulary = vocabulary
        self.preamble = []
        self.rounds = []
        self.system = ""

    async def set_system(self, text):
        self.system = text
        ids = await self.vocabulary.encode({"messages": [{"role": "system", "content": text}]})
        self.preamble = ids[:-1]  # without what invites an answer

    async def prompt(self, messages):
        ids = list(self.preamble)
        for one in self.rounds:
            ids += [*one.asked, *one.kept, self.vocabulary.end]
        return ids + (await self.vocabulary.encode({"messages": messages}) if messages else [])

    async def tokens(self):
        return len(await self.prompt([]))

    async def add(self, user, messages, answer_ids, text, tokens):
        asked = await self.vocabulary.encode({"messages": messages})
        self.rounds.append(Round(user, messages, asked, text, await self.kept(answer_ids, text), tokens))

    async def kept(self, ids, text):
        """A round keeps the ids it was computed with as far as they spell what its user was told; a special token at
        the end was not said."""
        if ids and ids[-1] in self.vocabulary.specials:
            ids = ids[:-1]
        count = len(ids)
        while not text.startswith(self.vocabulary.text(ids[:count])):
            count -= 1
        rest = text[len(self.vocabulary.text(ids[:count])):]
        return ids[:count] + (await self.vocabulary.encode({"text": rest}) if rest else [])

    async def without(self, dropped):
        """The rounds that are left. Those behind the first one dropped are encoded anew from their texts."""
        first = min(dropped)
        behind = [one for number, one in enumerate(self.rounds) if number > first and number not in dropped]
        anew = [await self.vocabulary.encode({"text": one.text}) if one.text else [] for one in behind]
        return self.rounds[:first] + [dataclasses.replace(one, kept=kept) for one, kept in zip(behind, anew)]

    def history(self):
        """All that was said, as a client would resend it."""
        messages = [{"role": "system", "content": self.system}] if self.system else []
        for one in self.rounds:
            messages += [*one.messages, {"role": "assistant", "content": one.text}]
        return messages

    def copy(self):
        other = KnownConversation(self.vocabulary)
        other.preamble, other.system, other.rounds = self.preamble, self.system, list(self.rounds)
        return other
