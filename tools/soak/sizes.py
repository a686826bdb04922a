"""How long conversations become in a phase, and the pool that they share."""
import dataclasses
import math

from script import MESSAGE_TOKENS_MAX

ROUNDS_MAX = 20  # so that a prompt of the pool's size fits into the demo model's context (4,096 tokens)
LONG_ANSWER_TOKENS_MAX = 40
POOL_OF_LONG = 1.2  # conversations


@dataclasses.dataclass(frozen=True)
class Sizes:
    pool_mib: int
    room_tokens: int  # of the pool
    conversation_max: int  # tokens
    answer_max: int  # tokens
    is_long: bool


def short_sizes(token_bytes, pool_mib):
    """As long as the pool allows: some rounds. A token's keys and values take so many bytes."""
    room = (pool_mib << 20) // token_bytes
    conversation_max = min(int(room / 1.1), 1500)
    return Sizes(pool_mib, room, conversation_max, min(160, conversation_max // 4), False)


def long_sizes(token_bytes, rounds):
    """Conversations of so many rounds, each as long as a round may be, and a pool with hardly more room than for one
    of them."""
    conversation_max = rounds * (MESSAGE_TOKENS_MAX + LONG_ANSWER_TOKENS_MAX)
    pool_mib = math.ceil(POOL_OF_LONG * conversation_max * token_bytes / 2**20)
    room = (pool_mib << 20) // token_bytes
    return Sizes(pool_mib, room, conversation_max, LONG_ANSWER_TOKENS_MAX, True)
