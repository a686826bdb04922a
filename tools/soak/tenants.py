"""Who asks: tenants with a key each, who ask the same texts and must not see anything of each other."""
import dataclasses
import itertools
import os


@dataclasses.dataclass
class Tenant:
    name: str
    key: str | None  # None: the server lets everybody in
    live: set = dataclasses.field(default_factory=set)  # ids of conversations that it has rounds in
    gone: set = dataclasses.field(default_factory=set)  # ids of conversations that are deleted for certain
    began: dict = dataclasses.field(default_factory=dict)  # beginning of a conversation -> when it was first asked


EVERYBODY = Tenant("all", None)
# So long that no other bytes look like them.
NAMES = ("anna-of-the-soak", "bert-of-the-soak", "cleo-of-the-soak")
MESSAGE_BEGINS_TOKENS = 2  # of the demo model's template, before a message's text
SHARED = "all-of-the-soak"  # begins the ids that several tenants give to conversations of their own


def write_keys(path):
    """A server.api_keys_file with three tenants."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.writelines(f"{key_of(name)} {name}\n" for name in NAMES)
    return path


def key_of(name):
    return f"key-of-{name}-" + 24 * name[0]


def three_tenants():
    return [Tenant(name, key_of(name)) for name in NAMES]


class Ledger:
    """Which beginnings of conversations each tenant has asked: who asks one for the first time must find nothing of it,
    whatever others have asked. A beginning is a system prompt and the first message behind it."""

    def __init__(self, tenants, figures):
        self.tenants, self.figures = tenants, figures
        self.clock = itertools.count()

    def asked(self, tenant, messages):
        """Before they are sent. Returns when that is."""
        now = next(self.clock)
        tenant.began.setdefault(beginning_of(messages), now)
        return now

    def wrong(self, tenant, messages, sent, answer, system_tokens):
        """What an answer must not have found, or None. A tenant's own system prompt may be found."""
        beginning = beginning_of(messages)
        found = answer.cached_tokens + answer.restored_tokens
        if tenant.began[beginning] < sent or len(answer.choices) > 1:
            return None
        others = any(other.began.get(beginning, sent) < sent for other in self.tenants if other is not tenant)
        self.figures["first_asked"] += 1
        self.figures["first_asked_after_others"] += others
        if found > system_tokens + self.alike(tenant, beginning):
            return (f"{tenant.name} asks {beginning} for the first time, and {answer.cached_tokens} tokens were cached "
                    f"and {answer.restored_tokens} restored; none may be")
        return None

    @staticmethod
    def alike(tenant, beginning):
        """How many tokens behind the system prompt may be known of the tenant's other texts, which begin like this one:
        no more than the characters that they share, and those that begin a message."""
        system, text = beginning
        shared = max((len(os.path.commonprefix([text, other])) for before, other in tenant.began
                      if before == system and other != text), default=0)
        return shared + MESSAGE_BEGINS_TOKENS if shared > 0 else 0


def beginning_of(messages):
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    return system, next(one["content"] for one in messages if one["role"] != "system")


def not_own(tenant, listed):
    """Ids of a list that no conversation of the tenant's can have."""
    return [id for id in listed if not id.startswith((tenant.name + ".", SHARED + "."))]
