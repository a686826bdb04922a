"""A client who keeps his conversation himself, and sends all of it each time: the server knows it by its ids alone."""
from script import Script
from talk import Lost


class Resender(Script):
    async def run(self):
        said, turn = [], 0  # messages
        while turn < self.turns:
            try:
                said = await self.say(self.changed(said))
                turn += 1
            except Lost:
                self.log.append("lost")
                await self.phase.up.wait()
                self.generation = self.phase.generation

    def changed(self, said):
        """What he has kept, now and then cut short, or with an answer that he has written himself."""
        said, how = list(said), self.random.random()
        if said and how < 0.1:
            said = said[:2 * self.random.randrange(len(said) // 2)]
            self.log.append(f"cut to {len(said)} messages")
        elif said and how < 0.2:
            place = 2 * self.random.randrange(len(said) // 2) + 1
            said[place] = {"role": "assistant", "content": "Noted."}
            self.log.append(f"message {place} is another")
        return said

    async def say(self, said):
        """Returns all that was said."""
        encode = self.phase.vocabulary.encode
        messages = [*said, {"role": "user", "content": self.text()}]
        prompt = await encode({"messages": messages})
        if len(prompt) + self.phase.answer_max > self.phase.conversation_max:
            return []
        body = self.body(messages)
        kind = self.random.choices(["stream", "whole", "leave"], [50, 30, 20])[0]
        self.log.append(f"resender {kind} {messages[-1]['content']!r} {body['max_tokens']}")
        how = {}
        if kind == "leave":
            how = {"leave": (self.random.randrange(40), self.random.choice(["close", "reset"]))}
        if kind == "whole":
            body = self.unstreamed(body)
        history = len(await encode({"messages": said})) - 1 if said else 0  # without what invites an answer
        answer = await self.unnamed(body, prompt, messages, history, **how)
        if answer.outcome != "done":
            return said
        self.phase.figures["resent"] += bool(said)
        self.phase.figures["resent_restored_tokens"] += answer.restored_tokens
        return [*messages, {"role": "assistant", "content": answer.choices[0].text}]
