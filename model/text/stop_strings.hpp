#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo {

/// Cuts an answer's text at the first stop string, holding back what could still become one. The stop that is complete
/// first wins; of two complete at the same character, the longer. So the answer does not depend on how the text was cut
/// into pieces. Pieces hold whole UTF-8 characters (the detokenizer's), and then so does everything given out.
class StopStrings {
public:
    /// Not too many, none empty, none too long; else an error that names the range.
    static Status check(std::span<const std::string> stops);

    /// `stops` as `check` allows them.
    explicit StopStrings(std::vector<std::string> stops);
    /// Text that is now safe to give out; sets `stopped` when a stop string was completed (its own text is not given
    /// out, nor anything pushed later).
    /// With `armed` false nothing stops: a string that is complete by then is text like any other.
    std::string push(std::string_view text, bool& stopped, bool armed = true);
    /// What was held back, when the answer ends for another reason.
    std::string finish();

private:
    size_t held_back() const;

    std::vector<std::string> stops_;
    std::string held_;
    bool stopped_ = false;
};

}  // namespace rondo
