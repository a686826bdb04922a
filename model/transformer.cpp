#include "model/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "config/stopwatch.hpp"
#include "kernels/device_buffer.hpp"
#include "model/attention/sequence_attention.hpp"

namespace rondo {

namespace {

/// Of the rows that are sampled of a chunk: the same in every layer, and whatever else runs.
uint64_t seed_of(std::span<const int32_t> ids, int64_t keys) {
    uint64_t hash = 0xcbf29ce484222325ULL ^ static_cast<uint64_t>(keys);
    for (const int32_t id : ids) hash = (hash ^ static_cast<uint64_t>(id)) * 0x100000001b3ULL;
    return hash;
}

bool chooses_lines(const BatchPart& part) {
    return part.attention != nullptr && part.attention->prefill != nullptr &&
           part.attention->prefill->wanted(part.row_count(), part.end_token());
}

}  // namespace

KvShape Transformer::kv_shape(const ModelSpec& spec, DType kv_type, int lower_layers) {
    return {spec.layers, lower_layers, spec.kv_heads, {kv_type, spec.head_dim}};
}

Result<std::unique_ptr<Transformer>> Transformer::create(const Weights& weights, const KvPool& pool, Device& device,
                                                         int64_t rows_max) {
    const ModelSpec& spec = weights.spec;
    std::unique_ptr<Transformer> made(new Transformer(weights, pool, device, rows_max));
    const auto allocate = [&](Buffer& buffer, DType type, int64_t columns) -> Status {
        RONDO_ASSIGN(buffer, device.allocate(bytes_of(type, rows_max * columns)));
        return Status::ok();
    };
    const int64_t d = spec.head_dim;
    const int64_t q_columns = spec.heads * d, qkv_columns = q_columns + 2 * spec.kv_heads * d;
    const int64_t product_columns = std::max(qkv_columns, 2 * spec.ffn_width);
    RONDO_TRY(allocate(made->angles_, DType::f32, d));
    RONDO_TRY(allocate(made->input_, weights.activation, std::max({spec.width, q_columns, spec.ffn_width})));
    RONDO_TRY(allocate(made->product_, DType::f32, product_columns));
    RONDO_TRY(allocate(made->taken_, DType::f32, std::max(spec.width, q_columns)));
    RONDO_TRY(made->reserve_products());
    made->selected_.reserve(static_cast<size_t>(rows_max));
    const std::vector<double> frequency = spec.inverse_frequency();
    RONDO_ASSIGN(made->inverse_frequency_, copied_to<double>(device, frequency));
    return made;
}

Status Transformer::reserve_products() {
    std::vector<const PackedMatrix*> multiplied{&weights_.output_head()};
    for (const LayerWeights& layer : weights_.layers)
        multiplied.insert(multiplied.end(),
                          {layer.qkv.get(), layer.output.get(), layer.gate_up.get(), layer.down.get()});
    for (const PackedMatrix* const w : multiplied) {
        RONDO_TRY(device_.ops().reserve({Tensor::of(nullptr, DType::f32, rows_max_, w->outputs()),
                                         Tensor::of(nullptr, weights_.activation, rows_max_, w->inputs()), w}));
    }
    return Status::ok();
}

Status Transformer::forward(Batch& batch, LayerRange layers) {
    if (batch.rows() == 0 || layers.begin >= layers.end) return Status::ok();
    if (batch.rows() > rows_max_) {
        return make_error(ErrorCode::out_of_range, "a batch of " + std::to_string(batch.rows()) +
                                                       " rows, must be at most " + std::to_string(rows_max_));
    }
    if (batch.narrowed())
        return make_error(ErrorCode::internal, "a batch that has passed all layers; it must be laid out anew");
    Ops& ops = device_.ops();
    if (layers.begin == 0) {
        RONDO_TRY(ops.embed(batch.hidden(), batch.ids(), *weights_.embedding));
    }
    const Tensor angles = scratch(angles_, DType::f32, batch.rows(), weights_.spec.head_dim);
    {
        const Stopwatch watch(seconds_.rope);
        RONDO_TRY(ops.rope_angles(angles, batch.positions(), inverse_frequency_.as<double>()));
    }
    for (int layer = layers.begin; layer < layers.end; ++layer) {
        RONDO_TRY(attention(batch, layer));
        if (batch.rows() > 0) RONDO_TRY(feed_forward(batch, layer));
    }
    return Status::ok();
}

Status Transformer::rms_norm(const Tensor& out, const Tensor& x, const Buffer& weight) {
    const Stopwatch watch(seconds_.norm);
    return device_.ops().rms_norm(out, x, weight.as<float>(), weights_.spec.norm_eps);
}

Status Transformer::rotate(const Tensor& q, const Tensor& k, const Tensor& angles) {
    const Stopwatch watch(seconds_.rope);
    RONDO_TRY(device_.ops().rope(q, angles, weights_.spec.heads));
    return device_.ops().rope(k, angles, weights_.spec.kv_heads);
}

Status Transformer::append_kv(const Batch& batch, int layer, const Tensor& k, const Tensor& v) {
    const Stopwatch watch(seconds_.append);
    return device_.ops().append_kv(pool_.layer(layer), k, v, batch.slots(pool_.shape().group_of(layer)));
}

Status Transformer::multiply(int64_t bulk, const Tensor& out, const Tensor& x, const PackedMatrix& w, const float* bias,
                             bool accumulate) {
    const Stopwatch watch(seconds_.product);
    for (const Rows policy : {Rows::bulk, Rows::invariant}) {
        const int64_t first = policy == Rows::bulk ? 0 : bulk;
        const int64_t count = policy == Rows::bulk ? bulk : out.rows - bulk;
        if (count == 0) continue;
        RONDO_TRY(device_.ops().matmul(
            {out.slice_rows(first, count), x.slice_rows(first, count), &w, bias, accumulate, policy}));
    }
    return Status::ok();
}

AttendArgs Transformer::attend_args(const Batch& batch, int layer, int first_sequence, int sequences, Rows rows) const {
    const ModelSpec& spec = weights_.spec;
    const int64_t d = spec.head_dim;
    const KvShape& shape = pool_.shape();
    AttendArgs args;
    args.out = scratch(input_, weights_.activation, batch.rows(), spec.heads * d);
    args.q = queries(batch);
    args.heads = spec.heads;
    args.kv = pool_.layer(layer);
    args.sequences = batch.sequences(shape.group_of(layer), first_sequence, sequences);
    args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)));
    args.rows = rows;
    return args;
}

Tensor Transformer::queries(const Batch& batch) const {
    const ModelSpec& spec = weights_.spec;
    const int64_t columns = spec.heads * spec.head_dim;
    if (batch.narrowed()) return scratch(taken_, DType::f32, batch.rows(), columns);
    return scratch(product_, DType::f32, batch.rows(), columns + 2 * spec.kv_heads * spec.head_dim)
        .slice_columns(0, columns);
}

Tensor Transformer::queries_of(const Batch& batch, int sequence) const {
    return queries(batch).slice_rows(batch.first_row(sequence), batch.rows_of(sequence));
}

bool Transformer::may_narrow(const Batch& batch) const {
    if (batch.logit_rows() == batch.rows()) return false;
    // Lines are chosen for all rows of a chunk together.
    for (int s = 0; s < batch.bulk_sequences(); ++s)
        if (chooses_lines(batch.part(s))) return false;
    return true;
}

void Transformer::count_dense_prompts(const Batch& batch) {
    for (int s = 0; s < batch.bulk_sequences(); ++s) {
        const BatchPart& part = batch.part(s);
        if (part.attention == nullptr || part.attention->prefill == nullptr || chooses_lines(part)) continue;
        part.attention->prefill->count_dense(part.row_count(), part.end_token());
    }
}

Status Transformer::narrow(Batch& batch) {
    const Tensor hidden = batch.hidden(), q = queries(batch);
    batch.narrow();
    if (batch.rows() == 0) return Status::ok();
    const Tensor taken = scratch(taken_, DType::f32, batch.rows(), weights_.spec.width);
    RONDO_TRY(device_.ops().take_rows(taken, hidden, batch.logit_row_indices()));
    const size_t bytes = bytes_of(DType::f32, batch.rows() * weights_.spec.width);
    RONDO_TRY(device_.copy(batch.hidden().data, taken.data, bytes, StreamId::compute));
    return device_.ops().take_rows(queries(batch), q, batch.logit_row_indices());
}

Status Transformer::attend(const Batch& batch, int layer) {
    RONDO_TRY(look_at_rounds(batch, layer));
    RONDO_TRY(attend_prompts(batch, layer));
    return attend_answers(batch, layer);
}

Status Transformer::keep_queries(const Batch& batch, int layer, int first_sequence, int sequences) {
    for (int s = first_sequence; s < first_sequence + sequences; ++s) {
        const BatchPart& part = batch.part(s);
        if (part.attention == nullptr || part.attention->decode == nullptr) continue;
        RONDO_TRY(part.attention->decode->keep_queries(device_, layer, queries_of(batch, s), part.end_token()));
    }
    return Status::ok();
}

/// In the watershed's layer: what the rows of a message are looking at says which rounds the upper layers have.
Status Transformer::look_at_rounds(const Batch& batch, int layer) {
    for (int s = 0; s < batch.bulk_sequences(); ++s) {
        const BatchPart& part = batch.part(s);
        RoundAttention* const rounds = part.attention == nullptr ? nullptr : part.attention->rounds;
        if (rounds == nullptr || !rounds->is_watershed(layer) || !rounds->chooses(*part.kv, part.first_token)) continue;
        const AttendArgs args = attend_args(batch, layer, s, 1, Rows::bulk);
        RONDO_TRY(rounds->look(device_, *part.kv, part.first_token, queries_of(batch, s),
                               {{}, args.heads, args.kv, args.sequences, nullptr, 0, args.scale}));
    }
    return Status::ok();
}

/// Dense ones together, the others one by one.
Status Transformer::attend_prompts(const Batch& batch, int layer) {
    const int sequences = batch.bulk_sequences();
    for (int s = 0; s < sequences;) {
        if (const BatchPart& part = batch.part(s); chooses_lines(part)) {
            RONDO_TRY(part.attention->prefill->attend(
                layer, attend_args(batch, layer, s, 1, Rows::bulk), queries_of(batch, s),
                batch.block_begin(pool_.shape().group_of(layer), s), seed_of(part.ids, part.end_token()),
                part.attention->prompt_probe));
            ++s;
            continue;
        }
        int end = s + 1;
        while (end < sequences && !chooses_lines(batch.part(end))) ++end;
        const Stopwatch watch(seconds_.attend);
        RONDO_TRY(device_.ops().attend(attend_args(batch, layer, s, end - s, Rows::bulk)));
        s = end;
    }
    return Status::ok();
}

Status Transformer::attend_answers(const Batch& batch, int layer) {
    const int first = batch.bulk_sequences(), count = batch.sequence_count() - first;
    if (count == 0) return Status::ok();
    const AttendArgs args = attend_args(batch, layer, first, count, Rows::invariant);
    selected_.clear();
    bool any = false;
    for (int s = first; s < first + count; ++s) {
        const BatchPart& part = batch.part(s);
        selected_.emplace_back();
        if (part.attention != nullptr && part.attention->decode != nullptr) {
            const AttendArgs own = attend_args(batch, layer, s, 1, Rows::invariant);
            const int64_t keys = part.kv->key_of(pool_.shape().group_of(layer), part.end_token());
            const ScoreArgs step{queries_of(batch, s), own.heads, own.kv, own.sequences, nullptr, keys, own.scale};
            StepAttention& decode = *part.attention->decode;
            RONDO_ASSIGN(selected_.back(), decode.keys_of_step(layer, step, *part.kv));
            if (MassProbe* const probe = part.attention->step_probe; probe != nullptr)
                RONDO_TRY(probe->look(weights_.spec, device_, layer, step, decode, *part.kv));
        }
        any = any || selected_.back().counts != nullptr;
    }
    const Stopwatch watch(seconds_.attend);
    if (!any) return device_.ops().attend(args);
    return device_.ops().attend_selected(args, selected_.data(), pool_.atoms(pool_.shape().group_of(layer)));
}

Status Transformer::attention(Batch& batch, int layer) {
    const ModelSpec& spec = weights_.spec;
    const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
    const int64_t rows = batch.rows(), d = spec.head_dim;
    const int64_t q_columns = spec.heads * d, kv_columns = spec.kv_heads * d;
    const Tensor hidden = batch.hidden();
    const Tensor normed = scratch(input_, weights_.activation, rows, spec.width);
    const Tensor qkv = scratch(product_, DType::f32, rows, q_columns + 2 * kv_columns);
    const Tensor q = qkv.slice_columns(0, q_columns);
    const Tensor k = qkv.slice_columns(q_columns, kv_columns);
    const Tensor v = qkv.slice_columns(q_columns + kv_columns, kv_columns);
    const Tensor angles = scratch(angles_, DType::f32, rows, d);

    RONDO_TRY(rms_norm(normed, hidden, w.attention_norm));
    RONDO_TRY(multiply(batch.bulk_rows(), qkv, normed, *w.qkv, w.qkv_bias.as<float>(), false));
    if (spec.qk_norm) {
        const Stopwatch watch(seconds_.norm);
        Ops& ops = device_.ops();
        RONDO_TRY(ops.head_norm(q, w.q_norm.as<float>(), spec.heads, spec.norm_eps));
        RONDO_TRY(ops.head_norm(k, w.k_norm.as<float>(), spec.kv_heads, spec.norm_eps));
    }
    RONDO_TRY(rotate(q, k, angles));
    RONDO_TRY(append_kv(batch, layer, k, v));
    const int prompts = batch.bulk_sequences();
    RONDO_TRY(keep_queries(batch, layer, 0, prompts));
    count_dense_prompts(batch);
    if (layer + 1 == spec.layers && may_narrow(batch)) RONDO_TRY(narrow(batch));
    if (batch.rows() == 0) return Status::ok();
    RONDO_TRY(attend(batch, layer));
    RONDO_TRY(keep_queries(batch, layer, prompts, batch.sequence_count() - prompts));
    const Tensor attended = scratch(input_, weights_.activation, batch.rows(), q_columns);
    return multiply(batch.bulk_rows(), batch.hidden(), attended, *w.output, w.output_bias.as<float>(), true);
}

Status Transformer::feed_forward(Batch& batch, int layer) {
    const ModelSpec& spec = weights_.spec;
    const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
    const int64_t rows = batch.rows();
    const Tensor hidden = batch.hidden();
    const Tensor normed = scratch(input_, weights_.activation, rows, spec.width);
    const Tensor gate_up = scratch(product_, DType::f32, rows, 2 * spec.ffn_width);
    const Tensor activated = scratch(input_, weights_.activation, rows, spec.ffn_width);
    RONDO_TRY(rms_norm(normed, hidden, w.ffn_norm));
    RONDO_TRY(multiply(batch.bulk_rows(), gate_up, normed, *w.gate_up, w.gate_up_bias.as<float>(), false));
    {
        const Stopwatch watch(seconds_.activate);
        RONDO_TRY(device_.ops().silu_mul(activated, gate_up));
    }
    return multiply(batch.bulk_rows(), hidden, activated, *w.down, w.down_bias.as<float>(), true);
}

Status Transformer::logits(const Batch& batch, int64_t first, const Tensor& out) {
    const ModelSpec& spec = weights_.spec;
    Tensor taken = batch.narrowed() ? batch.hidden().slice_rows(first, out.rows)
                                    : scratch(taken_, DType::f32, out.rows, spec.width);
    const Tensor normed = scratch(input_, weights_.activation, out.rows, spec.width);
    if (!batch.narrowed()) RONDO_TRY(device_.ops().take_rows(taken, batch.hidden(), batch.logit_row_indices() + first));
    RONDO_TRY(rms_norm(normed, taken, weights_.final_norm));
    const int64_t bulk = std::clamp<int64_t>(batch.bulk_logit_rows() - first, 0, out.rows);
    return multiply(bulk, out, normed, weights_.output_head(), nullptr, false);
}

}  // namespace rondo
