#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo::cli::eval {

/// "a,b", none of them twice: answers that stand there twice would look like more evidence.
template <class Item>
Result<std::vector<Item>> parse_list(const std::string& flag, const std::string& list,
                                     Result<Item> (*parse)(std::string_view)) {
    std::vector<Item> items;
    for (size_t begin = 0; begin <= list.size();) {
        const size_t end = std::min(list.find(',', begin), list.size());
        RONDO_ASSIGN(const Item item, parse(std::string_view(list).substr(begin, end - begin)));
        if (std::ranges::find(items, item) != items.end())
            return make_error(ErrorCode::invalid_argument, flag + " " + list + ": each must be there only once");
        items.push_back(item);
        begin = end + 1;
    }
    return items;
}

}  // namespace rondo::cli::eval
