#pragma once

#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "model/model.hpp"
#include "model/transformer.hpp"
#include "tests/model/gguf_twin.hpp"
#include "tests/model/golden_models.hpp"
#include "tests/model/model_bytes.hpp"

/// A golden case on a device, driven batch by batch. What should not fail throws, so that tests stay short.
namespace rondo::testing {

template <class T>
T need(Result<T> result) {
    if (!result.is_ok()) throw std::runtime_error(result.error().message);
    return std::move(result).value();
}
inline void need(const Status& status) {
    if (!status.is_ok()) throw std::runtime_error(status.error().message);
}

/// The case's model with weights of this type: a folder of F32, F16 or BF16, or a Q8_0 GGUF file.
inline Model load_case(const golden::Case& model, DType weights, Device& device) {
    if (weights != DType::q8_0) return need(load_model(golden::Folder(model, weights).path(), {}, device));
    const TemporaryFolder folder;
    folder.write("twin.gguf", golden::gguf_twin(model, weights));
    return need(load_model(folder.path() / "twin.gguf", {}, device));
}

inline std::vector<int32_t> random_ids(std::mt19937& random, int64_t count, int64_t vocabulary) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary));
    return ids;
}

/// The sequence's next tokens as rows, for which it is given room.
inline BatchPart next_rows(SequenceKv& kv, std::span<const int32_t> ids, Rows rows = Rows::bulk,
                           BatchPart::Logits logits = BatchPart::Logits::last) {
    const int64_t first_token = kv.tokens();
    need(kv.extend(std::ssize(ids)));
    return {&kv, first_token, ids, rows, logits};
}

struct TinyEngine {
    struct Options {
        DType weights = DType::f32;
        DType kv = DType::f32;
        const char* device = "cpu:2";
        int lower_layers = 0;
        size_t blocks = 2048;
        Batch::Limits limits{256, 64, 256};
    };

    TinyEngine(const golden::Case& model_case, Options chosen)
        : options(chosen),
          device(need(open_device(need(parse_device(options.device))))),
          model(load_case(model_case, options.weights, *device)),
          pool(need(KvPool::create(*device, Transformer::kv_shape(model.spec, options.kv, options.lower_layers),
                                   {options.blocks, options.blocks}))),
          transformer(need(Transformer::create(*model.weights, *pool, *device, options.limits.rows_max))) {}

    Batch batch() { return need(Batch::create(*device, model.spec, options.limits)); }

    std::vector<float> logits(const Batch& batch) {
        const int64_t rows = batch.logit_rows(), vocabulary = model.spec.vocabulary;
        std::vector<float> out(static_cast<size_t>(rows * vocabulary));
        const Buffer buffer = need(device->allocate(out.size() * sizeof(float)));
        need(transformer->logits(batch, 0, Tensor::of(buffer.data(), DType::f32, rows, vocabulary)));
        need(device->copy(out.data(), buffer.data(), out.size() * sizeof(float), StreamId::compute));
        need(device->drain(StreamId::compute));
        return out;
    }

    /// The parts as one step: every logit row asked for.
    std::vector<float> run(const std::vector<BatchPart>& parts) {
        Batch step = batch();
        for (const BatchPart& part : parts) need(step.add(part));
        need(step.prepare());
        need(transformer->forward(step));
        return logits(step);
    }

    const Options options;
    std::unique_ptr<Device> device;
    Model model;
    std::unique_ptr<KvPool> pool;
    std::unique_ptr<Transformer> transformer;
};

}  // namespace rondo::testing
