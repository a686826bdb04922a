#include "actors/random_id.hpp"

#include <cstddef>
#include <random>

namespace rondo {

std::string random_id(std::string_view prefix) {
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    constexpr size_t characters = 24;  // as OpenAI's calls have
    static thread_local std::mt19937_64 random = [] {
        std::random_device device;
        std::seed_seq seeds{device(), device(), device(), device()};
        return std::mt19937_64(seeds);
    }();
    std::string id(prefix);
    for (size_t i = 0; i < characters; ++i) id += letters[random() % letters.size()];
    return id;
}

}  // namespace rondo
