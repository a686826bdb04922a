#include "model/attention/watershed.hpp"

#include <string>

namespace rondo {

namespace {

/// Models by their shapes, and their watersheds.
struct KnownWatershed {
    int layers;
    int64_t width, vocabulary;
    int watershed;
};

constexpr KnownWatershed known[] = {
    {10, 256, 640, 5},        // the demo model, as measured (examples/demo_model/README.md)
    {24, 896, 151'936, 11},   // Qwen2.5 0.5B, and the others as the paper on Round Attention has them
    {28, 1536, 151'936, 13},  // 1.5B
    {36, 2048, 151'936, 12},  // 3B
    {28, 3584, 152'064, 10},  // 7B
    {48, 5120, 152'064, 19},  // 14B
    {80, 8192, 152'064, 18},  // 72B
    {32, 4096, 128'256, 5},   // Llama 3 8B
    {80, 8192, 128'256, 5},   // 70B
    {16, 2048, 128'256, 5},   // Llama 3.2 1B
    {28, 3072, 128'256, 5},   // 3B
};

}  // namespace

Result<int> watershed_layer(const ModelSpec& spec, const RoundSettings& settings) {
    const std::string key = "pipeline.rounds.watershed_layer";
    if (settings.watershed_layer > 0) {
        if (settings.watershed_layer < spec.layers) return settings.watershed_layer;
        return make_error(ErrorCode::out_of_range, key + ": is " + std::to_string(settings.watershed_layer) +
                                                       "; the model has " + std::to_string(spec.layers) +
                                                       " layers, and it must be below that");
    }
    for (const KnownWatershed& model : known) {
        if (model.layers == spec.layers && model.width == spec.width && model.vocabulary == spec.vocabulary)
            return model.watershed;
    }
    return make_error(ErrorCode::invalid_argument,
                      key +
                          ": is 0, and nothing is known of this model; it must be set: `rondo inspect attention` "
                          "measures it");
}

}  // namespace rondo
