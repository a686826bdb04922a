#!/usr/bin/python3
"""roundtalk: synthetic multi-turn dialogues whose answers really depend on earlier rounds.

A dialogue is a list of rounds (user text, assistant text, meta). Facts are told in some rounds and asked for in later
ones; the question stands at the beginning, in the middle or at the end of its message. Names and codes are drawn anew
for every dialogue, so a model can only answer by looking back. `meta` says what kind of task a round is, which rounds
hold the evidence, and where the question stood.

The shipped model was trained on exactly these sentences: changing a word, or the order in which numbers are drawn,
changes the data that a seed stands for.
"""
import random

ADJECTIVES = ("red blue green old small tall round silver golden wooden broken quiet heavy bright dark narrow paper "
              "copper glass striped").split()
NOUNS = ("box lamp door chest jar desk clock boat bag drum tent cart ring vase bell coat safe trunk shelf crate kite "
         "bench mirror ladder basket").split()
CITIES = ("Oslo Paris Lima Cairo Quito Delhi Accra Turin Porto Basel Kyoto Dakar Hanoi Miami Perth Sofia Tunis Bergen "
          "Lagos Malmo").split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
THINGS = "tea coffee chess music cheese rain snow maps poems cards bread plums soup trains stamps jazz".split()
CONSONANTS, VOWELS = "b d f g k l m n p r s t v z".split(), "a e i o u".split()
FILLERS = [
    "The weather was calm all day.",
    "We walked along the river for a while.",
    "Nobody noticed the time.",
    "The road was long and dusty.",
    "Someone was singing in the next room.",
    "It was a slow afternoon.",
    "The train was late again.",
    "There was a smell of fresh bread.",
    "I had to look for my keys.",
    "The neighbours painted their fence.",
    "A dog barked twice and fell asleep.",
    "The market was full of people.",
    "We talked about nothing in particular.",
    "The lights went out for a minute.",
    "I read the paper and made a call.",
    "The garden needs some water.",
    "My shoes were wet from the grass.",
    "They moved the chairs to the wall.",
    "The soup was too hot to eat.",
    "It may rain later this week.",
]
SMALL_TALK = [  # what a user may say, and the answer
    (["Hello!", "Hi there.", "Good morning.", "Hey."], "Hello! What would you like to tell me?"),
    (["Thank you.", "Thanks a lot.", "Great, thanks."], "You are welcome."),
    (["How are you?", "How is it going?"], "I am fine and ready to listen."),
    (["Who are you?", "What can you do?"], "I am a small model that remembers what you tell me."),
    (["Goodbye.", "See you later.", "Bye."], "Goodbye!"),
]
TELL = {
    "code": "The code of the {} is {}.",
    "home": "{} lives in {}.",
    "likes": "{} likes {}.",
    "meet": "I meet {} on {}.",
    "pet": "The dog of {} is called {}.",
}
ASK = {
    "code": "What is the code of the {}?",
    "home": "Where does {} live?",
    "likes": "What does {} like?",
    "meet": "When do I meet {}?",
    "pet": "What is the dog of {} called?",
}
ANSWER = {**TELL, "meet": "You meet {} on {}."}
KINDS = {  # task of a round: how often
    "recall": 9, "local": 3, "list": 3, "again": 1.5, "unknown": 1.5, "chat": 0.7, "tell": 1.2,
}


def tell(key, value):
    return TELL[key[0]].format(key[1], value)


def ask(key):
    return ASK[key[0]].format(key[1])


def answer(key, value):
    return ANSWER[key[0]].format(key[1], value)


def draw_name(rng):
    name = rng.choice(CONSONANTS) + rng.choice(VOWELS) + rng.choice(CONSONANTS) + rng.choice(VOWELS)
    return (name + (rng.choice(CONSONANTS) if rng.random() < 0.5 else "")).capitalize()


def draw_code(rng):
    return "".join(rng.choice("0123456789") for _ in range(4))


def draw_object(rng):
    return f"{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"


class World:
    """What has been told so far in one dialogue: (kind, subject) -> (value, round). No two subjects are the same."""

    def __init__(self, rng):
        self.rng = rng
        self.facts = {}
        self.people = []
        self.order = []  # keys as they were first told

    def new_person(self):
        while True:
            name = draw_name(self.rng)
            if name not in self.people:
                self.people.append(name)
                return name

    def draw_fact(self, kind):
        rng = self.rng
        if kind == "code":
            return ("code", draw_object(rng)), draw_code(rng)
        who = rng.choice(self.people) if self.people and rng.random() < 0.3 else self.new_person()
        # Every kind's value is drawn, whichever is kept: that is the order of draws the shipped model was trained with.
        values = {"home": rng.choice(CITIES), "likes": rng.choice(THINGS), "meet": rng.choice(DAYS),
                  "pet": draw_name(rng)}
        return (kind, who), values[kind]

    def new_fact(self, current):
        """Tells one more fact in round `current`; its key, or nothing when fifty draws all met a known one."""
        kind = self.rng.choices(["code", "home", "likes", "meet", "pet"], [5, 3, 2, 2, 2])[0]
        for _ in range(50):
            key, value = self.draw_fact(kind)
            if key not in self.facts:
                self.facts[key] = (value, current)
                self.order.append(key)
                return key
        return None

    def correct_one(self, current, told):
        """Changes a fact of an earlier message now and then; the sentence that says so, or nothing."""
        rng = self.rng
        if not self.order or rng.random() >= 0.12:
            return None
        key = rng.choice(self.order)
        if key in told or key[0] not in ("code", "home", "meet"):
            return None
        values = {"code": draw_code(rng), "home": rng.choice(CITIES), "meet": rng.choice(DAYS)}
        self.facts[key] = (values[key[0]], current)
        return "Correction: " + tell(key, values[key[0]])

    def question_about(self, keys):
        """Question, answer and evidence for one of `keys`."""
        key = self.rng.choice(keys)
        value, told_in = self.facts[key]
        return ask(key), answer(key, value), [told_in]

    def question_for_list(self):
        rng = self.rng
        if rng.random() < 0.5:
            keys = self.order[-rng.choice([2, 3, 4, 6]):]
        else:
            keys = self.order[:rng.choice([2, 3, 4])]
        end = "first" if keys[0] is self.order[0] and len(keys) < len(self.order) else "last"
        evidence = sorted({self.facts[key][1] for key in keys})
        text = " ".join(answer(key, self.facts[key][0]) for key in keys)
        return f"Repeat the {end} {len(keys)} things I told you.", text, evidence

    def question_for_unknown(self):
        """A question nobody told the answer of; or, where chance meets a known fact, a recall."""
        rng = self.rng
        key = rng.choice([("home", self.new_person()), ("likes", self.new_person()), ("code", draw_object(rng))])
        if key in self.facts:
            value, told_in = self.facts[key]
            return "recall", ask(key), answer(key, value), [told_in]
        return "unknown", ask(key), "You have not told me that.", []


def place(rng, question, sentences, where):
    """One message: the question before, among or after the sentences."""
    if not sentences:
        return question
    if where == "begin":
        parts = [question] + sentences
    elif where == "end":
        parts = sentences + [question]
    else:
        i = rng.randrange(1, len(sentences)) if len(sentences) > 1 else 1
        parts = sentences[:i] + [question] + sentences[i:]
    return " ".join(parts)


def told_sentences(rng, world, current, facts_per_round, filler):
    told = []
    if rng.random() < 0.75 or current == 0:
        told = [key for key in (world.new_fact(current) for _ in range(rng.randint(*facts_per_round))) if key]
    sentences = [tell(key, world.facts[key][0]) for key in told]
    correction = world.correct_one(current, told)
    if correction:
        sentences.append(correction)
    for _ in range(rng.randint(*filler)):
        sentences.insert(rng.randrange(len(sentences) + 1), rng.choice(FILLERS))
    return sentences


def ask_something(world, kind, current, answers):
    """(kind, question, answer, rounds of evidence); the question is empty when the user only tells."""
    if kind in ("recall", "local"):
        wanted = [key for key in world.order if (world.facts[key][1] < current) == (kind == "recall")]
        return kind, *world.question_about(wanted or world.order)
    if kind == "list":
        return kind, *world.question_for_list()
    if kind == "again":
        last = answers[-1] if answers else "I have not answered yet."
        return kind, "What was your last answer?", last, [current - 1]
    if kind == "unknown":
        return world.question_for_unknown()
    return kind, "", "Noted.", []


def dialogue(seed, rounds, facts_per_round=(1, 4), filler=(0, 4), kinds=None, where=None):
    """One dialogue of so many rounds. kinds and where pin the task or the question's place; None draws them."""
    rng = random.Random(seed)
    world = World(rng)
    out, answers = [], []
    for current in range(rounds):
        spot = where or rng.choice(["begin", "middle", "end"])
        kind = rng.choice(kinds) if kinds else rng.choices(list(KINDS), list(KINDS.values()))[0]
        if current == 0 and kind in ("recall", "again", "chat"):
            kind = "local"
        if kind == "chat":
            said, reply = rng.choice(SMALL_TALK)
            user, evidence = rng.choice(said), []
        else:
            sentences = told_sentences(rng, world, current, facts_per_round, filler)
            kind, question, reply, evidence = ask_something(world, kind, current, answers)
            if question:
                user = place(rng, question, sentences, spot)
            else:
                user = " ".join(sentences or [rng.choice(FILLERS)])
        out.append((user, reply, {"kind": kind, "where": spot, "evidence": evidence}))
        answers.append(reply)
    return out


def render(rounds, answer_last=True):
    text = ""
    for i, (user, reply, _) in enumerate(rounds):
        text += f"<|user|>{user}<|end|><|assistant|>"
        if i + 1 < len(rounds) or answer_last:
            text += f"{reply}<|end|>"
    return text


def main():
    for seed in range(3):
        for user, reply, meta in dialogue(seed, 5):
            print("U:", user, "\nA:", reply, "  ", meta)
        print("---")


if __name__ == "__main__":
    main()
