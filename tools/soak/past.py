"""What a conversation has held, and since when its client knew: after a kill the server has one of these states."""
import math


def told(rounds):
    """As the server lists them."""
    return [(one.user, one.text) for one in rounds]


class Past:
    """Of a conversation that nobody has begun yet."""

    def __init__(self):
        self.states = [(-math.inf, [])]

    def add(self, when, rounds):
        """`when` is infinite for what was asked for and is not answered yet."""
        self.states.append((when, list(rounds)))

    def since(self, moment):
        """What its client knew of at that moment, and all that came later."""
        last = max(at for at, (when, _) in enumerate(self.states) if when <= moment)
        return [rounds for _, rounds in self.states[last:]]

    def found(self, listed, moment):
        """The longest of these with which a list of (what was asked, the answer) begins; None: it begins with none."""
        fits = [rounds for rounds in self.since(moment) if told(rounds) == listed[:len(rounds)]]
        return list(max(fits, key=len)) if fits else None
