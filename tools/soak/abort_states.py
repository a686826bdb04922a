"""In which state a turn was when its client left, by what the server's figures say of that turn alone."""

STATES = ("queued", "restoring", "gated", "prefill", "decode", "storing", "putting away")
ENDS = ("abort", "stop", "length", "error")
RESTORED = ("found", "restored", "not_worth", "failed")


class Figures:
    """Of /metrics at one moment."""

    def __init__(self, metrics):
        self.ends = {end: metrics.get(f"request_success_total:{end}", 0) for end in ENDS}
        self.let_in_tokens = metrics["prompt_tokens_total"]
        self.said_tokens = metrics["generation_tokens_total"]
        self.prefill_s = metrics["request_prefill_time_seconds_sum"]
        self.decode_s = metrics["request_decode_time_seconds_sum"]
        found, *ended = (metrics[f"store_prompt_tokens_{name}_total"] for name in RESTORED)
        self.lost_tokens = found - sum(ended)  # on their way from the disk when nobody wanted them any more
        self.written_bytes = metrics["store_written_bytes_total"]

    def ended(self, before):
        return sum(self.ends.values()) - sum(before.ends.values())


def state_hit(before, after, layer_s, alone):
    """`before` the turn was asked, and `after` it had left. `alone`: no other could end meanwhile. `layer_s` is what
    one layer's keys take to come: a prompt that was with prefill for longer had begun, and waited for more."""
    aborted, ended = after.ends["abort"] - before.ends["abort"], after.ended(before)
    if ended > 1 or (ended > aborted and not alone):
        return "unclear"
    if aborted == 0:
        return "over" if ended else "before it began"
    prefill_s = after.prefill_s - before.prefill_s
    if after.said_tokens > before.said_tokens or after.decode_s > before.decode_s:
        return "decode"
    if after.lost_tokens > before.lost_tokens:
        return "gated" if prefill_s > layer_s else "restoring"
    if prefill_s > 0:
        return "prefill"
    return "queued" if after.let_in_tokens == before.let_in_tokens else "restoring"
