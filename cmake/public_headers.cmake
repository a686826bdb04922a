# What a host that embeds Rondo may include; all other headers stay in this tree. One of these includes, of ours, only
# others of these (tests/house), and docs/embedding.md says what for.
set(RONDO_PUBLIC_HEADERS
  actors/ask.hpp
  actors/conversation_info.hpp
  actors/engine.hpp
  actors/front.hpp
  actors/turn_events.hpp
  config/attention_methods.hpp
  config/decode_methods.inc
  config/prefill_methods.inc
  config/result.hpp
  config/round_methods.inc
  config/settings.hpp
  model/format/answer_format.hpp
  model/generate_options.hpp
  model/sampling_params.hpp
  model/text/chat_message.hpp
  model/tools/tool_use.hpp)
