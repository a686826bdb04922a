#include <exception>
#include <utility>

#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/files/strict_json.hpp"
#include "model/text/tokenizer_bpe.hpp"
#include "model/text/tokenizer_file.hpp"
#include "model/text/tokenizer_steps.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;
using Kind = Vocabulary::Kind;

const Json* member(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

/// Of an added token's text. Normal forms write a character as up to eleven times its bytes. Without a bound, a small
/// file with one long replacement and many tokens would fill any memory.
size_t added_text_bytes_max(std::string_view content) {
    return 64 + 16 * content.size();
}

Status read_added_token(const Json& value, const std::string& where, BpeParts& parts) {
    if (!value.is_object()) return make_error(ErrorCode::corrupt, where + " must be an object");
    const JsonFields fields(value, where, "", JsonFields::Nulls::refused);
    RONDO_ASSIGN(const std::string content, fields.text("content", ""));
    RONDO_ASSIGN(const int64_t id, fields.integer("id", 0, limits::vocabulary_max - 1));
    AddedToken token;
    token.id = static_cast<int32_t>(id);
    RONDO_ASSIGN(token.special, fields.boolean("special", false));
    RONDO_ASSIGN(token.takes_spaces_left, fields.boolean("lstrip", false));
    RONDO_ASSIGN(token.takes_spaces_right, fields.boolean("rstrip", false));
    RONDO_ASSIGN(token.single_word, fields.boolean("single_word", false));
    RONDO_ASSIGN(const bool normalized, fields.boolean("normalized", !token.special));
    if (content.empty() || content.size() > limits::added_token_bytes_max)
        return fields.wrong("content", "1 to " + std::to_string(limits::added_token_bytes_max) + " bytes of text");

    const Kind kind = token.special ? Kind::special : Kind::added;
    const int32_t known = parts.vocabulary.find(content);
    if (known >= 0 && known != id)
        return make_error(ErrorCode::corrupt, where + ": " + in_quotes(content) + " has id " + std::to_string(id) +
                                                  " here and " + std::to_string(known) + " elsewhere");
    if (known < 0) {
        const Status added = parts.vocabulary.add(id, content, kind);
        if (!added) return make_error(added.error().code, where + ": " + added.error().message);
    } else if (parts.vocabulary.kind(id) != Kind::normal) {
        return make_error(ErrorCode::corrupt, where + ": " + in_quotes(content) + " is there twice");
    }
    parts.vocabulary.set_kind(token.id, kind);
    token.text = content;
    if (normalized) {
        RONDO_ASSIGN(token.text, parts.normalizer.apply(content));
        if (const size_t most = added_text_bytes_max(content); token.text.size() > most)
            return fields.wrong("content",
                                "text that the normalizer makes no longer than " + std::to_string(most) + " bytes");
    }
    const Status added = (normalized ? parts.added_normalized : parts.added).add(std::move(token));
    return added ? added : make_error(added.error().code, where + ": " + added.error().message);
}

Status read_added_tokens(const Json& tree, const std::string& where, BpeParts& parts) {
    const Json* list = member(tree, "added_tokens");
    if (list == nullptr) return Status::ok();
    if (!list->is_array()) return make_error(ErrorCode::corrupt, where + ": added_tokens must be a list");
    for (size_t i = 0; i < list->size(); ++i)
        RONDO_TRY(read_added_token((*list)[i], where + ": added_tokens[" + std::to_string(i) + "]", parts));
    return Status::ok();
}

Status read_merges(const MergeTexts& merges, const std::string& where, BpeParts& parts) {
    for (size_t i = 0; i < merges.pairs.size(); ++i) {
        const auto& pair = merges.pairs[i];
        const std::string_view names[] = {merges.left(pair), merges.right(pair), merges.both(pair)};
        int32_t ids[3];
        for (int n = 0; n < 3; ++n) {
            ids[n] = parts.vocabulary.find(names[n]);
            if (ids[n] < 0)
                return make_error(ErrorCode::corrupt, where + ": model.merges[" + std::to_string(i) + "] " +
                                                          (n < 2 ? "names " : "makes ") + in_quotes(names[n]) +
                                                          ", which is not in the vocabulary");
        }
        // Special tokens come from the template alone, never from merging a user's words. Of a pair that is listed
        // again the last place counts, as in Hugging Face's tokenizers.
        if (parts.vocabulary.kind(ids[2]) != Kind::special) {
            RONDO_TRY(parts.merges.add(ids[0], ids[1], {static_cast<uint32_t>(i), ids[2]}));
        }
    }
    return Status::ok();
}

Status read_model_options(const JsonFields& model, const std::string& where, BpeParts& parts) {
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        RONDO_ASSIGN(const std::string value, model.text(key, ""));
        if (!value.empty())
            return make_error(ErrorCode::unsupported,
                              where + ": model." + key + " " + in_quotes(value) + " is not supported");
    }
    RONDO_ASSIGN(const double dropout, model.real("dropout", 0.0, 1.0, 0.0));
    if (dropout > 0)
        return make_error(ErrorCode::unsupported, where + ": model.dropout is for training; it must be null");
    RONDO_ASSIGN(parts.byte_fallback, model.boolean("byte_fallback", false));
    RONDO_ASSIGN(parts.fuses_unknown, model.boolean("fuse_unk", false));
    RONDO_ASSIGN(parts.ignores_merges, model.boolean("ignore_merges", false));
    RONDO_ASSIGN(const std::string unknown, model.text("unk_token", ""));
    if (model.find("unk_token") == nullptr) return Status::ok();
    parts.unknown_id = parts.vocabulary.find(unknown);
    if (parts.unknown_id < 0) return model.wrong("unk_token", "in the vocabulary");
    return Status::ok();
}

/// The model's type first: what the other parts should hold depends on it.
Result<JsonFields> model_of(const Json& tree, const std::string& where) {
    const Json* model = member(tree, "model");
    if (model == nullptr || !model->is_object())
        return make_error(ErrorCode::corrupt, where + ": model must be an object");
    const JsonFields fields(*model, where, "model.");
    // The first files named no type; of those only BPE has merges.
    RONDO_ASSIGN(const std::string type, fields.text("type", "BPE"));
    if (type != "BPE")
        return make_error(ErrorCode::unsupported,
                          where + ": model type " + in_quotes(type) + " is not supported; BPE is");
    for (const char* key : {"vocab", "merges"})
        if (model->contains(key)) return fields.wrong(key, key[0] == 'v' ? "an object" : "a list");
    return fields;
}

/// The ids that one name of a template stands for.
Status template_ids(const Json& processor, const JsonFields& item, const std::string& where,
                    const Vocabulary& vocabulary, std::vector<int32_t>& out) {
    RONDO_ASSIGN(const std::string name, item.text("id", ""));
    const Json* all = member(processor, "special_tokens");
    const Json* token = all != nullptr && all->is_object() ? member(*all, name.c_str()) : nullptr;
    const Json* ids = token != nullptr && token->is_object() ? member(*token, "ids") : nullptr;
    if (ids == nullptr || !ids->is_array())
        return make_error(ErrorCode::corrupt, where + ": special_tokens lacks the ids of " + in_quotes(name));
    for (const Json& id : *ids) {
        const bool known = id.is_number_unsigned() &&
                           id.get<uint64_t>() < static_cast<uint64_t>(limits::vocabulary_max) &&
                           vocabulary.kind(id.get<int64_t>()) != Kind::absent;
        if (!known)
            return make_error(ErrorCode::corrupt, where + ": " + in_quotes(name) + " has an id outside the vocabulary");
        if (out.size() >= limits::tokenizer_steps_max)
            return make_error(ErrorCode::out_of_range, where + ": more than " +
                                                           std::to_string(limits::tokenizer_steps_max) +
                                                           " tokens around a text, must be at most " +
                                                           std::to_string(limits::tokenizer_steps_max));
        out.push_back(id.get<int32_t>());
    }
    return Status::ok();
}

Status read_template(const Json& processor, const std::string& where, BpeParts& parts) {
    const Json* single = member(processor, "single");
    if (single == nullptr || !single->is_array())
        return make_error(ErrorCode::corrupt, where + ": single must be a list");
    std::vector<int32_t> before, after;
    bool seen_text = false;
    for (const Json& item : *single) {
        const Json* special = item.is_object() ? member(item, "SpecialToken") : nullptr;
        const Json* text = item.is_object() ? member(item, "Sequence") : nullptr;
        if (special != nullptr && special->is_object()) {
            RONDO_TRY(template_ids(processor, JsonFields(*special, where), where, parts.vocabulary,
                                   seen_text ? after : before));
        } else if (text != nullptr && !seen_text) {
            seen_text = true;
        } else {
            return make_error(ErrorCode::unsupported, where + ": single must hold special tokens and one Sequence");
        }
    }
    if (!seen_text) return make_error(ErrorCode::corrupt, where + ": single has no Sequence");
    parts.before.insert(parts.before.begin(), before.begin(), before.end());
    parts.after.insert(parts.after.end(), after.begin(), after.end());
    return Status::ok();
}

Status read_post_processor(const Json* value, const std::string& where, BpeParts& parts) {
    RONDO_ASSIGN(const auto steps, flatten_steps(value, "processors", where));
    for (const Json* step : steps) {
        RONDO_ASSIGN(const std::string type, JsonFields(*step, where).text("type", ""));
        // ByteLevel moves offsets, which nothing here asks for.
        if (type == "ByteLevel") continue;
        if (type != "TemplateProcessing")
            return make_error(ErrorCode::unsupported, where + ": type " + in_quotes(type) + " is not supported");
        RONDO_TRY(read_template(*step, where, parts));
    }
    return Status::ok();
}

Result<BpeParts> read_parts(std::string_view json, const std::string& where) {
    RONDO_ASSIGN(TokenizerFile file, read_tokenizer_file(json, where));
    RONDO_ASSIGN(const JsonFields model, model_of(file.tree, where));
    if (file.vocabulary.size() == 0) return make_error(ErrorCode::corrupt, where + ": model.vocab is missing or empty");
    BpeParts parts;
    parts.vocabulary = std::move(file.vocabulary);
    RONDO_TRY(read_normalizer(member(file.tree, "normalizer"), where + ": normalizer", parts.normalizer));
    RONDO_TRY(read_added_tokens(file.tree, where, parts));
    RONDO_TRY(read_model_options(model, where, parts));
    RONDO_TRY(read_merges(file.merges, where, parts));
    RONDO_TRY(read_pretokenizer(member(file.tree, "pre_tokenizer"), where + ": pre_tokenizer", parts.pretokenizer));
    RONDO_TRY(read_decoder(member(file.tree, "decoder"), where + ": decoder", parts.decoding));
    RONDO_TRY(read_post_processor(member(file.tree, "post_processor"), where + ": post_processor", parts));
    return parts;
}

void put_around(const AroundText& around, BpeParts& parts) {
    for (const auto& [token, ids] :
         {std::pair(&around.before, &parts.before), std::pair(&around.after, &parts.after)}) {
        if (!token->has_value()) continue;
        const int32_t id = (*token)->empty() ? -1 : parts.vocabulary.find(**token);
        if (!(*token)->empty() && id < 0) continue;  // there is no such token: what the file says stays
        ids->clear();
        if (id >= 0) ids->push_back(id);
    }
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> tokenizer_from_json(std::string_view json, const std::string& where,
                                                       const std::optional<AroundText>& around) {
    try {
        RONDO_ASSIGN(BpeParts parts, read_parts(json, where));
        if (around) put_around(*around, parts);
        return std::unique_ptr<Tokenizer>(std::make_unique<BpeTokenizer>(std::move(parts)));
    } catch (const std::exception& e) {
        return make_error(ErrorCode::internal, where + ": " + in_quotes(e.what()));
    }
}

}  // namespace rondo
