#include "config/yaml_tree.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <sstream>
#include <utility>

#include "config/limits.hpp"

namespace rondo {

namespace {

/// The exception that leads out of yaml-cpp's callbacks; it never leaves this file.
struct Refused {
    Error error;
};

class Places {
public:
    Places(const std::string& where, int first_line) : where_(where), first_line_(first_line) {}
    std::string at(int line) const {
        const int number = line + first_line_;
        return number > 0 ? where_ + ":" + std::to_string(number) : where_;
    }
    std::string at(const YAML::Mark& mark) const { return at(std::max(mark.line, 0)); }

private:
    const std::string& where_;
    int first_line_;
};

/// `shown` without the quotes.
std::string bare(std::string_view text) {
    const std::string quoted = shown(text);
    return quoted.substr(1, quoted.size() - 2);
}

/// Builds the tree from the parser's events, and refuses too large a document while the tree is still small.
class Builder : public YAML::EventHandler {
public:
    explicit Builder(const Places& places) : places_(places) {}

    YamlNode take() { return std::move(root_); }

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (documents_++ > 0) refuse(mark, "has a second document, must be one");
        root_.place = places_.at(mark);
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        check(mark, "", anchor);
        add(mark, YamlNode::Kind::nothing, "", false);
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark); }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& text) override {
        check(mark, tag, anchor);
        add(mark, YamlNode::Kind::scalar, text, tag == "!");
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        check(mark, tag, anchor);
        open(mark, YamlNode::Kind::list);
    }
    void OnSequenceEnd() override { frames_.pop_back(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        check(mark, tag, anchor);
        open(mark, YamlNode::Kind::map);
    }
    void OnMapEnd() override { frames_.pop_back(); }
    void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_anchor(mark); }

private:
    /// A list or map being filled. Its node stays where it is, since what holds it grows only after it is complete.
    struct Frame {
        YamlNode* node;
        bool has_key = false;
        std::string key;
        std::string key_place;
    };

    [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& what) const {
        std::string path;
        const auto append = [&](const std::string& key) {
            if (!key.empty()) path += (path.empty() ? "" : ".") + key;
        };
        for (const Frame& frame : frames_) append(frame.node->key);
        if (!frames_.empty() && frames_.back().has_key) append(frames_.back().key);
        const std::string subject = path.empty() ? "the document" : bare(path);
        throw Refused{make_error(ErrorCode::invalid_argument, places_.at(mark) + ": " + subject + ": " + what)};
    }

    [[noreturn]] void refuse_anchor(const YAML::Mark& mark) const {
        refuse(mark, "anchors (&) and aliases (*) are not read, write the value out");
    }

    void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
        if (anchor != 0) refuse_anchor(mark);
        // "?" is a plain value, "!" a value in quotes; any other tag stands in the document.
        if (!tag.empty() && tag != "?" && tag != "!") refuse(mark, "tags (!) are not read, write the value alone");
        if (++values_ > limits::settings_values_max)
            refuse(mark, "has more than " + std::to_string(limits::settings_values_max) + " values");
    }

    YamlNode* add(const YAML::Mark& mark, YamlNode::Kind kind, const std::string& text, bool quoted) {
        YamlNode node{kind, {}, text, quoted, places_.at(mark), {}};
        if (frames_.empty()) {
            root_ = std::move(node);
            return &root_;
        }
        Frame& frame = frames_.back();
        if (frame.node->kind == YamlNode::Kind::map && !frame.has_key) {
            take_key(mark, frame, node);
            return nullptr;
        }
        node.key = std::exchange(frame.key, {});
        node.place = frame.key_place;
        frame.has_key = false;
        frame.node->children.push_back(std::move(node));
        return &frame.node->children.back();
    }

    void take_key(const YAML::Mark& mark, Frame& frame, const YamlNode& node) {
        if (node.kind != YamlNode::Kind::scalar) refuse(mark, "a key must be a word; is a bracket left open?");
        if (node.text == "<<") refuse(mark, "merge keys (<<) are not read, write the values out");
        const YamlNode* before = frame.node->find(node.text);
        frame.key = node.text;
        frame.key_place = node.place;
        frame.has_key = true;
        if (before != nullptr) refuse(mark, "given twice, first at " + before->place);
    }

    void open(const YAML::Mark& mark, YamlNode::Kind kind) {
        if (frames_.size() >= limits::settings_depth_max)
            refuse(mark, "is nested deeper than " + std::to_string(limits::settings_depth_max));
        YamlNode* node = add(mark, kind, "", false);
        frames_.push_back({node, false, {}, {}});
    }

    const Places& places_;
    YamlNode root_;
    std::vector<Frame> frames_;
    size_t values_ = 0;
    int documents_ = 0;
};

/// Bounds the text and refuses control characters: yaml-cpp takes byte 4 for the end of the text, and a NUL means
/// UTF-16.
Status check_text(std::string_view text, const std::string& where, const Places& places) {
    if (text.size() > limits::settings_bytes_max)
        return make_error(ErrorCode::invalid_argument, where + ": is " + std::to_string(text.size()) +
                                                           " bytes, must be at most " +
                                                           std::to_string(limits::settings_bytes_max));
    const auto bad = std::find_if(text.begin(), text.end(), [](unsigned char c) {
        return (c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7F;
    });
    if (bad == text.end()) return {};
    return make_error(ErrorCode::invalid_argument, places.at(static_cast<int>(std::count(text.begin(), bad, '\n'))) +
                                                       ": has the control character " +
                                                       shown(std::string_view(&*bad, 1)) + ", must be UTF-8 text");
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view child) const {
    const auto found = std::ranges::find(children, child, &YamlNode::key);
    return found == children.end() ? nullptr : &*found;
}

YamlNode* YamlNode::find(std::string_view child) {
    return const_cast<YamlNode*>(std::as_const(*this).find(child));
}

std::string shown(std::string_view text) {
    constexpr size_t bytes_max = 60;
    std::string out = "\"";
    for (const char c : text.substr(0, bytes_max)) {
        if (c >= ' ' && c <= '~') {
            out += c;
        } else {
            char escape[5];
            std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(c));
            out += escape;
        }
    }
    return out + (text.size() > bytes_max ? "...\"" : "\"");
}

Result<YamlNode> parse_yaml(std::string_view text, const std::string& where, int first_line) {
    const Places places(where, first_line);
    RONDO_TRY(check_text(text, where, places));
    const auto invalid = [&](const std::string& place, std::string_view what) {
        return make_error(ErrorCode::invalid_argument, place + ": not valid YAML: " + bare(what));
    };
    try {
        std::istringstream stream{std::string(text)};
        YAML::Parser parser(stream);
        Builder builder(places);
        while (parser.HandleNextDocument(builder)) continue;
        YamlNode root = builder.take();
        if (root.place.empty()) root.place = places.at(0);
        return root;
    } catch (Refused& refused) {
        return std::move(refused.error);
    } catch (const YAML::Exception& exception) {
        return invalid(places.at(exception.mark), exception.msg);
    } catch (const std::exception& exception) {
        return invalid(where, exception.what());
    }
}

}  // namespace rondo
